"""A service of the owner's own network that speaks JSON over HTTP."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import WorkflowError
from Middleware.tools.http_call import Answer, CallFailed, Limits, Request, Route, call
from Middleware.tools.net_policy import resolve
from Middleware.tools.urls import BadUrl, parse_url

_CONNECT_SECONDS: Final = 5.0


class ServiceFailed(Exception):
    """There is no usable answer. ``status`` is that of an answer that says so."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class _TooSlow(WorkflowError):
    """Becomes a ServiceFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonService:
    """Where it is, and how long its answers may take altogether."""

    host: str
    port: int
    seconds: float = 60.0

    def get(self, path: str, query: Mapping[str, Any], cancel: CancelToken) -> Any:
        """The JSON of a 200. Raises ServiceFailed, or the token's reason."""
        return self._ask("GET", f"{path}?{urlencode(query)}", None, cancel)

    def post(self, path: str, body: Mapping[str, Any], cancel: CancelToken) -> Any:
        """As :meth:`get`."""
        return self._ask("POST", path, json.dumps(body).encode(), cancel)

    def _ask(self, method: str, target: str, body: bytes | None, cancel: CancelToken) -> Any:
        try:
            with cancel.limited(self.seconds, _TooSlow("too slow")) as token:
                answer = self._call(method, target, body, token)
        except _TooSlow as error:
            raise ServiceFailed(f"it did not answer within {self.seconds:g} s") from error
        except CallFailed as error:
            raise ServiceFailed(str(error).rstrip(".")) from error
        except BadUrl as error:
            raise ServiceFailed(f"its address {error}") from error
        except OSError as error:
            raise ServiceFailed("its host is not known") from error
        if answer.status != 200:
            raise ServiceFailed(f"it answered {answer.status}", answer.status)
        try:
            return json.loads(answer.text)
        except (ValueError, RecursionError) as error:
            raise ServiceFailed("its answer is no JSON") from error

    def _call(self, method: str, target: str, body: bytes | None, cancel: CancelToken) -> Answer:
        host = f"[{self.host}]" if ":" in self.host else self.host
        url = parse_url(f"http://{host}:{self.port}/{target}")
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        route = Route(addresses=resolve(url.host, url.port, cancel))
        request = Request(method=method, url=url, headers=headers, body=body)
        limits = Limits.behind(self.seconds, connect=_CONNECT_SECONDS)
        return call(request, route, cancel, limits)
