"""Ollama's interface. Routes only: the shapes are in ``wire``."""

from typing import Any

from flask import Blueprint, Response, request

from Middleware.api.catalogue import Catalogue
from Middleware.api.delivery import Delivery
from Middleware.api.doors.common import json_body, json_response, wants_no_tools
from Middleware.api.errors import ENVIRON_REQUEST_ID
from Middleware.core.clock import Clock
from Middleware.core.errors import MiddlewareError
from Middleware.core.messages import ChatRequest
from Middleware.wire import ollama_answer, ollama_chat, ollama_generate, ollama_listing
from Middleware.wire.bodies import write_json
from Middleware.wire.fields import flag_in, needed_text_in


class OllamaFormat:
    """See :class:`AnswerFormat`; of ``/api/chat`` or of ``/api/generate``."""

    stream_type = "application/x-ndjson"

    def __init__(self, shape: ollama_answer.Shape, clock: Clock) -> None:
        self.name = "ollamaapichat" if shape == "chat" else "ollamagenerate"
        self._shape: ollama_answer.Shape = shape
        self._clock = clock

    def encoder(
        self, asked: ChatRequest, *, request_id: str, model: str
    ) -> ollama_answer.AnswerStream:
        head = ollama_answer.AnswerHead(model, request_id)
        return ollama_answer.AnswerStream(head, self._clock, self._shape)

    def error_body(self, error: MiddlewareError) -> bytes:
        return write_json(ollama_answer.encode_error(error))


def ollama_door(delivery: Delivery, catalogue: Catalogue, clock: Clock) -> Blueprint:
    """Chats, texts, their cancellation, and what clients ask about models."""
    door = Blueprint("ollama", __name__)
    _add_chats(door, delivery, catalogue, clock)
    _add_listing(door, catalogue)
    return door


def _add_chats(door: Blueprint, delivery: Delivery, catalogue: Catalogue, clock: Clock) -> None:
    chats, texts = OllamaFormat("chat", clock), OllamaFormat("generate", clock)

    @door.post("/api/chat")
    def chat() -> Response:
        """A chat; streamed unless `stream` is false."""
        asked = ollama_chat.parse_request(json_body())
        if wants_no_tools(asked, catalogue):
            return json_response(_no_tools(asked.model, clock))
        return delivery.send(asked, chats)

    @door.post("/api/generate")
    def generate() -> Response:
        """A text to go on from, which may hold the tags of a conversation."""
        body = json_body()
        asked = ollama_generate.parse_request(body)
        if ollama_generate.only_loads(body):
            catalogue.owner(asked.model)
            head = ollama_generate.AnswerHead(asked.model, request.environ[ENVIRON_REQUEST_ID])
            loaded = ollama_generate.encode_loaded(head, clock, keep_alive=body.get("keep_alive"))
            return json_response(loaded)
        return delivery.send(asked, texts)

    @door.delete("/api/chat")
    @door.delete("/api/generate")
    def cancel() -> Response:
        """Stop the request with `request_id`, through whichever door it came."""
        request_id = needed_text_in(json_body(), "request_id")
        delivery.cancel(request_id)
        # Of a request that is over, or never was, the same is true.
        return json_response({"status": "cancelled", "request_id": request_id})


def _add_listing(door: Blueprint, catalogue: Catalogue) -> None:
    @door.get("/api/tags")
    def tags() -> Response:
        """The models, one for each shared workflow."""
        return json_response(ollama_listing.encode_tags(catalogue.names()))

    @door.get("/api/version")
    def version() -> Response:
        """The version of Ollama whose interface this is."""
        return json_response(ollama_listing.encode_version())

    @door.get("/api/ps")
    def running() -> Response:
        """Models in memory: none."""
        return json_response(ollama_listing.encode_running())

    @door.post("/api/show")
    def show() -> Response:
        """What one model can do."""
        catalogue.find(ollama_listing.parse_named(json_body()))
        return json_response(ollama_listing.encode_show())

    @door.post("/api/pull")
    def pull() -> Response:
        """Nothing to fetch: says so of a model that is there, by any of its names."""
        body = json_body()
        catalogue.find(ollama_listing.parse_named(body))
        line = write_json(ollama_listing.encode_pulled())
        if not flag_in(body, "stream", default=True):
            return json_response(line)
        return Response(line + b"\n", content_type=OllamaFormat.stream_type)


def _no_tools(model: str, clock: Clock) -> dict[str, Any]:
    """What Open WebUI is told when it asks which tools to call: none."""
    counters = ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration")
    return {
        "model": model,
        "created_at": ollama_answer.created_at(clock.timestamp()),
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        **dict.fromkeys((*counters, "eval_count", "eval_duration"), 0),
    }
