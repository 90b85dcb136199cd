import threading
import time
from collections.abc import Callable

from Middleware.api.background import Background, Task
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ServerStopping
from tests.fakes.live_site import DEADLINE_SECONDS, wait_until


def task(work: Callable[[], None], cancel: CancelToken | None = None) -> Task:
    return Task("r1", work, cancel or CancelToken())


def in_a_moment() -> float:
    return time.monotonic() + DEADLINE_SECONDS


def test_tasks_run_side_by_side_up_to_the_limit_and_then_wait() -> None:
    background = Background(most=2)
    go_on = threading.Event()
    done: list[str] = []

    def work() -> None:
        wait_for(go_on)
        done.append("done")

    for _ in range(3):
        background.submit(task(work))

    assert background.threads == 2
    assert len(background) == 3
    go_on.set()
    assert background.wait_until_idle(in_a_moment())
    assert len(done) == 3


def test_an_idle_thread_is_used_again_and_ends_in_the_end() -> None:
    background = Background(idle_seconds=0.05)
    names: list[str] = []

    for _ in range(3):
        background.submit(task(lambda: names.append(threading.current_thread().name)))
        assert background.wait_until_idle(in_a_moment())

    assert len(names) == 3
    wait_until(lambda: background.threads == 0)


def test_waiting_gives_up_at_its_deadline() -> None:
    background = Background()
    go_on = threading.Event()
    background.submit(task(lambda: wait_for(go_on)))

    assert not background.wait_until_idle(time.monotonic() + 0.05)

    go_on.set()
    assert background.wait_until_idle(in_a_moment())


def wait_for(event: threading.Event) -> None:
    assert event.wait(DEADLINE_SECONDS)


def test_stopping_cancels_what_runs_and_forgets_what_waits() -> None:
    background = Background(most=1)
    cancel, begun, forgotten = CancelToken(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        cancel.wait(DEADLINE_SECONDS)

    background.submit(task(work, cancel))
    assert begun.wait(DEADLINE_SECONDS)
    background.submit(task(forgotten.set))
    background.stop_all(ServerStopping)

    assert background.wait_until_idle(in_a_moment())
    assert not forgotten.is_set()


def test_a_task_that_fails_does_not_take_its_thread_along() -> None:
    background = Background(most=1)
    done = threading.Event()

    def fail() -> None:
        raise ZeroDivisionError

    background.submit(task(fail))
    background.submit(task(done.set))

    assert done.wait(DEADLINE_SECONDS)
    assert background.wait_until_idle(in_a_moment())
