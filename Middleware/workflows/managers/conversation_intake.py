"""What happens to a client's messages before any workflow sees them (front-doors §2.2, §4)."""

import re
from dataclasses import dataclass, replace

from Middleware.config.models import User
from Middleware.config.paths import is_plain_name
from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import Message

_TAG = re.compile(r"\[DiscussionId\](.*?)\[/DiscussionId\]")
_TAG_START = "[DiscussionId]"
_ROLE_PREFIXES = {"user": "User: ", "assistant": "Assistant: "}
_ENCODED_SEPARATOR = re.compile("%(2f|5c)", re.IGNORECASE)
_LONGEST_ID = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The messages that workflows see."""

    messages: tuple[Message, ...]
    discussion_id: str | None
    filler: Message | None
    """The ``Assistant:`` that a model is to go on from. It is no part of the conversation:
    variables and counts leave it out (workflow-engine S13)."""
    chore: bool = False
    """It is one that a front end has with itself: no turn of a conversation."""


def take_in(messages: tuple[Message, ...], user: User, given_id: str | None) -> Conversation:
    """Role prefixes, discussion id and blank messages. ``given_id`` is one that a header or
    metadata named: it wins over a tag, and an unsafe one is refused instead of ignored.
    """
    if user.chat_complete_add_user_assistant:
        messages = tuple(map(_prefixed, messages))
    discussion_id = _checked(given_id)
    if any(_TAG_START in message.content for message in messages):
        tagged = _tagged_id(messages)
        discussion_id = discussion_id if discussion_id is not None else tagged
        messages = tuple(_untagged(message) for message in messages)
    return Conversation(
        # Where nothing was said at all, that is the conversation: no server takes an empty one.
        messages=tuple(message for message in messages if _says_something(message)) or messages,
        discussion_id=discussion_id,
        filler=_filler(messages, user),
    )


def _filler(messages: tuple[Message, ...], user: User) -> Message | None:
    """What ``chatCompletionAddMissingAssistantGenerator`` adds. Without the prefixes it would be
    an empty message, which no model is ever sent (workflow-engine S12).
    """
    wanted = (
        user.chat_complete_add_user_assistant
        and user.chat_completion_add_missing_assistant_generator
    )
    if not wanted or (messages and messages[-1].role == "assistant"):
        return None
    return Message("assistant", "Assistant:")


def is_safe_id(discussion_id: str) -> bool:
    """Whether an id may name a folder: one flat path component (memory-and-state §1, C-37)."""
    return (
        len(discussion_id) <= _LONGEST_ID
        # Names of chats often end with a dot; what is nothing but dots leads elsewhere.
        and is_plain_name(discussion_id.rstrip(" ."))
        and not _ENCODED_SEPARATOR.search(discussion_id)
    )


def _checked(given_id: str | None) -> str | None:
    if not given_id:
        return None
    if not is_safe_id(given_id):
        raise MalformedRequest(
            "conversation_id",
            f"must be 1 to {_LONGEST_ID} characters that can name a folder: without / \\ : or "
            "control characters, and no name of a device or of a parent folder",
        )
    return given_id


def _tagged_id(messages: tuple[Message, ...]) -> str | None:
    """The first tag counts, even when its id is unusable: then the request is stateless."""
    for message in messages:
        found = _TAG.search(message.content)
        if found:
            return found[1] if is_safe_id(found[1]) else None
    return None


def _untagged(message: Message) -> Message:
    if _TAG_START not in message.content:
        return message
    return replace(message, content=_TAG.sub("", message.content))


def _prefixed(message: Message) -> Message:
    prefix = _ROLE_PREFIXES.get(message.role)
    return replace(message, content=prefix + message.content) if prefix else message


def _says_something(message: Message) -> bool:
    return bool(
        (message.content and not message.content.isspace())
        or message.tool_calls
        or message.tool_call_id
        or message.images
    )
