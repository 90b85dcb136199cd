"""Calls of other programs that speak JSON over HTTP and are no model servers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import urllib3

from Middleware.core.errors import MiddlewareError


class CallFailed(MiddlewareError):
    """There was no answer. ``detail`` names the address."""

    status = 502
    code = "call_failed"


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    data: bytes

    @property
    def value(self) -> Any:
        """The JSON value; None when the body is none."""
        try:
            return orjson.loads(self.data)
        except orjson.JSONDecodeError:
            return None

    def text(self, most: int = 300) -> str:
        """The beginning of the body, for a message."""
        return self.data[:most].decode("utf-8", "replace")


class JsonCaller:
    """A pool of connections. Neither repeats a call nor follows to another address."""

    def __init__(
        self, headers: Mapping[str, str] | None = None, *, timeout_seconds: float = 60.0
    ) -> None:
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._pool = urllib3.PoolManager(retries=False, timeout=timeout_seconds)

    def call(
        self, method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        """Whatever the status is. Raises CallFailed."""
        data = None if body is None else orjson.dumps(body)
        sent = {**self._headers, **(headers or {})}
        try:
            answer = self._pool.request(method, url, body=data, headers=sent, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            raise CallFailed("It cannot be reached.", detail=f"{url}: {error!r}") from error
        return Answered(answer.status, answer.data)
