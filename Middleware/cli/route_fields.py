"""What routes take and give, in words, from the published document."""

from collections.abc import Iterator, Mapping
from typing import Any

from Middleware.api.openapi.schemas import FATE, JSON
from Middleware.cli.tables import table

_WORDS: Mapping[str, str] = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
}
_METHODS = ("get", "post", "put", "patch", "delete")


def fields_of_routes(document: Mapping[str, Any]) -> str:
    """A heading and a table for each route that takes a body. Aliases are not told again."""
    shown: list[str] = []
    seen: list[Any] = []
    for path, operations in document["paths"].items():
        for method in _METHODS:
            body = operations.get(method, {}).get("requestBody")
            if body is None or (operations[method]["summary"], body) in seen:
                continue
            seen.append((operations[method]["summary"], body))
            schema = _resolved(body["content"][JSON]["schema"], document)
            rows = _rows(schema, document)
            shown += [f"### {method.upper()} {path}", "", table(_HEAD, rows)]
            if schema.get("additionalProperties") is False:
                shown += ["Anything else is refused.", ""]
    return "\n".join(shown)


_HEAD = ("Field", "Values", "It is", "Meaning")


def _rows(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        fate = field.get(FATE, "used")
        needed = f"{fate}, needed" if name in required else fate
        yield f"`{name}`", values_in_words(field, document), needed, field.get("description", "")


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def values_in_words(schema: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """What may be sent. That null may be sent everywhere is not said."""
    schema = _resolved(schema, document)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value)
    kinds = schema.get("type")
    if kinds is None:
        options = schema.get("anyOf", ())
        words = (values_in_words(one, document) for one in options if one != {"type": "null"})
        return " or ".join(dict.fromkeys(words)) or "anything"
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds[0] == "array":
        inner = values_in_words(schema["items"], document)
        return "list" if inner == "anything" else f"list of: {inner}"
    return " or ".join(_WORDS[kind] for kind in kinds if kind != "null")
