"""``GET /health`` for machines (decisions §7) and ``GET /`` for people and for probes."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson
from flask import Blueprint, Response, request

from Middleware.api.errors import JSON
from Middleware.api.front_page import FrontPage
from Middleware.config.problems import Problem
from Middleware.core.errors import MiddlewareError

ENVIRON_STRANGER = "headrace.stranger"
"""In the environ of an open path when a key is demanded and the caller has none."""


def health_body(version: str, problems: Sequence[Problem], *, stranger: bool) -> bytes:
    """Degraded means that something in use is broken; warnings alone do not count."""
    broken = any(problem.severity == "error" for problem in problems)
    body: dict[str, Any] = {"status": "degraded" if broken else "ok"}
    if not stranger:
        body["version"] = version
        body["problems"] = [problem.to_dict() for problem in problems]
    return orjson.dumps(body)


def health(
    version: str,
    problems: Callable[[], Sequence[Problem]],
    models: Callable[[], Sequence[str]],
) -> Blueprint:
    """``problems`` gives those that exist now, ``models`` the names that the caller may use; both
    are called for each request that shows them.
    """
    pages = Blueprint("health", __name__)

    @pages.get("/health")
    def alive() -> Response:
        """Whether the server is well, and what is wrong with files in use."""
        stranger = bool(request.environ.get(ENVIRON_STRANGER))
        body = health_body(version, problems(), stranger=stranger)
        return Response(body, content_type=JSON, headers={"Cache-Control": "no-store"})

    def page() -> FrontPage:
        if request.environ.get(ENVIRON_STRANGER):
            return FrontPage(base=request.host_url, stranger=True)
        try:
            names = models()
        except MiddlewareError:
            # Files are broken, which the page tells too.
            names = ()
        return FrontPage(base=request.host_url, version=version, models=names, problems=problems())

    @pages.get("/")
    def front() -> Response:
        """A page for browsers; ``Ollama is running`` for others."""
        if "text/html" in request.headers.get("Accept", ""):
            html = page().html()
            return Response(html, content_type="text/html; charset=utf-8")
        # Word for word what tools of Ollama look for.
        return Response("Ollama is running", content_type="text/plain; charset=utf-8")

    return pages
