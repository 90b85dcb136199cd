"""Model servers that cannot be reached are left alone for a while, so that nobody waits for them.

Only connecting counts: a server that answers with errors is alive. A connection that was refused
costs no time, so three of these in a row open the circuit for one second; one that took long
opens it at once, for longer each time, up to half a minute. When the time is over one call is let
through; when it gets a connection, all are.
"""

import logging
import threading
import time
from typing import Final

from Middleware.core.errors import BackendUnreachable
from Middleware.llm.connections import Origin

logger = logging.getLogger(__name__)

_QUICK_FAILURES: Final = 3
_QUICK_PAUSE_SECONDS: Final = 1.0
_SLOW_SECONDS: Final = 1.0
_FIRST_SLOW_PAUSE_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 30.0


class Circuit:
    """What is known of the way to one server. Safe to use from any thread."""

    __slots__ = ("_failures", "_lock", "_open_until", "_pause", "_slow")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._slow = 0
        self._pause = 0.0
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        return self._pause > 0.0

    def admit(self, endpoint: str) -> None:
        """Raise BackendUnreachable when the server was dead a moment ago."""
        if not self._pause:
            return
        with self._lock:
            now = time.monotonic()
            if now < self._open_until:
                left = self._open_until - now
                raise BackendUnreachable(
                    endpoint, detail=f"not tried: it could not be reached; again in {left:.1f} s"
                )
            # This call is the one that finds out; the others go on waiting for it.
            self._open_until = now + self._pause

    def failed(self, endpoint: str, seconds: float) -> None:
        """No connection was made, after ``seconds`` of trying."""
        with self._lock:
            self._failures += 1
            if seconds >= _SLOW_SECONDS:
                pause = min(_FIRST_SLOW_PAUSE_SECONDS * 2.0**self._slow, _LONGEST_PAUSE_SECONDS)
                self._slow += 1
            elif self._failures >= _QUICK_FAILURES:
                pause = max(_QUICK_PAUSE_SECONDS, self._pause)
            else:
                return
            opened = not self._pause
            self._pause = pause
            self._open_until = time.monotonic() + pause
        if opened:
            logger.warning(
                "Endpoint %r cannot be reached; it is tried again every %g s at most.",
                endpoint,
                pause,
            )

    def worked(self, endpoint: str) -> None:
        """The server was reached, whatever it said."""
        if not self._failures:
            return
        with self._lock:
            was_open = self._pause > 0.0
            self._failures = self._slow = 0
            self._pause = self._open_until = 0.0
        if was_open:
            logger.warning("Endpoint %r can be reached again.", endpoint)


class Circuits:
    """One a server of models: endpoints on the same server share what is known."""

    def __init__(self) -> None:
        self._circuits: dict[Origin, Circuit] = {}

    def of(self, origin: Origin) -> Circuit:
        return self._circuits.setdefault(origin, Circuit())
