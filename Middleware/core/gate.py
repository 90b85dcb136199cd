"""A gate that lets so many through at once, and the others in the order in which they came
(front-doors §12.1, decisions §2): around whole requests, or around calls of one endpoint.
"""

import threading
from collections import deque

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ServerBusy


class _Waiter:
    __slots__ = ("served", "woken")

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.served = False


class Gate:
    """At most ``slots`` at once; the others wait in the order in which they came.

    Who leaves the queue is dropped from it at once, so that nobody waits for a client that is
    gone. A wait that is too long is no fault of an endpoint: it is neither repeated nor a reason
    for a backup.
    """

    def __init__(self, slots: int, timeout_seconds: float) -> None:
        self.slots = slots
        self._free = slots
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()
        self._queue: deque[_Waiter] = deque()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def enter(self, cancel: CancelToken) -> None:
        """Wait for a slot. Raises ServerBusy after the time-out, or the token's reason."""
        cancel.check()
        with self._lock:
            if self._free > 0 and not self._queue:
                self._free -= 1
                return
            waiter = _Waiter()
            self._queue.append(waiter)
        try:
            with cancel.on_cancel(waiter.woken.set):
                waiter.woken.wait(self._timeout_seconds)
        finally:
            served = self._left(waiter)
        if not served:
            cancel.check()
            raise ServerBusy(self._timeout_seconds)
        if cancel.cancelled:
            self.leave()
            cancel.check()

    def leave(self) -> None:
        """Give the slot back: to the next in the queue, if somebody waits."""
        with self._lock:
            if not self._queue:
                self._free += 1
                return
            waiter = self._queue.popleft()
            waiter.served = True
            waiter.woken.set()

    def _left(self, waiter: _Waiter) -> bool:
        """Whether the waiter was served; if not it stands in the queue no longer."""
        with self._lock:
            if not waiter.served:
                self._queue.remove(waiter)
            return waiter.served
