"""The list of models, as OpenAI's interface shows it (front-doors §3.1, case C-52)."""

from collections.abc import Iterable
from typing import Any, Final

OWNER: Final = "Wilmer"
"""Literal of the reference: front ends may show or filter by it."""


def encode_model(name: str, created: int) -> dict[str, Any]:
    """The body of ``/v1/models/{id}``; ``created`` in seconds since 1970."""
    return {"id": name, "object": "model", "created": created, "owned_by": OWNER}


def encode_models(names: Iterable[str], created: int) -> dict[str, Any]:
    """The body of ``/v1/models``."""
    return {"object": "list", "data": [encode_model(name, created) for name in names]}
