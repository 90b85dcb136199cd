"""The reference's concurrency gate, around whole requests (front-doors §12.1, decisions §2)."""

import threading
from collections import deque
from collections.abc import Iterator

from Middleware.api.answers import Answer
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ServerBusy
from Middleware.core.events import Event


class Slot:
    """The right to run. Harmless to release twice."""

    __slots__ = ("_gate", "_held")

    def __init__(self, gate: "Gate") -> None:
        self._gate = gate
        self._held = True

    def release(self) -> None:
        with self._gate.lock:
            if not self._held:
                return
            self._held = False
            self._gate.hand_over()


class _Waiter:
    __slots__ = ("served", "woken")

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.served = False


class Gate:
    """At most ``slots`` runs at once, the others in the order in which they came.

    Whoever leaves the queue is dropped from it at once, so that nobody waits for a client that
    is gone.
    """

    def __init__(self, slots: int, timeout_seconds: float) -> None:
        self.lock = threading.Lock()
        self._free = slots
        self._timeout_seconds = timeout_seconds
        self._queue: deque[_Waiter] = deque()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def enter(self, cancel: CancelToken) -> Slot:
        """Wait for a slot. Raises ServerBusy after the time-out, or the token's reason."""
        cancel.check()
        with self.lock:
            if self._free > 0:
                self._free -= 1
                return Slot(self)
            waiter = _Waiter()
            self._queue.append(waiter)
        try:
            with cancel.on_cancel(waiter.woken.set):
                waiter.woken.wait(self._timeout_seconds)
        finally:
            served = self._leave(waiter)
        if not served:
            cancel.check()
            raise ServerBusy(self._timeout_seconds)
        slot = Slot(self)
        if cancel.cancelled:
            slot.release()
            cancel.check()
        return slot

    def hand_over(self) -> None:
        """Give a slot to the next in the queue. Call it with ``lock`` held."""
        if not self._queue:
            self._free += 1
            return
        waiter = self._queue.popleft()
        waiter.served = True
        waiter.woken.set()

    def _leave(self, waiter: _Waiter) -> bool:
        """Whether the waiter was served; if not it stands in the queue no longer."""
        with self.lock:
            if not waiter.served:
                self._queue.remove(waiter)
            return waiter.served


class GatedAnswer:
    """An answer whose run waits for a slot when its first event is asked for.

    The wait is a part of the stream, so that a client in the queue gets headers and heartbeats.
    """

    def __init__(self, answer: Answer, gate: Gate, cancel: CancelToken) -> None:
        self._answer = answer
        self._gate = gate
        self._cancel = cancel
        self._slot: Slot | None = None
        self.model = answer.model
        self.heartbeat_seconds = answer.heartbeat_seconds
        self.conversation_id = answer.conversation_id
        self.has_rest = answer.has_rest
        self.rest = answer.rest
        self.ignored = answer.ignored
        self.clamped = answer.clamped
        self.events: Iterator[Event] = self._gated()

    def release(self) -> None:
        """The request is over, however it ended, and so are the nodes behind its answer."""
        if self._slot is not None:
            self._slot.release()

    def _gated(self) -> Iterator[Event]:
        self._slot = self._gate.enter(self._cancel)
        yield from self._answer.events
