"""``GET /health`` for machines (decisions §7) and ``GET /`` for people and for probes."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import orjson
from flask import Blueprint, Response, request

from Middleware.api.errors import JSON
from Middleware.config.problems import Problem

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


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Headrace</title>
<style>body{{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem}}
@media (prefers-color-scheme:dark){{body{{background:#111;color:#ddd}}a{{color:#8bf}}}}
pre{{overflow:auto}}</style>
<h1>Headrace {version}</h1>
<p>The server is running. Point a chat front end at <code>{base}v1</code>; unless keys are set
in the user file, any text will do as API key. Or try it here:</p>
<pre>curl {base}v1/chat/completions -d \\
  '{{"model": "assistant", "messages": [{{"role": "user", "content": "Hello"}}]}}'</pre>
<ul><li><a href="v1/models">Models</a>: a workflow each</li>
<li><a href="health">Health</a>: what is wrong with files in use</li></ul>
</html>
"""


def health(version: str, problems: Callable[[], Sequence[Problem]]) -> Blueprint:
    """``problems`` gives those that exist now; it is called for each request of ``/health``."""
    pages = Blueprint("health", __name__)

    @pages.get("/health")
    def alive() -> Response:
        """Whether the server is well, and what is wrong with files in use."""
        stranger = bool(request.environ.get(ENVIRON_STRANGER))
        body = health_body(version, problems(), stranger=stranger)
        return Response(body, content_type=JSON, headers={"Cache-Control": "no-store"})

    @pages.get("/")
    def front() -> Response:
        """A page for browsers; ``Ollama is running`` for others."""
        if "text/html" in request.headers.get("Accept", ""):
            page = _PAGE.format(version=escape(version), base=escape(request.host_url))
            return Response(page, content_type="text/html; charset=utf-8")
        # Word for word what tools of Ollama look for.
        return Response("Ollama is running", content_type="text/plain; charset=utf-8")

    return pages
