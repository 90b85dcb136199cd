"""Pages of other origins that may call this server (C-50, clients.md A21)."""

from collections.abc import Iterable, Mapping
from typing import Any

from Middleware.api.headers import CONVERSATION_ID, IGNORED, REQUEST_ID, Headers

_READABLE = f"{REQUEST_ID}, {IGNORED}, X-Headrace-Clamped, {CONVERSATION_ID}, Retry-After"
_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_REMEMBER_SECONDS = "600"


class Cors:
    """The origins of ``--cors``; ``*`` stands for all."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self._anyone = "*" in self._origins

    def headers(self, origin: str) -> Headers:
        """What every answer to a page of ``origin`` carries; empty when it is not allowed."""
        if self._anyone:
            allowed: Headers = [("Access-Control-Allow-Origin", "*")]
        elif origin.rstrip("/").lower() in self._origins:
            allowed = [("Access-Control-Allow-Origin", origin), ("Vary", "Origin")]
        else:
            return []
        return [*allowed, ("Access-Control-Expose-Headers", _READABLE)]

    @staticmethod
    def is_preflight(environ: Mapping[str, Any]) -> bool:
        return (
            environ["REQUEST_METHOD"] == "OPTIONS"
            and "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ
        )

    @staticmethod
    def preflight_headers(environ: Mapping[str, Any]) -> Headers:
        """The answer to a preflight of an allowed origin: every method, every header."""
        wanted = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "authorization, content-type")
        headers = [
            ("Access-Control-Allow-Methods", _METHODS),
            ("Access-Control-Allow-Headers", wanted),
            ("Access-Control-Max-Age", _REMEMBER_SECONDS),
        ]
        if "HTTP_ACCESS_CONTROL_REQUEST_PRIVATE_NETWORK" in environ:
            headers.append(("Access-Control-Allow-Private-Network", "true"))
        return headers
