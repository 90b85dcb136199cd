"""Ollama's ``/api/embed`` and the older ``/api/embeddings``, both directions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.core.events import Usage
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.bodies import write_json
from Middleware.wire.embeddings import Embeddings, EmbeddingsRequest, checked_vectors, parse_texts
from Middleware.wire.fields import needed_text_in, whole_in
from Middleware.wire.ollama_answer import encode_error
from Middleware.wire.payload_parser import count_in, parse_body

__all__ = [
    "PATH",
    "encode_error",
    "encode_old_reply",
    "encode_reply",
    "encode_request",
    "parse_old_request",
    "parse_reply",
    "parse_request",
]

PATH: Final = "/api/embed"

_OWN_FIELDS: Final = frozenset(("model", "input", "dimensions"))
_OLD_FIELDS: Final = frozenset(("model", "prompt"))


def parse_request(body: Mapping[str, Any]) -> EmbeddingsRequest:
    """What was posted to ``/api/embed``; raises MalformedRequest."""
    dimensions = whole_in(body, "dimensions", least=0)
    return EmbeddingsRequest(
        model=needed_text_in(body, "model"),
        texts=parse_texts(body.get("input"), "input"),
        parameters={"dimensions": dimensions} if dimensions else {},
        unknown_fields=tuple([name for name in body if name not in _OWN_FIELDS]),
    )


def parse_old_request(body: Mapping[str, Any]) -> EmbeddingsRequest:
    """What was posted to ``/api/embeddings``: one text; raises MalformedRequest."""
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise MalformedRequest("prompt", "is missing" if prompt is None else "must be a text")
    return EmbeddingsRequest(
        model=needed_text_in(body, "model"),
        texts=(prompt,),
        unknown_fields=tuple([name for name in body if name not in _OLD_FIELDS]),
    )


def encode_reply(found: Embeddings, *, model: str, total_nanoseconds: int = 0) -> bytes:
    body: dict[str, Any] = {
        "model": model,
        "embeddings": list(found.vectors),
        "total_duration": total_nanoseconds,
        "load_duration": 0,
    }
    if found.usage is not None:
        body["prompt_eval_count"] = found.usage.prompt_tokens
    return write_json(body)


def encode_old_reply(found: Embeddings) -> bytes:
    return write_json({"embedding": found.vectors[0] if found.vectors else []})


def encode_request(
    texts: Sequence[str], *, model: str = "", parameters: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The body for :data:`PATH`; without texts there is nothing to ask."""
    body: dict[str, Any] = {"input": list(texts), **(parameters or {})}
    return {**body, "model": model} if model else body


def parse_reply(body: bytes, expected: int, voice: BackendVoice) -> Embeddings:
    """The vectors of ``expected`` texts; raises BackendRejected and BackendBadReply."""
    whole = parse_body(body, voice)
    if whole.get("error"):
        raise voice.reported(whole["error"])
    found = whole.get("embeddings")
    if not isinstance(found, list):
        raise voice.nonsense("sent an answer without `embeddings`.", body)
    prompt = count_in(whole, "prompt_eval_count")
    return Embeddings(
        vectors=checked_vectors(found, expected, voice),
        usage=None if prompt is None else Usage(prompt_tokens=prompt),
    )
