"""Every error that leaves this server: a status, headers and the JSON shape of its door."""

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from Middleware.api.headers import Headers, clean, error_headers
from Middleware.core.errors import (
    MalformedRequest,
    MiddlewareError,
    RequestTooLarge,
    UnknownRoute,
    WrongMethod,
)

logger = logging.getLogger(__name__)

EncodeError = Callable[[MiddlewareError], Mapping[str, Any]]
"""The error object of one door."""

ENVIRON_REQUEST_ID = "headrace.request_id"
JSON = "application/json"


class ErrorShapes:
    """Which error shape belongs to which path, for errors that no door had a hand in."""

    def __init__(self, default: EncodeError) -> None:
        self._default = default
        self._by_prefix: dict[str, EncodeError] = {}
        self._by_header: dict[str, EncodeError] = {}

    def register(self, prefix: str, encode: EncodeError) -> None:
        """Errors at paths that start with ``prefix`` are written by ``encode``; longest wins."""
        self._by_prefix[prefix] = encode

    def register_header(self, name: str, encode: EncodeError) -> None:
        """The same for requests with a header (its name as in the environ), where no path says
        otherwise.
        """
        self._by_header[name] = encode

    def for_path(self, path: str) -> EncodeError:
        return self._of_path(path) or self._default

    def body(self, environ: Mapping[str, Any], error: MiddlewareError) -> bytes:
        encode = self._of_path(environ["PATH_INFO"])
        if encode is None:
            by_header = self._by_header.items()
            encode = next((encode for name, encode in by_header if name in environ), self._default)
        return orjson.dumps(encode(error))

    def _of_path(self, path: str) -> EncodeError | None:
        fitting = [prefix for prefix in self._by_prefix if path.startswith(prefix)]
        return self._by_prefix[max(fitting, key=len)] if fitting else None


def status_line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} {'Client Closed Request' if status == 499 else 'Error'}"


def plain_headers(error: MiddlewareError, body: bytes) -> Headers:
    """All headers of an error answer that is not a stream."""
    return [
        ("Content-Type", JSON),
        ("Content-Length", str(len(body))),
        *error_headers(error),
    ]


def log_failure(error: MiddlewareError, request_id: str) -> None:
    """One line an error; ``detail`` is for this place only."""
    level = logging.INFO if error.status < 500 else logging.WARNING
    detail = f" ({error.detail})" if error.detail else ""
    text = clean(f"{error.message}{detail}")
    logger.log(level, "failed %d %s request=%s: %s", error.status, error.code, request_id, text)


def internal_error(error: BaseException, request_id: str) -> MiddlewareError:
    """What a client learns of a fault of ours: nothing but where to look. Logs the rest."""
    logger.error("failed 500 internal_error request=%s", request_id, exc_info=error)
    return MiddlewareError(
        f"Something went wrong inside the server. Its log says more, under request {request_id}."
    )


def as_ours(error: Exception, environ: Mapping[str, Any]) -> MiddlewareError:
    """Any exception of a request as an error of ours, logged."""
    request_id = environ.get(ENVIRON_REQUEST_ID, "")
    if isinstance(error, MiddlewareError):
        ours = error
    elif isinstance(error, HTTPException):
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        ours = _of_werkzeug(error, f"{environ['REQUEST_METHOD']} {path}")
    else:
        return internal_error(error, request_id)
    log_failure(ours, request_id)
    return ours


def _of_werkzeug(error: HTTPException, asked: str) -> MiddlewareError:
    if isinstance(error, MethodNotAllowed):
        allow = tuple(sorted(error.valid_methods or ()))
        return WrongMethod(f"{asked} is not served; allowed: {', '.join(allow)}.", allow)
    if error.code == 404:
        return UnknownRoute(f"{asked} is not served here.")
    if error.code == 413:
        return RequestTooLarge("The request is too large.")
    return MalformedRequest(None, f"{error.name}: {error.description}".rstrip("."))


def answer_errors(app: Flask, shapes: ErrorShapes) -> None:
    """Make every error of ``app`` a JSON answer in the shape of the path's door."""

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        ours = as_ours(error, request.environ)
        body = shapes.body(request.environ, ours)
        return Response(body, ours.status, plain_headers(ours, body))
