import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from Middleware.api.workers import Workers
from tests.fakes.live_site import DEADLINE_SECONDS, wait_until


@dataclass
class Job:
    work: Callable[[], object] = lambda: None
    begun: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    cancelled: bool = False
    thread: int = 0

    def service(self) -> None:
        self.thread = threading.get_ident()
        self.begun.set()
        try:
            self.work()
        finally:
            self.done.set()

    def cancel(self) -> None:
        self.cancelled = True


def finished(job: Job, workers: Workers) -> Job:
    workers.add_task(job)
    assert job.done.wait(DEADLINE_SECONDS)
    return job


def blocking(until: threading.Event) -> Job:
    return Job(lambda: until.wait(DEADLINE_SECONDS))


def test_threads_are_made_when_needed_and_the_rest_waits() -> None:
    workers, go_on = Workers(2), threading.Event()
    jobs = [blocking(go_on) for _ in range(3)]

    for job in jobs:
        workers.add_task(job)
    assert jobs[0].begun.wait(DEADLINE_SECONDS)
    assert jobs[1].begun.wait(DEADLINE_SECONDS)

    assert workers.threads == 2
    assert not jobs[2].begun.is_set()
    go_on.set()
    assert jobs[2].done.wait(DEADLINE_SECONDS)
    assert workers.shutdown()


def test_one_request_at_a_time_needs_one_thread() -> None:
    workers = Workers(50)

    for _ in range(20):
        finished(Job(), workers)
        wait_until(lambda: workers.idle == 1)

    assert workers.threads == 1
    assert workers.shutdown()


def test_idle_threads_end() -> None:
    workers = Workers(5, idle_seconds=0.02)

    finished(Job(), workers)
    wait_until(lambda: workers.threads == 0)
    finished(Job(), workers)

    assert workers.shutdown()


def test_a_task_given_at_the_last_moment_of_an_idle_thread_is_not_lost() -> None:
    workers = Workers(3, idle_seconds=0.0005)

    jobs = [finished(Job(), workers) for _ in range(2000)]

    assert all(job.done.is_set() for job in jobs)
    assert workers.shutdown()


@pytest.mark.filterwarnings("default")
def test_a_failing_task_does_not_end_its_thread() -> None:
    workers = Workers(1)

    failing = finished(Job(lambda: 1 / 0), workers)
    after = finished(Job(), workers)

    assert after.thread == failing.thread
    assert workers.shutdown()


def test_shutting_down_cancels_what_waits_and_tells_what_hangs() -> None:
    workers, go_on = Workers(1), threading.Event()
    hanging, waiting = blocking(go_on), Job()
    workers.add_task(hanging)
    assert hanging.begun.wait(DEADLINE_SECONDS)
    workers.add_task(waiting)

    assert not workers.shutdown(timeout=0.05)
    assert waiting.cancelled
    go_on.set()
    assert workers.shutdown()
    assert not waiting.begun.is_set()
