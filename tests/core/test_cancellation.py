import sys
import threading
import time

import pytest

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import MiddlewareError, RunCancelled, ServerStopping

DEADLINE_SECONDS = 5.0


def test_nothing_happens_until_somebody_cancels() -> None:
    token = CancelToken()

    token.check()
    token.wait(0)
    with token.on_cancel(lambda: pytest.fail("nobody cancelled")):
        token.check()

    assert not token.cancelled


def test_a_cancelled_run_ends_where_it_looks_next() -> None:
    token = CancelToken()
    token.cancel()

    assert token.cancelled
    with pytest.raises(RunCancelled):
        token.check()
    with pytest.raises(RunCancelled):
        token.wait(DEADLINE_SECONDS)


def test_the_first_reason_counts() -> None:
    token = CancelToken()

    token.cancel(ServerStopping())
    token.cancel()

    with pytest.raises(ServerStopping):
        token.check()


def test_a_wait_without_cancel_takes_its_time_and_no_longer() -> None:
    began = time.monotonic()

    CancelToken().wait(0.02)

    assert 0.02 <= time.monotonic() - began < DEADLINE_SECONDS


def waits(thread: threading.Thread) -> bool:
    """Whether a thread has come to rest in a wait, so that only a notice can wake it."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is threading.Condition.wait.__code__


def test_all_who_wait_are_woken_by_a_cancel_from_another_thread() -> None:
    token = CancelToken()
    ended: list[MiddlewareError] = []

    def work() -> None:
        try:
            token.wait(100 * DEADLINE_SECONDS)
        except MiddlewareError as error:
            ended.append(error)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for worker in workers:
        worker.start()
    began = time.monotonic()
    while not all(map(waits, workers)):
        assert time.monotonic() - began < DEADLINE_SECONDS
    token.cancel()
    for worker in workers:
        worker.join(DEADLINE_SECONDS)

    assert [type(error) for error in ended] == [RunCancelled] * 3


def test_a_callback_runs_once_and_on_the_thread_that_cancels() -> None:
    token = CancelToken()
    callers: list[threading.Thread] = []
    blocked = threading.Event()
    released = threading.Event()

    def call() -> None:
        callers.append(threading.current_thread())
        released.set()

    def work() -> None:
        with token.on_cancel(call):
            blocked.set()
            released.wait(DEADLINE_SECONDS)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    assert blocked.wait(DEADLINE_SECONDS)
    token.cancel()
    token.cancel()
    worker.join(DEADLINE_SECONDS)

    assert callers == [threading.current_thread()]


def test_several_callbacks_are_all_called() -> None:
    token = CancelToken()
    called: list[str] = []

    with token.on_cancel(lambda: called.append("outer")):  # noqa: SIM117 - two blocks are the point
        with token.on_cancel(lambda: called.append("inner")):
            token.cancel()

    assert sorted(called) == ["inner", "outer"]


def test_a_callback_is_forgotten_when_its_block_ends() -> None:
    token = CancelToken()

    with token.on_cancel(lambda: pytest.fail("the block is over")):
        pass
    with pytest.raises(KeyError), token.on_cancel(lambda: pytest.fail("the block has failed")):
        raise KeyError

    token.cancel()


def test_a_block_is_not_entered_when_the_run_is_cancelled_already() -> None:
    token = CancelToken()
    token.cancel(ServerStopping())
    entered = False

    with pytest.raises(ServerStopping), token.on_cancel(lambda: pytest.fail("too late")):
        entered = True

    assert not entered


def test_no_cancel_is_lost_between_blocks_that_come_and_go() -> None:
    """Whoever is in a block when the cancel comes is called; whoever comes later is refused."""
    for _ in range(200):
        token = CancelToken()
        called = threading.Event()
        started = threading.Barrier(2, timeout=DEADLINE_SECONDS)
        refused = False

        def cancel(token: CancelToken = token, started: threading.Barrier = started) -> None:
            started.wait()
            token.cancel()

        other = threading.Thread(target=cancel, daemon=True)
        other.start()
        started.wait()
        try:
            with token.on_cancel(called.set):
                assert called.wait(DEADLINE_SECONDS)
        except RunCancelled:
            refused = True
        other.join(DEADLINE_SECONDS)

        assert called.is_set() or refused
