"""ImageProcessor (nodes §14, memory-and-state §14)."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from Middleware.config.models import LooseBool, Text
from Middleware.core.events import Reply
from Middleware.core.messages import Message
from Middleware.memory.hashing import vision_hash
from Middleware.storage.discussions import DiscussionFolder
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import IntOrTemplate
from Middleware.workflows.handlers.impl.model_calls import ask, payload_of, plan_of
from Middleware.workflows.handlers.impl.standard_handler import StandardOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.live_messages import MessagesInserted
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.variables.pieces import with_author_text

logger = logging.getLogger(__name__)

NO_IMAGES: Final = "There were no images attached to the message"
SEPARATOR: Final = "\n-------------\n"
CACHE_FILE: Final = "vision_responses.json"
MARK: Final = "[IMAGE_BLOCK]"

_RECENT: Final = 10
_DEFAULT_LIMIT: Final = 20
_DEFAULT_MESSAGE: Final = (
    "[A vision system looked at the images of this conversation. It describes them like this:\n"
    f"<image_description>\n{MARK}\n</image_description>]"
)


class ImageProcessorOptions(StandardOptions):
    """Let a vision model describe the images of the conversation.

    Every image is one call, with the conversation (or the prompt) and that image alone. The
    output is all descriptions. All other properties of a Standard node apply to each call.
    """

    add_as_user_message: LooseBool = False
    """Put the descriptions into the conversation, for the nodes that follow and for the
    workflows above and below. Images stay where they are."""
    message: Text = ""
    """The text that is put in; ``[IMAGE_BLOCK]`` is where the descriptions go."""
    save_vision_responses_to_discussion_id: LooseBool = False
    """Keep descriptions with the conversation, so that an image is described once. Needs a
    discussion id. Each image message then gets a message of its own."""
    vision_scan_message_limit: IntOrTemplate = _DEFAULT_LIMIT
    """With `saveVisionResponsesToDiscussionId`: how many of the newest messages are looked at."""
    newest_message_only: LooseBool = False
    """Without it: describe the images of the newest message that has any, and no others."""


@dataclass(frozen=True, slots=True)
class _Described:
    """A message with images, and what was said of them."""

    place: int
    """In the conversation."""
    text: str


@node_type("ImageProcessor", options=ImageProcessorOptions)
class ImageProcessorHandler(NodeHandler):
    changes_conversation = True

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, ImageProcessorOptions)
        plan_of(context)
        cache = _cache_of(context) if options.save_vision_responses_to_discussion_id else None
        places = _places(context.messages, options, cached=cache is not None)
        if not places:
            return payload_of(NO_IMAGES, ())
        replies: list[Reply] = []
        if cache is None:
            described = [_Described(place, _describe(context, place, replies)) for place in places]
        else:
            described = _from_cache(context, cache, places, replies)
        shown = described
        if cache is not None and not options.add_as_user_message:
            first = len(context.messages) - _RECENT
            shown = [one for one in described if one.place >= first]
        payload = payload_of(_together(one.text for one in shown), replies)
        if not options.add_as_user_message:
            return payload
        inserted = _insertions(context, options, described, cached=cache is not None)
        return replace(payload, inserted=inserted)


def _cache_of(context: ExecutionContext) -> DiscussionFolder | None:
    scope = context.request_scope
    if scope is None:
        return None
    return scope.server.discussion(scope.config, context.discussion_id, scope.api_key)


def _places(
    messages: Sequence[Message], options: ImageProcessorOptions, *, cached: bool
) -> list[int]:
    """Where the messages stand whose images are described, oldest first."""
    places = [place for place, message in enumerate(messages) if message.images]
    if cached:
        limit = options.vision_scan_message_limit
        first = len(messages) - (limit if isinstance(limit, int) else _DEFAULT_LIMIT)
        return [place for place in places if place >= first]
    return places[-1:] if options.newest_message_only else places


def _describe(context: ExecutionContext, place: int, replies: list[Reply]) -> str:
    """The descriptions of all images of one message, each asked for by itself."""
    said = []
    for image in context.messages[place].images:
        reply = _ask_about(context, place, image)
        replies.append(reply)
        said.append(reply.text)
    return _together(said)


def _ask_about(context: ExecutionContext, place: int, image: str) -> Reply:
    options = options_of(context, ImageProcessorOptions)
    plan = plan_of(context)
    messages = tuple(
        replace(message, images=(image,) if at == place else ()) if message.images else message
        for at, message in enumerate(context.messages)
    )
    # The image being described always goes along, however old its message is (S8).
    reach = len(messages) - place
    window = reach if options.prompt or context.prompt_override else plan.prompt.last_messages
    rules = replace(plan.prompt, accept_images=True, max_images=0, last_messages=max(window, reach))
    return ask(context, messages=messages, plan=replace(plan, prompt=rules))


def _from_cache(
    context: ExecutionContext,
    cache: DiscussionFolder,
    places: Sequence[int],
    replies: list[Reply],
) -> list[_Described]:
    """What is known already, and what has to be asked for. What was asked for is kept."""
    known = cache.read_object(CACHE_FILE)
    fresh: dict[str, str] = {}
    described = []
    try:
        for place in places:
            key = vision_hash(context.messages[place])
            text = known.get(key) or fresh.get(key)
            if not text:
                text = _describe(context, place, replies)
                if text.strip():
                    fresh[key] = text
            described.append(_Described(place, str(text)))
    finally:
        # What was described before one failed need not be described again.
        if fresh:
            _keep(cache, fresh)
    return described


def _keep(cache: DiscussionFolder, fresh: dict[str, Any]) -> None:
    try:
        cache.update_object(CACHE_FILE, lambda known: known.update(fresh))
    except OSError as error:
        logger.warning("the descriptions of images could not be kept: %r", error)


def _insertions(
    context: ExecutionContext,
    options: ImageProcessorOptions,
    described: Sequence[_Described],
    *,
    cached: bool,
) -> MessagesInserted:
    def message(text: str) -> Message:
        template = context.pieces(options.message or _DEFAULT_MESSAGE)
        return Message(
            "user", with_author_text(template, lambda written: written.replace(MARK, text))
        )

    told = [one for one in described if one.text]
    if cached:
        return MessagesInserted(tuple((one.place + 1, message(one.text)) for one in told))
    if not told:
        return MessagesInserted(())
    count = len(context.messages)
    place = count - 1 if count > 1 else count
    return MessagesInserted(((place, message(_together(one.text for one in told))),))


def _together(texts: Iterable[str]) -> str:
    return SEPARATOR.join(text for text in texts if text)
