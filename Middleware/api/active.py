"""A request while its run can still be stopped."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import MiddlewareError

_PATIENCE_SECONDS = 0.1


class ClientLeft(Exception):
    """The client has closed its connection. Not an error."""


class Outlet(Protocol):
    """A stream that wants a sign of life now and then."""

    def beat(self, now: float) -> None:
        """Send one if it is due. Called with the request's ``lock`` held; never waits."""
        ...

    def last_words(self, error: MiddlewareError) -> None:
        """Say that nothing more will come. Called with the request's ``lock`` held."""
        ...


class ActiveRequest:
    """From the arrival of a request to the last byte of its answer.

    Three threads meet here: the worker that runs the run, the Pulse, and the one that shuts the
    server down. ``lock`` is held by the worker for each hand-over of bytes and by the Pulse for
    each look, so that

    * two threads never write to the client at once, and
    * no look ends in a cancellation once :meth:`finish` has returned: what goes on after the
      answer must not die because the client hangs up.
    """

    __slots__ = ("_client_gone", "_outlet", "_over", "cancel", "gone", "id", "lock", "since")

    def __init__(self, request_id: str, client_gone: Callable[[], bool] | None) -> None:
        self.id = request_id
        self.since = time.monotonic()
        self.cancel = CancelToken()
        self.gone = False
        """True once it is known that the client has closed its connection."""
        self.lock = threading.Lock()
        self._client_gone = client_gone
        self._outlet: Outlet | None = None
        self._over = False

    def attach(self, outlet: Outlet) -> None:
        """From now on ``outlet`` is asked for heartbeats."""
        self._outlet = outlet

    def finish(self) -> None:
        """The answer is complete, or given up: nobody looks after it any more."""
        with self.lock:
            self.finish_locked()

    def finish_locked(self) -> None:
        """The same with ``lock`` held: in one go with the last hand-over, so that a client that
        hangs up as soon as it has its answer does not cancel what goes on after it.
        """
        self._over = True
        self._outlet = None

    def leave(self) -> None:
        """The client is gone: stop the run."""
        self.gone = True
        self.cancel.cancel()

    def stop(self, reason: MiddlewareError) -> None:
        """Stop the run for a reason of ours.

        Without the lock, which a worker may hold for long while its client reads nothing.
        """
        if not self._over:
            self.cancel.cancel(reason)

    def abandon(self, reason: MiddlewareError) -> None:
        """End the answer in place of a worker that cannot be stopped, before the process ends."""
        if not self.lock.acquire(timeout=_PATIENCE_SECONDS):
            return
        try:
            if not self._over and self._outlet is not None:
                self._outlet.last_words(reason)
        except ClientLeft:
            pass
        finally:
            self.finish_locked()
            self.lock.release()

    def look(self, now: float) -> None:
        """Notice a client that has left; otherwise send a heartbeat if one is due.

        Never waits: while the worker is writing, neither is needed.
        """
        if not self.lock.acquire(blocking=False):
            return
        try:
            if self._over:
                return
            if self._client_gone is not None and self._client_gone():
                self.leave()
            elif self._outlet is not None:
                self._outlet.beat(now)
        except ClientLeft:
            self.leave()
        finally:
            self.lock.release()
