"""OpenAI's chat completions and model list. Routes only: the shapes are in ``wire``."""

from collections.abc import Callable
from difflib import get_close_matches

import orjson
from flask import Blueprint, Response, request

from Middleware.api.delivery import Delivery
from Middleware.api.errors import JSON
from Middleware.core.clock import Clock
from Middleware.core.errors import MiddlewareError, UnknownModel
from Middleware.core.events import Event, Finish, Reply
from Middleware.core.messages import ChatRequest
from Middleware.wire import openai_chat
from Middleware.wire.bodies import parse_json_object, write_json
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
    # Without exactly this type Open WebUI waits for ever (clients.md §2.1).
    stream_type = "text/event-stream; charset=utf-8"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def encoder(self, asked: ChatRequest, *, request_id: str, model: str) -> ChatEncoder:
        created = int(self._clock.timestamp())
        head = openai_chat.ChunkHead(f"chatcmpl-{request_id}", created, model)
        return ChatEncoder(head, include_usage=asked.include_usage)

    def error_body(self, error: MiddlewareError) -> bytes:
        return write_json(openai_chat.encode_error(error))


def openai_door(
    delivery: Delivery, models: Callable[[], tuple[str, ...]], clock: Clock
) -> Blueprint:
    """``models`` gives the names that are listed now."""
    door = Blueprint("openai", __name__)
    chat = ChatFormat(clock)

    @door.post("/v1/chat/completions")
    @door.post("/chat/completions")
    def chat_completions() -> Response:
        """A chat, streamed or whole."""
        body = parse_json_object(request.environ["wsgi.input"].read())
        return delivery.send(openai_chat.parse_request(body), chat)

    @door.get("/v1/models")
    @door.get("/models")
    def list_models() -> Response:
        """The names that ``model`` may have, one for each shared workflow."""
        listed = encode_models(models(), int(clock.timestamp()))
        return Response(orjson.dumps(listed), content_type=JSON)

    @door.get("/v1/models/<path:model>")
    @door.get("/models/<path:model>")
    def show_model(model: str) -> Response:
        """One of them, or 404 with the nearest names."""
        names = models()
        name = model if model in names else model.removesuffix(":latest")
        if name not in names:
            raise UnknownModel(model, tuple(get_close_matches(model, names, n=3)))
        return Response(orjson.dumps(encode_model(name, int(clock.timestamp()))), content_type=JSON)

    return door
