"""The OpenAPI document: the routes that the server really has, with what is known of each."""

import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from flask import Flask

from Middleware.api.admission import OPEN_PATHS
from Middleware.api.errors import EncodeError, ErrorShapes, status_line
from Middleware.api.openapi import anthropic, conversations, ollama, openai, ours, responses
from Middleware.api.openapi.schemas import (
    ALWAYS,
    JSON,
    TEXT,
    WHOLE,
    Operation,
    Parameter,
    Schema,
    answer,
    enum,
    maybe,
)
from Middleware.api.served_routes import ServedRoute, routes_of
from Middleware.wire import anthropic_messages, ollama_chat, openai_chat

VERSION: Final = "3.1.0"

_PARTS: Final = (openai, responses, conversations, anthropic, ollama, ours)
OPERATIONS: Final[Mapping[str, Operation]] = {
    name: operation for part in _PARTS for name, operation in part.OPERATIONS.items()
}
"""By the name that Flask has for a view: its blueprint and its function."""

_OPENAI_ERROR: Final = answer(
    {"error": answer({"message": TEXT, "type": TEXT, "param": maybe(TEXT), "code": maybe(TEXT)})}
)
_ANTHROPIC_ERROR: Final = answer(
    {"type": enum("error"), "error": answer({"type": TEXT, "message": TEXT})}
)
_OLLAMA_ERROR: Final = answer({"error": TEXT})
_ERRORS: Final[Mapping[EncodeError, str]] = {
    openai_chat.encode_error: "OpenAIError",
    anthropic_messages.encode_error: "AnthropicError",
    ollama_chat.encode_error: "OllamaError",
}
_PLACE: Final = re.compile(r"<(?:(\w+):)?(\w+)>")
_NAME: Final = re.compile(r"{(\w+)}")
_ABOUT: Final = (
    "Every route of this server. A slash at the end makes no difference, nor does the content "
    "type of a request; null in a request always means that a field was not given, and fields "
    "that nobody knows are no error, except where `additionalProperties` says so. "
    "`x-headrace-field` says what becomes of a field: it is used; passed on to the model of the "
    "answering node; or ignored, and then named in the header X-Headrace-Ignored."
)


def document_of(app: Flask, shapes: ErrorShapes, version: str) -> dict[str, Any]:
    """``version`` is the program's."""
    paths: dict[str, dict[str, Any]] = {}
    alike: dict[str, str] = {}
    for route in sorted(routes_of(app), key=lambda one: (one.paths[0], one.method)):
        for rule in route.paths:
            # OpenAPI takes paths that differ in the names of places only as one.
            path = alike.setdefault(_PLACE.sub("{}", rule), _PLACE.sub(r"{\2}", rule))
            operation = _operation(route, rule, shapes)
            parameters = [*_path_parameters(rule, path), *operation.pop("parameters")]
            if parameters:
                operation["parameters"] = parameters
            paths.setdefault(path, {})[route.method.lower()] = operation
    return {
        "openapi": VERSION,
        "info": {"title": "Headrace", "version": version, "description": _ABOUT},
        # Keys are only demanded where some are set.
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
            "schemas": _components(),
        },
    }


def _components() -> dict[str, Schema]:
    errors = {
        "OpenAIError": _OPENAI_ERROR,
        "AnthropicError": _ANTHROPIC_ERROR,
        "OllamaError": _OLLAMA_ERROR,
    }
    return {name: schema for part in _PARTS for name, schema in part.COMPONENTS.items()} | errors


def _operation(route: ServedRoute, rule: str, shapes: ErrorShapes) -> dict[str, Any]:
    known = OPERATIONS.get(route.endpoint, Operation(answers={200: {"*/*": {}}}))
    path = _PLACE.sub(r"\2", rule)
    found: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{path}").strip("_"),
        "tags": [route.endpoint.partition(".")[0]],
        "summary": " ".join(route.text.split()),
        "parameters": [*map(_parameter, known.parameters)],
        "responses": _responses(known, route, rule, shapes),
    }
    if known.body is not None:
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": known.body}}}
    if rule in OPEN_PATHS:
        found["security"] = []
    return found


def _path_parameters(rule: str, path: str) -> Iterator[dict[str, Any]]:
    """``path`` has the names."""
    kinds = (kind for kind, _ in _PLACE.findall(rule))
    for kind, name in zip(kinds, _NAME.findall(path), strict=True):
        schema = {**WHOLE, "minimum": 0} if kind == "int" else {**TEXT, "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(given: Parameter) -> dict[str, Any]:
    return {
        "name": given.name,
        "in": given.place,
        "required": False,
        "schema": given.schema,
        "description": given.text,
    }


def _responses(
    known: Operation, route: ServedRoute, rule: str, shapes: ErrorShapes
) -> dict[str, Any]:
    error = {JSON: {"schema": _error_schema(rule, known, shapes)}}
    codes: Iterable[int] = {*ALWAYS, *known.errors} - ({401} if rule in OPEN_PATHS else set())
    found = {str(code): {"description": _phrase(code), "content": error} for code in codes}
    for code, contents in known.answers.items():
        content = {kind: {"schema": schema} for kind, schema in contents.items()}
        found[str(code)] = {
            "description": _phrase(code),
            **({"content": content} if content else {}),
        }
    return dict(sorted(found.items()))


def _error_schema(rule: str, known: Operation, shapes: ErrorShapes) -> Schema:
    names = [_ERRORS[shapes.for_path(rule)]]
    if any(parameter.name == "anthropic-version" for parameter in known.parameters):
        names.append("AnthropicError")
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return refs[0] if len(refs) == 1 else {"anyOf": refs}


def _phrase(code: int) -> str:
    return status_line(code).partition(" ")[2] if code == 499 else HTTPStatus(code).phrase
