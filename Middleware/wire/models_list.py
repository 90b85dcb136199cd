"""The list of models, as OpenAI's interface shows it (front-doors §3.1, case C-52)."""

from collections.abc import Mapping
from typing import Any, Final

OWNERS: Final[Mapping[str, str]] = {"headrace": "headrace", "reference": "Wilmer"}
"""Dialect of a user -> whose models these are. The reference's is a literal of its own: front ends
may show or filter by it.
"""


def encode_model(name: str, created: int, dialect: str) -> dict[str, Any]:
    """The body of ``/v1/models/{id}``; ``created`` in seconds since 1970."""
    return {"id": name, "object": "model", "created": created, "owned_by": OWNERS[dialect]}


def encode_models(models: Mapping[str, str], created: int) -> dict[str, Any]:
    """The body of ``/v1/models``: names and the dialects of their users."""
    data = [encode_model(name, created, dialect) for name, dialect in models.items()]
    return {"object": "list", "data": data}
