"""Vectors of texts, as OpenAI's and as Ollama's clients ask for them. Routes only."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from flask import Blueprint, Response

from Middleware.api.delivery import Delivery
from Middleware.api.doors.common import json_body, json_response
from Middleware.api.headers import IGNORED, clean
from Middleware.core.clock import Clock
from Middleware.wire import ollama_embed, openai_embeddings
from Middleware.wire.embeddings import Embeddings, EmbeddingsRequest
from Middleware.workflows.managers.request_runner import RequestInfo


class Embeds(Protocol):
    """Has vectors made: the EmbeddingRunner, or a fake."""

    def embed(self, asked: EmbeddingsRequest, info: RequestInfo) -> Embeddings:
        """Raises MiddlewareError."""
        ...


@dataclass(frozen=True, slots=True)
class _Door:
    delivery: Delivery
    embeds: Embeds

    def answer(
        self, name: str, asked: EmbeddingsRequest, encode: Callable[[Embeddings], bytes]
    ) -> Response:
        found = self.delivery.run(name, partial(self.embeds.embed, asked))
        response = json_response(encode(found))
        if asked.unknown_fields:
            response.headers[IGNORED] = clean(", ".join(asked.unknown_fields))
        return response


def embeddings_door(delivery: Delivery, embeds: Embeds, clock: Clock) -> Blueprint:
    """All three routes answer with what the user's ``embeddingsEndpoint`` makes."""
    blueprint = Blueprint("embeddings", __name__)
    door = _Door(delivery, embeds)

    @blueprint.post("/v1/embeddings")
    @blueprint.post("/embeddings")
    def embeddings() -> Response:
        """Vectors of one text or several."""
        asked = openai_embeddings.parse_request(json_body())
        encode = partial(openai_embeddings.encode_reply, model=asked.model, encoding=asked.encoding)
        return door.answer("openaiembeddings", asked, encode)

    @blueprint.post("/api/embed")
    def embed() -> Response:
        """The same in Ollama's shape."""
        asked, since = ollama_embed.parse_request(json_body()), clock.monotonic()

        def encode(found: Embeddings) -> bytes:
            took = int((clock.monotonic() - since) * 1e9)
            return ollama_embed.encode_reply(found, model=asked.model, total_nanoseconds=took)

        return door.answer("ollamaembed", asked, encode)

    @blueprint.post("/api/embeddings")
    def embed_one() -> Response:
        """The vector of one text, in Ollama's older shape."""
        asked = ollama_embed.parse_old_request(json_body())
        return door.answer("ollamaembed", asked, ollama_embed.encode_old_reply)

    return blueprint
