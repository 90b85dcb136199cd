"""The WSGI application: what stands around Flask and is the same for every request."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flask import Blueprint, Flask, Response

from Middleware.api.admission import ENVIRON_CALLER, OPEN_PATHS, Keys
from Middleware.api.background import Background
from Middleware.api.cors import Cors
from Middleware.api.errors import (
    ENVIRON_REQUEST_ID,
    ErrorShapes,
    answer_errors,
    as_ours,
    plain_headers,
    status_line,
)
from Middleware.api.headers import REQUEST_ID, Headers, clean
from Middleware.api.health import ENVIRON_STRANGER
from Middleware.api.openapi.document import document_of
from Middleware.api.pulse import Pulse
from Middleware.api.served_routes import ServedRoute, routes_of
from Middleware.core.errors import (
    ConfigError,
    InvalidKey,
    MiddlewareError,
    RequestTooLarge,
    ServerStopping,
    UnknownEncoding,
)
from Middleware.runs.refusals import Refusals

Environ = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteParts:
    """What a site is built from."""

    blueprints: tuple[Blueprint, ...]
    shapes: ErrorShapes
    pulse: Pulse
    background: Background
    keys: Keys
    new_id: Callable[[], str]
    refusals: Refusals = field(default_factory=Refusals)
    cors: tuple[str, ...] = ()
    max_body_bytes: int = 64 * 1024 * 1024


class Site:
    """Gives each request its id, decides whether it may come in, and guards the whole."""

    def __init__(self, parts: SiteParts) -> None:
        self.shapes = parts.shapes
        self.pulse = parts.pulse
        self.background = parts.background
        self.keys = parts.keys
        self.max_body_bytes = parts.max_body_bytes
        self.stopping = False
        """Once true, every new request is refused."""
        self._new_id = parts.new_id
        self._refusals = parts.refusals
        self._cors = Cors(parts.cors) if parts.cors else None
        self._flask = _flask_app(parts)

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        request_id = environ[ENVIRON_REQUEST_ID] = self._new_id()
        self._refusals.arrived(request_id)
        extra: Headers = [(REQUEST_ID, request_id)]
        preflight = self._allow_origin(environ, extra)

        def start(status: str, headers: Headers, exc_info: Any = None) -> Any:
            self._refusals.answered(request_id, environ["PATH_INFO"], status)
            return start_response(status, [*headers, *extra], exc_info)

        if preflight:
            start("204 No Content", Cors.preflight_headers(environ))
            return []
        try:
            self._admit(environ)
            return self._flask(environ, start)
        # The outermost guard of a request: what Flask itself did not turn into an answer.
        except Exception as error:  # noqa: BLE001
            ours = as_ours(error, environ)
            return self._refuse(environ, ours, start)

    def routes(self) -> list[ServedRoute]:
        """All there are, for the reference page."""
        return routes_of(self._flask)

    def document(self, version: str) -> dict[str, Any]:
        """All of them for programs, as OpenAPI has it."""
        return document_of(self._flask, self.shapes, version)

    def _allow_origin(self, environ: Environ, extra: Headers) -> bool:
        """Add the headers for the page's origin; True when it only asks whether it may."""
        origin = environ.get("HTTP_ORIGIN")
        if origin is None or self._cors is None:
            return False
        allowed = self._cors.headers(origin)
        extra.extend(allowed)
        return bool(allowed) and Cors.is_preflight(environ)

    def _admit(self, environ: Environ) -> None:
        path: str = environ["PATH_INFO"]
        if len(path) > 1 and path.endswith("/"):
            # A trailing slash makes no difference anywhere, and never a redirect (C-52).
            environ["PATH_INFO"] = path = path.rstrip("/") or "/"
        if self.stopping:
            raise ServerStopping
        try:
            environ[ENVIRON_CALLER] = self.keys.admit(environ)
        except (InvalidKey, ConfigError):
            # The second when user files are broken, which is what people look at /health for.
            if path not in OPEN_PATHS:
                raise
            environ[ENVIRON_STRANGER] = True
        if int(environ.get("CONTENT_LENGTH") or 0) > self.max_body_bytes:
            limit = self.max_body_bytes / (1024 * 1024)
            raise RequestTooLarge(f"The request is larger than {limit:g} MB.")
        encoding = environ.get("HTTP_CONTENT_ENCODING", "").strip()
        if encoding.lower() not in ("", "identity"):
            raise UnknownEncoding(clean(encoding))

    def _refuse(self, environ: Environ, error: MiddlewareError, start: Any) -> Iterable[bytes]:
        body = self.shapes.body(environ, error)
        start(status_line(error.status), plain_headers(error, body), sys.exc_info())
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


class _Flask(Flask):
    def make_default_options_response(self) -> Response:
        """The methods, in `Allow`, and nothing else: an empty body is no page of HTML."""
        response = super().make_default_options_response()
        del response.headers["Content-Type"]
        return response


def _flask_app(parts: SiteParts) -> Flask:
    app = _Flask("headrace", static_folder=None, template_folder=None)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    for blueprint in parts.blueprints:
        app.register_blueprint(blueprint)
    answer_errors(app, parts.shapes)
    return app
