"""The concurrency gate by itself; what it does to requests is told in test_doors_life.py."""

import threading
from functools import partial

import pytest

from Middleware.api.gate import RequestGate
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import RunCancelled, ServerBusy
from tests.fakes.live_site import wait_until

DEADLINE_SECONDS = 10


def test_it_lets_no_more_through_than_it_has_slots() -> None:
    gate, lock = RequestGate(3, DEADLINE_SECONDS), threading.Lock()
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(50):
            slot = gate.enter(CancelToken())
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1
            slot.release()
            slot.release()

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)

    assert not any(thread.is_alive() for thread in threads)
    assert 1 <= most <= 3
    assert gate.waiting == 0


def _waiting(gate: RequestGate, count: int) -> bool:
    return gate.waiting == count


def test_who_came_first_is_served_first() -> None:
    gate, served = RequestGate(1, DEADLINE_SECONDS), list[int]()
    slot = gate.enter(CancelToken())

    def wait(number: int) -> None:
        mine = gate.enter(CancelToken())
        served.append(number)
        mine.release()

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(5)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        wait_until(partial(_waiting, gate, number))
    slot.release()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)

    assert served == [0, 1, 2, 3, 4]


def test_who_waits_too_long_gives_up_and_takes_no_slot() -> None:
    gate = RequestGate(1, 0.05)
    slot = gate.enter(CancelToken())
    with pytest.raises(ServerBusy):
        gate.enter(CancelToken())
    slot.release()

    gate.enter(CancelToken()).release()
    assert gate.waiting == 0


def test_who_is_cancelled_leaves_the_queue_at_once() -> None:
    gate, cancel, left = RequestGate(1, DEADLINE_SECONDS), CancelToken(), threading.Event()
    slot = gate.enter(CancelToken())

    def wait() -> None:
        with pytest.raises(RunCancelled):
            gate.enter(cancel)
        left.set()

    threading.Thread(target=wait, daemon=True).start()
    wait_until(lambda: gate.waiting == 1)
    cancel.cancel()

    assert left.wait(DEADLINE_SECONDS)
    assert gate.waiting == 0
    slot.release()
    gate.enter(CancelToken()).release()
