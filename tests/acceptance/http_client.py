"""Requests with nothing but the standard library, so that any Python can run these checks."""

import http.cookiejar
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

_SECONDS = 60


class Client:
    """Remembers cookies and the headers it is given. Never goes through a proxy."""

    def __init__(self, url: str, **headers: str) -> None:
        self.url = url
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
        )

    def open(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The open response, to be read piece by piece; POST where there is a body. Raises
        ``urllib.error.HTTPError`` for a failing status.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **self.headers}
        asked = urllib.request.Request(self.url + path, data, headers)
        return self._opener.open(asked, timeout=_SECONDS)

    def text(self, path: str, body: Mapping[str, Any] | None = None) -> str:
        """The body of the answer, whatever its status."""
        try:
            with self.open(path, body) as response:
                return str(response.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def json(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return json.loads(self.text(path, body))

    def answers(self, path: str) -> bool:
        """Whether something listens there and is content."""
        try:
            with self.open(path):
                return True
        except OSError:
            return False


def streamed_text(sse: str) -> str:
    """The words of a stream of chat completion chunks."""
    lines = (line.removeprefix("data: ") for line in sse.splitlines())
    chunks = (json.loads(line) for line in lines if line.startswith("{"))
    choices = (choice for chunk in chunks for choice in chunk.get("choices", ()))
    return "".join(choice["delta"].get("content") or "" for choice in choices)
