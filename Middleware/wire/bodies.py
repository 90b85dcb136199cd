"""JSON bodies: what comes in from clients and backends, what goes out to both."""

import json
from collections.abc import Mapping
from typing import Any, Final

import orjson

from Middleware.core.errors import MalformedRequest

_BOM: Final = b"\xef\xbb\xbf"


class BadJson(ValueError):
    """The bytes are no JSON text. The message says what is wrong and where."""


def parse_json_object(data: bytes) -> dict[str, Any]:
    """The JSON object that a client sent; raises MalformedRequest for anything else.

    Half a surrogate pair, which cannot be stored or sent on, becomes U+FFFD wherever it stands
    (case C-17). The content type plays no part.
    """
    data = data.removeprefix(_BOM)
    if not data.strip():
        raise MalformedRequest(None, "The request has no body; a JSON object is expected")
    try:
        body = read_json(data)
    except BadJson as error:
        raise MalformedRequest(None, f"The request body is not valid JSON: {error}") from error
    if not isinstance(body, dict):
        raise MalformedRequest(None, f"The request body must be a JSON object, not {_kind(body)}")
    return body


def read_json(data: bytes | str) -> Any:
    """Any JSON text; raises BadJson, for NaN and the like too. Lone surrogates become U+FFFD."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        # orjson refuses lone surrogates; the standard library reads them.
        if b"\\u" not in data if isinstance(data, bytes) else "\\u" not in data:
            raise BadJson(_place(error)) from error
    try:
        return _without_surrogates(json.loads(data, parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        raise BadJson(_place(error)) from error


def checked_json(text: str) -> str:
    """``text`` as it is when every JSON reader takes it; raises BadJson.

    Only half a surrogate pair, which some readers refuse, makes it be written anew.
    """
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return write_json(read_json(text)).decode()
    return text


def read_json_leniently(data: bytes) -> Any:
    """As :func:`read_json`, for what a model server sends: broken UTF-8 becomes U+FFFD."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return read_json(data.decode("utf-8", "replace"))


def write_json(value: Any) -> bytes:
    """Compact JSON in UTF-8. Raises MalformedRequest when ``value`` is nested beyond reason."""
    try:
        return orjson.dumps(value, default=_plain)
    except orjson.JSONEncodeError:
        # Whole numbers beyond 64 bits, lone surrogates and deep nesting are left to the slow way.
        pass
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    except RecursionError as error:
        raise MalformedRequest(None, "The request is nested too deeply") from error
    return clean_text(text).encode()


def clean_text(text: str) -> str:
    """The text with each half of a surrogate pair replaced by U+FFFD, pairs put together."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _plain(value: Any) -> Any:
    """Read-only mappings are objects too."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else clean_text(value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _without_surrogates(item) for key, item in value.items()}
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _place(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", list: "a list", str: "a text"}
    return names.get(type(value), "a number")
