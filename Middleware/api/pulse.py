"""The one thread that looks after all requests while their own threads wait for backends."""

import logging
import threading
import time
from collections.abc import Callable

from Middleware.api.active import ActiveRequest
from Middleware.core.errors import MiddlewareError

logger = logging.getLogger(__name__)

_ROUNDS_BEFORE_REST = 20
"""Empty rounds after which the thread sleeps until a request comes. Not at once, because waking
a thread for every request of a series costs more than these rounds."""


class Pulse:
    """Every ``interval_seconds``, while there are active requests, looks at each of them.

    A client that has hung up is noticed within that time in every phase of a run, and silent
    streams get their heartbeats, without a second thread for a stream.
    """

    def __init__(self, interval_seconds: float = 0.05) -> None:
        self._interval = interval_seconds
        self._requests: dict[ActiveRequest, None] = {}
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._thread: threading.Thread | None = None
        self.resting = False
        """True while the thread sleeps because nothing is active."""

    def __len__(self) -> int:
        return len(self._requests)

    def watch(self, request_id: str, client_gone: Callable[[], bool] | None) -> ActiveRequest:
        """Register a request. Whoever asked must :meth:`release` it, whatever happens."""
        request = ActiveRequest(request_id, client_gone)
        with self._lock:
            self._requests[request] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
                self._thread.start()
        if not self._awake.is_set():
            self._awake.set()
        return request

    def release(self, request: ActiveRequest) -> None:
        """The request has its answer. Harmless when called twice."""
        request.finish()
        self._forget(request)

    def stop_all(self, reason: Callable[[], MiddlewareError]) -> None:
        """Cancel every active run, each for a reason of its own: runs add where they were to it,
        which is nobody else's affair.
        """
        for request in self._all():
            request.stop(reason())

    def abandon_all(self, reason: Callable[[], MiddlewareError]) -> None:
        """End the answers of those that did not stop, for the process is about to end."""
        for request in self._all():
            request.abandon(reason())

    def _forget(self, request: ActiveRequest) -> None:
        with self._lock:
            self._requests.pop(request, None)

    def _all(self) -> tuple[ActiveRequest, ...]:
        with self._lock:
            return tuple(self._requests)

    def _run(self) -> None:
        empty_rounds = 0
        while True:
            time.sleep(self._interval)
            requests = self._all()
            if requests:
                empty_rounds = 0
                self._look_at(requests)
            else:
                empty_rounds += 1
            if empty_rounds > _ROUNDS_BEFORE_REST:
                self._rest()
                empty_rounds = 0

    def _look_at(self, requests: tuple[ActiveRequest, ...]) -> None:
        now = time.monotonic()
        for request in requests:
            try:
                request.look(now)
            # The outermost guard of this thread: a fault in one request must not take the
            # heartbeats from all others. That one goes on unwatched.
            except Exception:
                logger.exception("the pulse failed request=%s", request.id)
                self._forget(request)

    def _rest(self) -> None:
        # First the flag, then the look: watch() adds first and sets the flag afterwards, so one
        # of the two sees the other.
        self._awake.clear()
        if not self._all():
            self.resting = True
            self._awake.wait()
            self.resting = False
