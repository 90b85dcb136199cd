"""A backend with what surrounds every call of it: the gate, the circuit and the retries."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import BackendError, BackendUnreachable
from Middleware.core.events import Event
from Middleware.core.gate import Gate
from Middleware.llm.backend import Backend, Kind, ModelRequest
from Middleware.llm.circuit import Circuit
from Middleware.llm.retries import RetryPolicy

logger = logging.getLogger(__name__)

_NEVER: Final = RetryPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """None: not watched."""

    retries: RetryPolicy = _NEVER
    circuit: Circuit | None = None
    gate: Gate | None = None


class GuardedBackend:
    """A backend itself. A call is repeated only while none of its events was passed on.

    The gate is held while a call runs, from its first read to its last, not while one waits to
    repeat it.
    """

    def __init__(self, backend: Any, name: str, guards: Guards) -> None:
        self._backend: Backend = backend
        self._name = name
        self._retries = guards.retries
        self._circuit = guards.circuit
        self._gate = guards.gate
        self.kind: Kind = backend.kind
        self.accepts: frozenset[str] = backend.accepts
        self.takes_image_addresses: bool = getattr(backend, "takes_image_addresses", True)

    @property
    def bare(self) -> Backend:
        """What is guarded."""
        return self._backend

    def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
        tried, gate = 1, self._gate
        while True:
            if gate is not None:
                gate.enter(cancel)
            events = self._backend.complete(request, cancel)
            try:
                try:
                    first = self._first(events)
                except BackendError as error:
                    wait = self._wait_after(error, tried)
                    if wait is None:
                        raise
                else:
                    if first is not None:
                        yield first
                        yield from events
                    return
            finally:
                _close(events)
                if gate is not None:
                    gate.leave()
            tried += 1
            cancel.wait(wait)

    def _first(self, events: Iterator[Event]) -> Event | None:
        """The first event: with it the server was reached, and nothing can be repeated."""
        circuit = self._circuit
        if circuit is None:
            return next(events, None)
        circuit.admit(self._name)
        began = time.monotonic()
        try:
            first = next(events, None)
        except BackendUnreachable:
            circuit.failed(self._name, time.monotonic() - began)
            raise
        except BackendError:
            circuit.worked(self._name)
            raise
        circuit.worked(self._name)
        return first

    def _wait_after(self, error: BackendError, tried: int) -> float | None:
        if isinstance(error, BackendUnreachable) and self._circuit and self._circuit.is_open:
            return None
        wait = self._retries.wait_before(error, tried)
        if wait is not None:
            logger.warning("%s Trying again in %.1f s.", error.text, wait)
        return wait


def _close(events: Iterator[Event]) -> None:
    stop = getattr(events, "close", None)
    if stop is not None:
        stop()
