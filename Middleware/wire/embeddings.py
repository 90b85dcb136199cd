"""Vectors of texts: what every vendor's format is made of and made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from Middleware.core.errors import MalformedRequest
from Middleware.core.events import Usage
from Middleware.wire.backend_errors import BackendVoice

Encoding: TypeAlias = Literal["float", "base64"]
Vector: TypeAlias = Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsRequest:
    """What a client asked for."""

    model: str
    texts: tuple[str, ...]
    """May be empty; then no backend need be called."""
    encoding: Encoding = "float"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """``dimensions`` and the like, under OpenAI's names."""
    unknown_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """One vector a text, in the order of the texts."""

    vectors: tuple[Vector, ...]
    usage: Usage | None = None


def parse_texts(value: Any, name: str) -> tuple[str, ...]:
    """One text or a list of texts; raises MalformedRequest, for tokens too (clients A15)."""
    if isinstance(value, str):
        return (value,)
    if value is None:
        raise MalformedRequest(name, "is missing")
    if not isinstance(value, list):
        raise MalformedRequest(name, "must be a text or a list of texts")
    for index, item in enumerate(value):
        if isinstance(item, int | list):
            raise MalformedRequest(name, "holds tokens; only texts can be embedded here")
        if not isinstance(item, str):
            raise MalformedRequest(f"{name}.{index}", "must be a text")
    return tuple(value)


def checked_vectors(found: Sequence[Any], expected: int, voice: BackendVoice) -> tuple[Vector, ...]:
    """Raises BackendBadReply unless there is one vector of numbers a text."""
    if len(found) != expected:
        raise voice.nonsense(f"sent {len(found)} vectors for {expected} texts.")
    for vector in found:
        if not isinstance(vector, list | tuple) or not vector:
            raise voice.nonsense("sent something that is no vector.")
        if not all(isinstance(number, int | float) for number in vector):
            raise voice.nonsense("sent a vector that holds something else than numbers.")
    return tuple(found)
