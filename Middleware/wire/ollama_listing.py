"""What Ollama's clients ask about models and the server (front-doors §3.1, clients §2.6)."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.wire.fields import text_in

VERSION: Final = "0.14.0"
"""Codex refuses servers below 0.13.4."""
CAPABILITIES: Final = ("completion", "tools", "vision")

_MODIFIED_AT: Final = "2024-11-23T00:00:00Z"
_DETAILS: Final[Mapping[str, Any]] = {
    "format": "gguf",
    "family": "wilmer",
    "families": None,
    "parameter_size": "N/A",
    "quantization_level": "Q8",
}


def encode_tags(names: Iterable[str]) -> dict[str, Any]:
    """The body of ``/api/tags``. The values beside the names are literals of the reference."""
    return {"models": [_listed(name) for name in names]}


def encode_version() -> dict[str, Any]:
    return {"version": VERSION}


def encode_running() -> dict[str, Any]:
    """The body of ``/api/ps``: workflows take no memory of their own."""
    return {"models": []}


def parse_named(body: Mapping[str, Any]) -> str:
    """The model of ``/api/show`` or ``/api/pull``; clients call the field ``model`` or ``name``."""
    name = text_in(body, "model") or text_in(body, "name")
    if not name:
        raise MalformedRequest("model", "is missing")
    return name


def encode_pulled() -> dict[str, Any]:
    """The body of ``/api/pull``, or its only line: a workflow is there already."""
    return {"status": "success"}


def encode_show(
    context_tokens: int | None = None, capabilities: tuple[str, ...] = CAPABILITIES
) -> dict[str, Any]:
    """The body of ``/api/show``."""
    info: dict[str, Any] = {"general.architecture": "wilmer"}
    if context_tokens is not None:
        info["wilmer.context_length"] = context_tokens
    return {
        "license": "",
        "modelfile": "",
        "parameters": "",
        # Some clients look here for what a model can do.
        "template": "{{ .System }}{{ .Tools }}{{ .Prompt }}",
        "details": {"parent_model": "", **_DETAILS},
        "model_info": info,
        "capabilities": list(capabilities),
        "modified_at": _MODIFIED_AT,
    }


def _listed(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "model": f"{name}:latest",
        "modified_at": _MODIFIED_AT,
        "size": 1,
        "digest": hashlib.sha256(name.encode()).hexdigest(),
        "details": _DETAILS,
    }
