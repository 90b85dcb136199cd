"""Small words to describe what routes take and give, as JSON Schema.

A field of a request says what becomes of it (docs/doors.md): it is *used*, *passed on*, *ignored*
or *refused*. Null always means "not given" (case C-51), and fields that nobody knows are allowed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from Middleware.wire.openai_parameters import OPENAI_FIELDS, SAMPLER_FIELDS

Schema: TypeAlias = Mapping[str, Any]
Fate: TypeAlias = Literal["used", "passed on", "ignored", "refused"]

FATE: Final = "x-headrace-field"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
LINES: Final = "application/x-ndjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """In the query, or a header."""

    name: str
    schema: Schema
    text: str
    place: Literal["query", "header"] = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What one route takes and gives, beside what all routes have in common."""

    body: Schema | None = None
    needs_body: bool = True
    parameters: tuple[Parameter, ...] = ()
    answers: Mapping[int, Mapping[str, Schema]] = field(default_factory=lambda: {200: ANY_JSON})
    """Status -> content type -> schema."""
    errors: tuple[int, ...] = ()
    """Further statuses, with the error object of the door."""
    text: str = ""
    """More than the route says of itself."""


ANYTHING: Final[Schema] = {}
TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "number"}
WHOLE: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
OBJECT: Final[Schema] = {"type": "object"}
FILLED: Final[Schema] = {"type": "string", "minLength": 1}
TEXTS: Final[Schema] = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}
ANY_JSON: Final[Mapping[str, Schema]] = {JSON: OBJECT}

_OF_PROBLEM: Final[Mapping[str, Schema]] = {
    "must be a number": NUMBER,
    "must be a whole number": WHOLE,
    "must be a text": TEXT,
    "must be true or false": FLAG,
    "must be an object": OBJECT,
    "must be a text or a list of texts": TEXTS,
    "must be an object with a `type`": {
        "type": "object",
        "properties": {"type": TEXT},
        "required": ["type"],
    },
    "": ANYTHING,
}
"""What a field may hold, by what is said of one that holds something else."""


def ref(name: str) -> Schema:
    """A schema of the document's ``components``."""
    return {"$ref": f"#/components/schemas/{name}"}


def enum(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def array(items: Schema, *, least: int = 0) -> Schema:
    found: dict[str, Any] = {"type": "array", "items": items}
    return {**found, "minItems": least} if least else found


def maybe(schema: Schema) -> Schema:
    """Null, too."""
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema else schema


def obj(
    properties: Mapping[str, Schema], required: Iterable[str] = (), *, more: bool = True
) -> Schema:
    """``more``: whether there may be other keys."""
    found: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required:
        found["required"] = list(required)
    return found if more else {**found, "additionalProperties": False}


def answer(
    properties: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None
) -> Schema:
    """An object of ours: what is in ``properties`` is always there."""
    return obj({**properties, **(optional or {})}, properties)


def needed(schema: Schema, text: str = "") -> Schema:
    """A field that is used, and may not be null."""
    return _field(schema, "used", text)


def used(schema: Schema, text: str = "") -> Schema:
    return _field(maybe(schema), "used", text)


def passed_on(schema: Schema, text: str = "") -> Schema:
    return _field(maybe(schema), "passed on", text)


def ignored(schema: Schema = ANYTHING, text: str = "") -> Schema:
    return _field(maybe(schema), "ignored", text)


def _field(schema: Schema, fate: Fate, text: str) -> Schema:
    return {**schema, FATE: fate, **({"description": text} if text else {})}


def sampling(*, ignores: Iterable[str] = (), without: Iterable[str] = ()) -> dict[str, Schema]:
    """The sampling fields that a request may have, from the table that they are checked with."""
    left_out, not_used = {*without}, {*ignores}
    found: dict[str, Schema] = {}
    for name, (_, problem) in (*OPENAI_FIELDS.items(), *SAMPLER_FIELDS.items()):
        if name not in left_out:
            make = ignored if name in not_used else passed_on
            found[name] = make(_OF_PROBLEM[problem])
    return found


def streamed(whole: Schema, stream: str, text: str) -> Mapping[int, Mapping[str, Schema]]:
    """An answer that comes whole or in pieces; ``text`` says what the pieces are.

    They have no schema: some readers would hold the whole body against it, others each piece.
    """
    return {200: {JSON: whole, stream: {"description": text}}}


def whole(schema: Schema) -> Mapping[int, Mapping[str, Schema]]:
    return {200: {JSON: schema}}


RUNS_MODELS: Final = (403, 404, 422, 429, 499, 502, 504)
"""What a request that runs a workflow may end with (decisions §6), beside :data:`ALWAYS`."""
ALWAYS: Final = (400, 401, 413, 415, 500, 503)
"""400: of a configuration that cannot be used; 503: while the server stops."""
