"""Requests that can be cancelled from outside: by their id, or by a twin that displaces them."""

import hashlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from Middleware.api.admission import ENVIRON_CALLER, presented_keys
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import RunCancelled

logger = logging.getLogger(__name__)

_LONGEST_KEY = 128
_MOST_KEYS = 1024
_KEY_SECONDS = 900.0


def scope_of(environ: Mapping[str, Any]) -> str:
    """Who asks: requests, stored responses and idempotency keys of others cannot be reached.

    All who show no key are one.
    """
    caller = environ.get(ENVIRON_CALLER)
    if caller is not None:
        return f"{caller.user}/{caller.key_name}"
    keys = presented_keys(environ)
    return hashlib.sha256(keys[0].encode("latin-1", "replace")).hexdigest() if keys else ""


def plain_key(value: str | None) -> str | None:
    """An idempotency key that counts: 1 to 128 characters (front-doors §12.3)."""
    key = (value or "").strip()
    return key if 0 < len(key) <= _LONGEST_KEY else None


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """One request while anything of it runs, nodes behind its answer included."""

    request_id: str
    scope: str
    cancel: CancelToken
    key: str | None
    since: float


class Running:
    """One a server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_id: dict[str, Handle] = {}
        self._by_key: dict[tuple[str, str], Handle] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def add(
        self, request_id: str, scope: str, cancel: CancelToken, key: str | None = None
    ) -> Handle:
        """Register a request; ``key`` displaces the one that runs under the same."""
        handle = Handle(request_id, scope, cancel, key, time.monotonic())
        displaced: Handle | None = None
        with self._lock:
            self._by_id[request_id] = handle
            if key is not None:
                displaced = self._by_key.pop((scope, key), None)
                self._by_key[(scope, key)] = handle
                if len(self._by_key) > _MOST_KEYS:
                    del self._by_key[next(iter(self._by_key))]
        if displaced is not None and handle.since - displaced.since < _KEY_SECONDS:
            logger.info("request=%s displaces request=%s", request_id, displaced.request_id)
            displaced.cancel.cancel(RunCancelled("The same request was sent again."))
        return handle

    def forget(self, handle: Handle) -> None:
        """Nothing of the request runs any more. Harmless when called twice."""
        with self._lock:
            self._by_id.pop(handle.request_id, None)
            if handle.key is not None:
                place = (handle.scope, handle.key)
                if self._by_key.get(place) is handle:
                    del self._by_key[place]

    def cancel(self, request_id: str, scope: str) -> bool:
        """Stop a request of the same caller; False when there is none with this id."""
        with self._lock:
            handle = self._by_id.get(request_id)
        if handle is None or handle.scope != scope:
            return False
        handle.cancel.cancel(RunCancelled())
        return True
