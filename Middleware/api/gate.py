"""The reference's concurrency gate, around whole requests (front-doors §12.1, decisions §2)."""

import threading
from collections.abc import Iterator

from Middleware.api.answers import Answer
from Middleware.core.cancellation import CancelToken
from Middleware.core.events import Event
from Middleware.core.gate import Gate


class Slot:
    """The right to run. Harmless to release twice."""

    __slots__ = ("_gate", "_held", "_lock")

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._held = True
        self._lock = threading.Lock()

    def release(self) -> None:
        with self._lock:
            if not self._held:
                return
            self._held = False
        self._gate.leave()


class RequestGate:
    """The gate as requests pass it: whoever is let in gets a slot to give back."""

    def __init__(self, slots: int, timeout_seconds: float) -> None:
        self._gate = Gate(slots, timeout_seconds)

    @property
    def waiting(self) -> int:
        return self._gate.waiting

    def enter(self, cancel: CancelToken) -> Slot:
        """Wait for a slot. Raises ServerBusy after the time-out, or the token's reason."""
        self._gate.enter(cancel)
        return Slot(self._gate)


class GatedAnswer:
    """An answer whose run waits for a slot when its first event is asked for.

    The wait is a part of the stream, so that a client in the queue gets headers and heartbeats.
    """

    def __init__(self, answer: Answer, gate: RequestGate, cancel: CancelToken) -> None:
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
