import threading

import pytest

from Middleware.api.active import ClientLeft
from Middleware.api.pulse import Pulse
from Middleware.core.errors import MiddlewareError, RunCancelled, ServerStopping
from tests.fakes.live_site import DEADLINE_SECONDS, wait_until


class Beats:
    """An outlet that counts, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.count = 0
        self.enough = threading.Event()
        self._failure = failure

    def beat(self, now: float) -> None:
        self.count += 1
        if self._failure is not None:
            raise self._failure
        if self.count >= 3:
            self.enough.set()

    def last_words(self, error: MiddlewareError) -> None:
        pass


def test_a_request_is_looked_at_until_it_is_released() -> None:
    pulse = Pulse(interval_seconds=0.005)
    request, beats = pulse.watch("r1", None), Beats()
    request.attach(beats)

    assert beats.enough.wait(DEADLINE_SECONDS)
    pulse.release(request)
    counted = beats.count
    other = pulse.watch("r2", None)
    other.attach(later := Beats())
    assert later.enough.wait(DEADLINE_SECONDS)

    assert beats.count == counted
    pulse.release(other)
    assert len(pulse) == 0


def test_a_client_that_is_gone_cancels_its_own_request_only() -> None:
    pulse = Pulse(interval_seconds=0.005)
    gone, here = pulse.watch("r1", lambda: True), pulse.watch("r2", lambda: False)

    with pytest.raises(RunCancelled):
        gone.cancel.wait(DEADLINE_SECONDS)

    assert gone.gone
    assert not here.cancel.cancelled


def test_a_request_that_is_over_is_never_cancelled() -> None:
    pulse = Pulse()
    request = pulse.watch("r1", lambda: True)

    pulse.release(request)
    request.look(0.0)
    request.stop(ServerStopping())

    assert not request.cancel.cancelled


def test_a_look_never_waits_for_a_worker_that_is_writing() -> None:
    request = Pulse().watch("r1", lambda: True)

    with request.lock:
        request.look(0.0)

    assert not request.cancel.cancelled


def test_a_failing_request_takes_no_heartbeats_from_the_others() -> None:
    pulse = Pulse(interval_seconds=0.005)
    bad, left, good = (pulse.watch(name, None) for name in ("bad", "left", "good"))
    bad.attach(broken := Beats(ZeroDivisionError()))
    left.attach(Beats(ClientLeft()))
    good.attach(beats := Beats())

    assert beats.enough.wait(DEADLINE_SECONDS)
    with pytest.raises(RunCancelled):
        left.cancel.wait(DEADLINE_SECONDS)

    assert broken.count == 1
    assert left.gone


def test_the_thread_sleeps_while_nothing_is_active_and_wakes_for_the_next_request() -> None:
    pulse = Pulse(interval_seconds=0.001)
    pulse.release(pulse.watch("r1", None))
    wait_until(lambda: pulse.resting)

    request = pulse.watch("r2", None)
    request.attach(beats := Beats())

    assert beats.enough.wait(DEADLINE_SECONDS)
    pulse.release(request)


def test_stopping_reaches_every_request() -> None:
    pulse = Pulse()
    requests = [pulse.watch(str(number), None) for number in range(3)]

    pulse.stop_all(ServerStopping)

    for request in requests:
        with pytest.raises(ServerStopping):
            request.cancel.check()
