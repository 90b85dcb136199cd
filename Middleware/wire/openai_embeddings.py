"""OpenAI's embeddings, both directions: the door's half and the backend's half."""

import base64
import binascii
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.bodies import write_json
from Middleware.wire.embeddings import (
    Embeddings,
    EmbeddingsRequest,
    Encoding,
    Vector,
    checked_vectors,
    parse_texts,
)
from Middleware.wire.fields import text_in, whole_in
from Middleware.wire.openai_chat_answer import encode_error
from Middleware.wire.openai_chat_stream import parse_usage
from Middleware.wire.payload_parser import parse_body

__all__ = [
    "PATH",
    "encode_error",
    "encode_reply",
    "encode_request",
    "parse_reply",
    "parse_request",
]

PATH: Final = "/v1/embeddings"

_OWN_FIELDS: Final = frozenset(("model", "input", "encoding_format", "dimensions", "user"))


# The door's half.


def parse_request(body: Mapping[str, Any]) -> EmbeddingsRequest:
    """Raises MalformedRequest naming the first field that is wrong."""
    parameters: dict[str, Any] = {}
    dimensions = whole_in(body, "dimensions", least=1)
    if dimensions is not None:
        parameters["dimensions"] = dimensions
    if text_in(body, "user"):
        parameters["user"] = body["user"]
    return EmbeddingsRequest(
        model=text_in(body, "model") or "",
        texts=parse_texts(body.get("input"), "input"),
        encoding=_encoding(body.get("encoding_format")),
        parameters=parameters,
        unknown_fields=tuple([name for name in body if name not in _OWN_FIELDS]),
    )


def encode_reply(found: Embeddings, *, model: str, encoding: Encoding) -> bytes:
    """The body of an answer. Vectors are numbers, or what their base64 hides: little-endian
    32-bit floats.
    """
    tokens = found.usage.prompt_tokens if found.usage else 0
    return write_json(
        {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": vector if encoding == "float" else encode_vector(vector),
                }
                for index, vector in enumerate(found.vectors)
            ],
            "model": model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
    )


def encode_vector(vector: Vector) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _encoding(value: Any) -> Encoding:
    if value is None or value == "float":
        return "float"
    if value == "base64":
        return "base64"
    raise MalformedRequest("encoding_format", "must be `float` or `base64`")


# The backend's half.


def encode_request(
    texts: Sequence[str], *, model: str = "", parameters: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The body for :data:`PATH`; without texts there is nothing to ask."""
    body: dict[str, Any] = {"input": list(texts), **(parameters or {})}
    return {**body, "model": model} if model else body


def parse_reply(body: bytes, expected: int, voice: BackendVoice) -> Embeddings:
    """The vectors of ``expected`` texts, in their order, whatever order they came in.

    Raises BackendRejected and BackendBadReply.
    """
    whole = parse_body(body, voice)
    if whole.get("error"):
        raise voice.reported(whole["error"])
    data = whole.get("data")
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise voice.nonsense("sent an answer without `data`.", body)
    ordered = sorted(data, key=lambda item: _index(item, voice))
    vectors = [_vector(item.get("embedding"), voice) for item in ordered]
    return Embeddings(
        vectors=checked_vectors(vectors, expected, voice), usage=parse_usage(whole.get("usage"))
    )


def _index(item: Mapping[str, Any], voice: BackendVoice) -> int:
    index = item.get("index") or 0
    if not isinstance(index, int):
        raise voice.nonsense("sent a vector whose `index` is no number.")
    return index


def _vector(value: Any, voice: BackendVoice) -> Any:
    """Numbers; some servers send base64 whatever was asked for."""
    if not isinstance(value, str):
        return value
    try:
        data = base64.b64decode(value, validate=True)
        return [number for (number,) in struct.iter_unpack("<f", data)]
    except (binascii.Error, struct.error) as error:
        raise voice.nonsense("sent a vector that is no base64 of floats.") from error
