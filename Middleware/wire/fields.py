"""Typed reading of the fields of a client's request. Null always means "not given" (case C-51)."""

from collections.abc import Mapping
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.wire.openai_parameters import OPENAI_FIELDS, SAMPLER_FIELDS, parse_parameters

_CHECKS: Final = {**OPENAI_FIELDS, **SAMPLER_FIELDS}


def text_in(body: Mapping[str, Any], name: str, place: str = "") -> str | None:
    """Raises MalformedRequest, like the others here. ``place`` leads to ``body``: ``tools.0.``"""
    value = body.get(name)
    if value is None or isinstance(value, str):
        return value
    raise MalformedRequest(place + name, "must be a text")


def needed_text_in(body: Mapping[str, Any], name: str, place: str = "") -> str:
    """A text that must be there and say something."""
    value = text_in(body, name, place)
    if not value:
        problem = "is missing" if value is None else "must not be empty"
        raise MalformedRequest(place + name, problem)
    return value


def flag_in(body: Mapping[str, Any], name: str, place: str = "", *, default: bool = False) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise MalformedRequest(place + name, "must be true or false")


def whole_in(body: Mapping[str, Any], name: str, place: str = "", *, least: int) -> int | None:
    """A whole number; 204.0 is one, too."""
    value = body.get(name)
    if value is None:
        return None
    fits, problem = _CHECKS["n"]
    if fits(value) and value >= least:
        return int(value)
    raise MalformedRequest(place + name, f"{problem} of at least {least}")


def object_in(body: Mapping[str, Any], name: str, place: str = "") -> Mapping[str, Any]:
    value = body.get(name)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise MalformedRequest(place + name, "must be an object")


def list_in(body: Mapping[str, Any], name: str, place: str = "") -> list[Any]:
    value = body.get(name)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise MalformedRequest(place + name, "must be a list")


def parameters_in(
    body: Mapping[str, Any], names: Mapping[str, str], place: str = ""
) -> dict[str, Any]:
    """Sampling fields that a door calls by other names, under OpenAI's, checked as those are.

    ``names`` maps the door's names to OpenAI's. Errors name the door's field.
    """
    found: dict[str, Any] = {}
    for key, name in names.items():
        value = body.get(key)
        if value is None:
            continue
        fits, problem = _CHECKS[name]
        if not fits(value):
            raise MalformedRequest(place + key, problem)
        found[name] = value
    return parse_parameters(found)


def schema_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A bare JSON Schema as OpenAI's ``response_format``."""
    return {"type": "json_schema", "json_schema": {"name": "response", "schema": schema}}
