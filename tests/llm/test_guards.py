"""Retries, circuit and gate around a backend that a test controls."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import (
    BackendBadReply,
    BackendError,
    BackendRejected,
    BackendTimeout,
    BackendUnreachable,
    RunCancelled,
    ServerBusy,
)
from Middleware.core.events import Event, Finish, TextDelta
from Middleware.core.gate import Gate
from Middleware.llm import circuit as circuit_module
from Middleware.llm.backend import Kind, ModelRequest
from Middleware.llm.circuit import Circuit, Circuits
from Middleware.llm.connections import Origin
from Middleware.llm.guarded import GuardedBackend, Guards
from Middleware.llm.retries import RetryPolicy, seconds_until
from tests.llm.setups import DEADLINE, Background, ask

OK: list[Event | Exception] = [TextDelta("ok"), Finish()]
DEAD = BackendUnreachable("fast")


class Played:
    """Plays one list of events and failures a call; the last is repeated."""

    kind: Kind = "chat"
    accepts = frozenset({"temperature"})

    def __init__(self, *plays: list[Event | Exception]) -> None:
        self.calls = 0
        self.closed = 0
        self.running: list[Iterator[Event]] = []
        self._plays = plays

    def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
        # Kept, so that none is closed only because nobody holds it any more.
        self.running.append(self._events())
        return self.running[-1]

    def _events(self) -> Iterator[Event]:
        play = self._plays[min(self.calls, len(self._plays) - 1)]
        self.calls += 1
        try:
            for event in play:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self.closed += 1


def guarded(played: Played, **guards: Any) -> GuardedBackend:
    return GuardedBackend(played, "fast", Guards(**guards))


def heard(backend: GuardedBackend, cancel: CancelToken | None = None) -> list[Event]:
    return list(backend.complete(ask(), cancel or CancelToken()))


def test_it_is_what_it_guards() -> None:
    backend = guarded(Played(OK))

    assert (backend.kind, backend.accepts) == ("chat", frozenset({"temperature"}))
    assert heard(backend) == OK


PASSING: list[BackendError] = [
    BackendUnreachable("fast"),
    BackendBadReply("fast", "closed the connection without an answer."),
    *(BackendRejected("fast", status, "no") for status in (408, 425, 429, 500, 502, 503, 504, 529)),
]
LASTING: list[BackendError] = [
    BackendTimeout("fast", 1),
    *(BackendRejected("fast", status, "no") for status in (400, 401, 403, 404, 413, 422, 501)),
    BackendRejected("fast", 429, "no", retry_after="6"),
]


@pytest.mark.parametrize("error", PASSING, ids=str)
def test_what_may_pass_is_tried_again(error: BackendError) -> None:
    played = Played([error], OK)

    assert heard(guarded(played, retries=RetryPolicy(1))) == OK
    assert (played.calls, played.closed) == (2, 2)


@pytest.mark.parametrize("error", LASTING, ids=str)
def test_what_lasts_is_not(error: BackendError) -> None:
    played = Played([error], OK)

    with pytest.raises(type(error)):
        heard(guarded(played, retries=RetryPolicy(3)))
    assert played.calls == 1


def test_after_the_last_try_the_failure_is_told() -> None:
    played = Played([DEAD])

    with pytest.raises(BackendUnreachable):
        heard(guarded(played, retries=RetryPolicy(2)))
    assert played.calls == 3


def test_what_was_passed_on_is_never_said_again() -> None:
    played = Played([TextDelta("a"), BackendBadReply("fast", "broke.")], OK)
    passed: list[Event] = []

    with pytest.raises(BackendBadReply):
        passed += iter(guarded(played, retries=RetryPolicy(3)).complete(ask(), CancelToken()))
    assert (passed, played.calls) == ([TextDelta("a")], 1)


def test_a_cancelled_run_does_not_wait_for_its_next_try() -> None:
    cancel = CancelToken()
    played = Played([BackendRejected("fast", 429, "no", retry_after="4")])
    call = Background(lambda: heard(guarded(played, retries=RetryPolicy(2)), cancel))
    cancel.cancel()

    assert isinstance(call.result(), RunCancelled)


def test_who_stops_listening_ends_the_call() -> None:
    played = Played([TextDelta("a"), TextDelta("b"), Finish()])
    gate = Gate(1, 1.0)
    events = guarded(played, gate=gate).complete(ask(), CancelToken())
    next(events)
    events.close()  # type: ignore[attr-defined]

    assert played.closed == 1
    gate.enter(CancelToken())


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        (" 0.5 ", 0.5),
        ("-1", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("soon", 0.0),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str, seconds: float) -> None:
    assert seconds_until(header) == seconds


# ------------------------------------------------------------------------------------------ gate


def test_a_slot_is_held_from_the_first_event_to_the_last() -> None:
    gate = Gate(1, 0.0)
    events = guarded(Played(OK), gate=gate).complete(ask(), CancelToken())
    gate.enter(CancelToken())
    gate.leave()
    next(events)
    with pytest.raises(ServerBusy):
        gate.enter(CancelToken())
    list(events)

    gate.enter(CancelToken())


def test_a_slot_is_free_while_one_waits_for_the_next_try() -> None:
    gate = Gate(1, 0.0)
    cancel = CancelToken()
    failed = threading.Event()

    class Failing(Played):
        def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
            failed.set()
            raise BackendRejected("fast", 503, "no", retry_after="3")
            yield

    call = Background(lambda: heard(guarded(Failing(), gate=gate, retries=RetryPolicy(1)), cancel))
    assert failed.wait(DEADLINE)
    for _ in range(1000):
        try:
            gate.enter(CancelToken())
            break
        except ServerBusy:
            continue
    gate.leave()
    cancel.cancel()
    assert isinstance(call.result(), RunCancelled)


def test_the_queue_is_served_in_order_and_leavers_are_dropped() -> None:
    gate = Gate(1, DEADLINE)
    gate.enter(CancelToken())
    order: list[str] = []
    leaver = CancelToken()

    def come(name: str, cancel: CancelToken) -> Background:
        before = gate.waiting

        def enter() -> None:
            gate.enter(cancel)
            order.append(name)
            gate.leave()

        call = Background(enter)
        while gate.waiting == before:
            pass
        return call

    first, gone, last = (
        come(n, t) for n, t in (("1", CancelToken()), ("x", leaver), ("2", CancelToken()))
    )
    leaver.cancel()
    assert isinstance(gone.result(), RunCancelled)
    gate.leave()
    first.result()
    last.result()

    assert order == ["1", "2"]


# --------------------------------------------------------------------------------------- circuit


def failing(backend: GuardedBackend, times: int) -> None:
    for _ in range(times):
        with pytest.raises(BackendUnreachable):
            heard(backend)


def test_a_dead_server_is_left_alone_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    played = Played([DEAD], [DEAD], [DEAD], [DEAD], OK)
    backend = guarded(played, circuit=Circuit())
    failing(backend, 3)
    assert played.calls == 3

    failing(backend, 5)
    assert played.calls == 3

    now[0] += circuit_module._QUICK_PAUSE_SECONDS
    failing(backend, 5)
    assert played.calls == 4

    now[0] += circuit_module._QUICK_PAUSE_SECONDS
    assert heard(backend) == OK
    assert heard(backend) == OK
    assert played.calls == 6


def test_one_call_finds_out_whether_it_is_back_and_the_others_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    circuit = Circuit()
    for _ in range(3):
        circuit.failed("fast", 0.0)
    now[0] += circuit_module._QUICK_PAUSE_SECONDS
    circuit.admit("fast")

    with pytest.raises(BackendUnreachable):
        circuit.admit("fast")
    circuit.worked("fast")
    circuit.admit("fast")


def test_one_that_lets_people_wait_is_left_alone_at_once_and_for_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    class Slow(Played):
        def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
            now[0] += 30
            return super().complete(request, cancel)

    circuit = Circuit()
    pauses = []
    for _ in range(5):
        began = now[0]
        circuit.failed("fast", 30.0)
        with pytest.raises(BackendUnreachable):
            circuit.admit("fast")
        while True:
            now[0] += 1
            try:
                circuit.admit("fast")
                break
            except BackendUnreachable:
                continue
        pauses.append(now[0] - began)

    assert pauses == [5, 10, 20, 30, 30]


def test_a_server_that_answers_with_errors_is_alive() -> None:
    circuit = Circuit()
    played = Played([DEAD], [DEAD], [BackendRejected("fast", 500, "no")], [DEAD], [DEAD], OK)
    backend = guarded(played, circuit=circuit)
    failing(backend, 2)
    with pytest.raises(BackendRejected):
        heard(backend)
    failing(backend, 2)

    assert heard(backend) == OK


def test_an_open_circuit_is_no_reason_to_wait() -> None:
    circuit = Circuit()
    for _ in range(3):
        circuit.failed("fast", 0.0)
    played = Played([DEAD])

    with pytest.raises(BackendUnreachable):
        heard(guarded(played, circuit=circuit, retries=RetryPolicy(5)))
    assert played.calls == 0


def test_endpoints_on_one_server_share_what_is_known() -> None:
    circuits = Circuits()
    one, two = Origin(False, "h", 1), Origin(False, "h", 2)

    assert circuits.of(one) is circuits.of(one)
    assert circuits.of(one) is not circuits.of(two)
