"""OpenAI's chat and text completions, and model list. Routes only: the shapes are in ``wire``."""

from typing import Any

from flask import Blueprint, Response, request

from Middleware.api.catalogue import Catalogue
from Middleware.api.delivery import Delivery
from Middleware.api.doors.common import EVENT_STREAM, json_body, json_response, wants_no_tools
from Middleware.core.clock import Clock
from Middleware.core.errors import ConfigError, MiddlewareError
from Middleware.core.events import Event, Finish, Reply
from Middleware.core.messages import ChatRequest
from Middleware.wire import anthropic_messages, openai_chat, openai_completions
from Middleware.wire.bodies import write_json
from Middleware.wire.models_list import encode_model, encode_models


class ChatEncoder:
    """One answer of ``/v1/chat/completions``."""

    __slots__ = ("_head", "_include_usage", "_opened")

    def __init__(self, head: openai_chat.ChunkHead, *, include_usage: bool) -> None:
        self._head = head
        self._include_usage = include_usage
        self._opened = False

    def event(self, event: Event) -> bytes:
        frames = openai_chat.encode_stream_event(event, self._head)
        if not self._opened:
            self._opened = True
            frames = openai_chat.role_chunk(self._head) + frames
        if isinstance(event, Finish):
            if self._include_usage and event.usage is not None:
                frames += openai_chat.usage_chunk(event.usage, self._head)
            frames += openai_chat.DONE
        return frames

    def heartbeat(self) -> bytes:
        return openai_chat.HEARTBEAT

    def failure(self, error: MiddlewareError) -> bytes:
        return openai_chat.error_frame(error) + openai_chat.DONE

    def reply(self, reply: Reply) -> bytes:
        return openai_chat.encode_reply(reply, self._head)


class ChatFormat:
    """See :class:`AnswerFormat`."""

    name = "openaichatcompletion"
    stream_type = EVENT_STREAM

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def encoder(self, asked: ChatRequest, *, request_id: str, model: str) -> ChatEncoder:
        created = int(self._clock.timestamp())
        head = openai_chat.ChunkHead(f"chatcmpl-{request_id}", created, model)
        return ChatEncoder(head, include_usage=asked.include_usage)

    def error_body(self, error: MiddlewareError) -> bytes:
        return write_json(openai_chat.encode_error(error))


class CompletionFormat:
    """The same for ``/v1/completions``."""

    name = "openaicompletion"
    stream_type = EVENT_STREAM

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def encoder(
        self, asked: ChatRequest, *, request_id: str, model: str
    ) -> openai_completions.AnswerStream:
        return openai_completions.AnswerStream(
            f"cmpl-{request_id}",
            int(self._clock.timestamp()),
            model,
            include_usage=asked.include_usage,
        )

    def error_body(self, error: MiddlewareError) -> bytes:
        return write_json(openai_completions.encode_error(error))


def openai_door(delivery: Delivery, catalogue: Catalogue, clock: Clock) -> Blueprint:
    """Chats, texts and the list of models. Embeddings have a door of their own."""
    door = Blueprint("openai", __name__)
    _add_chats(door, delivery, catalogue, clock)
    _add_models(door, catalogue, clock)
    return door


def _add_chats(door: Blueprint, delivery: Delivery, catalogue: Catalogue, clock: Clock) -> None:
    chat, completion = ChatFormat(clock), CompletionFormat(clock)

    @door.post("/v1/chat/completions")
    @door.post("/chat/completions")
    def chat_completions() -> Response:
        """A chat, streamed or whole."""
        asked = openai_chat.parse_request(json_body())
        if wants_no_tools(asked, catalogue):
            return json_response(_no_tools(asked.model, int(clock.timestamp())))
        return delivery.send(asked, chat)

    @door.post("/v1/completions")
    @door.post("/completions")
    def completions() -> Response:
        """A text to go on from, which may hold the tags of a conversation."""
        body = json_body()
        by_default = body.get("stream") is None and _streams(catalogue, body.get("model"))
        asked = openai_completions.parse_request(body, stream_by_default=by_default)
        return delivery.send(asked, completion)


def _streams(catalogue: Catalogue, model: Any) -> bool:
    """The user's ``completionsStreamByDefault``; who is meant by a wrong model is said later."""
    if model is not None and not isinstance(model, str):
        return False
    try:
        return catalogue.owner(model or "").completions_stream_by_default
    except MiddlewareError:
        return False


def _no_tools(model: str, created: int) -> dict[str, Any]:
    """What Open WebUI is told when it asks which tools to call: none."""
    message = {"role": "assistant", "content": None, "tool_calls": list[Any]()}
    return {
        "id": f"chatcmpl-opnwui-tool-{created}",
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [
            {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def _add_models(door: Blueprint, catalogue: Catalogue, clock: Clock) -> None:
    @door.get("/v1/models")
    @door.get("/models")
    def list_models() -> Response:
        """The names that ``model`` may have, one for each shared workflow."""
        names, created = catalogue.names(), int(clock.timestamp())
        if is_anthropic(request.environ):
            return json_response(anthropic_messages.encode_models(names, created))
        dialects = {name: _dialect(catalogue, name) for name in names}
        return json_response(encode_models(dialects, created))

    @door.get("/v1/models/<path:model>")
    @door.get("/models/<path:model>")
    def show_model(model: str) -> Response:
        """One of them, or an alias; 404 with the nearest names for others."""
        name, created = catalogue.find(model), int(clock.timestamp())
        if is_anthropic(request.environ):
            return json_response(anthropic_messages.encode_model(name, created))
        return json_response(encode_model(name, created, _dialect(catalogue, name)))


def _dialect(catalogue: Catalogue, name: str) -> str:
    """Of the model's user. Who cannot be read is listed all the same, as in the reference."""
    try:
        return catalogue.owner(name).dialect
    except ConfigError:
        return "reference"


def is_anthropic(environ: Any) -> bool:
    """Anthropic's clients say which version of its interface they speak, on shared paths too."""
    return "HTTP_ANTHROPIC_VERSION" in environ
