"""One parse function a kind of file: plain values in, a typed value out.

They are given to the cache by name, so each is the same object wherever it is used.
"""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from Middleware.config.models import (
    ApiType,
    Endpoint,
    McpServer,
    PromptTemplate,
    Route,
    RoutingFile,
    Settings,
    StructuredOutputRule,
    User,
)
from Middleware.config.problems import BrokenFile, Problem
from Middleware.config.validation import (
    is_comment,
    require_object,
    unknown_key,
    unknown_keys,
    validated,
)
from Middleware.config.watched_file import Source

_VARIABLE = re.compile(r"\$\{([^}]*)\}?")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ROLE_AFFIX = re.compile(r"promptTemplate[A-Z][A-Za-z]*(Prefix|Suffix)\Z")


def parse_user(raw: Any, source: Source) -> User:
    given = dict(require_object(raw, source.file))
    if isinstance(given.get("apiKeys"), list):
        given["apiKeys"] = [
            _with_key(one, f"apiKeys[{place}]", source)
            for place, one in enumerate(given["apiKeys"])
        ]
    user = validated(User, {**given, "name": source.name}, source.file)
    _report_unknown(user, source)
    return user


def _with_key(one: Any, place: str, source: Source) -> Any:
    if isinstance(one, str):
        return with_variables(one, place, source)
    if isinstance(one, Mapping) and isinstance(one.get("key"), str):
        return {**one, "key": with_variables(one["key"], f"{place}.key", source)}
    return one


def parse_current_user(raw: Any, source: Source) -> str:
    """The name in ``_current-user.json``; empty when it names nobody."""
    name = require_object(raw, source.file).get("currentUser")
    if name is None or isinstance(name, str):
        return (name or "").strip()
    raise _broken(source, "invalid_value", "currentUser", "The value is no text.", "Write a name.")


def parse_endpoint(raw: Any, source: Source) -> Endpoint:
    given = dict(require_object(raw, source.file))
    if isinstance(given.get("apiKey"), str):
        given["apiKey"] = with_variables(given["apiKey"], "apiKey", source)
    if isinstance(given.get("endpoint"), str):
        given["endpoint"] = given["endpoint"].strip()
    given |= {"name": source.name, "file": source.file}
    endpoint = validated(Endpoint, given, source.file)
    if not endpoint.api_type_config_file_name:
        raise _broken(
            source,
            "missing_key",
            "apiTypeConfigFileName",
            "This key is missing.",
            "Name a file of the folder ApiTypes.",
        )
    wrong = base_url_problem(endpoint.endpoint) if endpoint.endpoint else None
    if wrong:
        raise _broken(source, "bad_url", "endpoint", *wrong)
    _report_unknown(endpoint, source)
    return endpoint


def parse_api_type(raw: Any, source: Source) -> ApiType:
    given = dict(require_object(raw, source.file))
    rule = given.get("structuredOutput")
    if rule is not None:
        try:
            StructuredOutputRule.model_validate(rule)
        except ValidationError:
            # The reference goes on without it (config-files §6), so existing files may hold it.
            given["structuredOutput"] = None
            source.report(
                _problem(
                    source,
                    "invalid_value",
                    "structuredOutput",
                    "This cannot be used, so structured output is off.",
                    "It needs `field`, and `style` openaiJsonSchema or raw.",
                )
            )
    api_type = validated(ApiType, {**given, "name": source.name}, source.file)
    _report_unknown(api_type, source)
    return api_type


def parse_prompt_template(raw: Any, source: Source) -> PromptTemplate:
    given = require_object(raw, source.file)
    template = validated(PromptTemplate, {**given, "name": source.name}, source.file)
    for problem in unknown_keys(template, source.file):
        if not _ROLE_AFFIX.match(problem.place):
            source.report(problem)
    return template


def parse_routing(raw: Any, source: Source) -> RoutingFile:
    """Every key is a category; one that is broken breaks the file, as in the reference."""
    categories: dict[str, Route] = {}
    problems: list[Problem] = []
    for key, value in require_object(raw, source.file).items():
        if key.startswith("$"):
            continue
        try:
            categories[key] = validated(Route, value, source.file, under=key)
        except BrokenFile as error:
            problems.extend(error.problems)
    if problems:
        raise BrokenFile(tuple(problems))
    for key, route in categories.items():
        for extra in route.model_extra or {}:
            if not is_comment(extra):
                source.report(unknown_key(extra, ("description", "workflow"), source.file, key))
    return RoutingFile(name=source.name, categories=categories)


def parse_mcp_server(raw: Any, source: Source) -> McpServer:
    given = require_object(raw, source.file)
    server = validated(McpServer, {**given, "name": source.name}, source.file)
    if server.transport != "stdio" and not server.url:
        raise _broken(source, "missing_key", "url", "This key is missing.", "Add the server's URL.")
    _report_unknown(server, source)
    return server


def parse_preset(raw: Any, source: Source) -> Mapping[str, Any]:
    """Native fields of the payload, whatever they are."""
    return {
        key: value for key, value in require_object(raw, source.file).items() if key != "$schema"
    }


def parse_structured_output(raw: Any, source: Source) -> Mapping[str, Any]:
    """A JSON schema. ``$schema`` is part of it."""
    schema = require_object(raw, source.file)
    if not schema:
        raise _broken(source, "invalid_value", "", "The schema is empty.", "Describe an object.")
    return schema


def with_variables(text: str, place: str, source: Source) -> str:
    """``text`` with ``${VARIABLE}`` filled in from the environment.

    A variable that is not set is an error that names it: its placeholder must never go out as
    if it were a key (C-33).
    """

    def value_of(found: re.Match[str]) -> str:
        name = found[1]
        if not (found[0].endswith("}") and _VARIABLE_NAME.match(name)):
            raise _broken(
                source,
                "missing_variable",
                place,
                "This is no ${VARIABLE}.",
                "Write letters, digits and _ between the braces.",
            )
        value = os.environ.get(name, "")
        if not value:
            raise _broken(
                source,
                "missing_variable",
                place,
                f"The environment variable {name} is not set.",
                f"Set {name} before the server starts.",
            )
        return value

    return _VARIABLE.sub(value_of, text)


def base_url_problem(url: str) -> tuple[str, str] | None:
    """Message and remedy if no back end can be reached under ``url``; never quotes it."""
    example = "Write it like http://127.0.0.1:8080."
    if not url.lower().startswith(("http://", "https://")):
        return "The address does not begin with http:// or https://.", example
    try:
        parts = urlsplit(url)
        names_no_server = not parts.hostname or parts.port == 0
    except ValueError:
        names_no_server = True
    if names_no_server or any(sign.isspace() for sign in url):
        return "The address names no server.", example
    if parts.fragment:
        return "The address has a part after #.", "Remove that part."
    if _FULL_PATH.search(parts.path):
        return (
            "The address already ends with the path of a request.",
            "Write the address of the server alone; the path is added.",
        )
    return None


_FULL_PATH = re.compile(
    r"(/chat/completions|/completions|/embeddings|/responses|/v1/messages|/v1/models"
    r"|/api/(chat|generate|embed|embeddings|tags|v1/generate|extra/generate/stream))/*\Z"
)


def _report_unknown(value: Settings, source: Source) -> None:
    for problem in unknown_keys(value, source.file):
        source.report(problem)


def _problem(source: Source, code: str, place: str, message: str, remedy: str) -> Problem:
    return Problem(
        code=code,
        severity="warning",
        file=source.file,
        place=place,
        message=message,
        remedy=remedy,
    )


def _broken(source: Source, code: str, place: str, message: str, remedy: str) -> BrokenFile:
    problem = Problem(
        code=code,
        severity="error",
        file=source.file,
        place=place,
        message=message,
        remedy=remedy,
    )
    return BrokenFile((problem,))
