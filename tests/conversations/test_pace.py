"""When a worker's engine looks for work."""

import threading
from collections.abc import Callable

from Middleware.conversations.pace import Pace


class Loop:
    """A thread that waits once, as the engine's loop does before each look."""

    def __init__(self, is_work: Callable[[], bool], timeout: float = 0.001) -> None:
        self.pace = Pace(is_work)
        self.stopped: bool | None = None
        self._thread = threading.Thread(target=self._wait, args=(timeout,))
        self._thread.start()

    def _wait(self, timeout: float) -> None:
        self.stopped = self.pace.wait(timeout)

    def waits(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> bool | None:
        self._thread.join(timeout=10)
        return self.stopped


def test_it_looks_when_a_task_is_there_and_not_before() -> None:
    asked: list[bool] = []

    def is_work() -> bool:
        asked.append(len(asked) == 20)
        return asked[-1]

    assert Loop(is_work).end() is False
    assert asked == [*[False] * 20, True]


def test_it_looks_at_once_when_a_task_was_made_here_without_asking() -> None:
    def is_work() -> bool:
        raise AssertionError("nobody should have asked")

    loop = Loop(is_work, timeout=60)
    assert loop.waits()
    loop.pace.hurry()

    assert loop.end() is False


def test_news_of_before_the_wait_are_not_forgotten() -> None:
    pace = Pace(lambda: False)
    pace.hurry()

    assert pace.wait(60) is False


def test_it_ends_when_it_is_told_to() -> None:
    loop = Loop(lambda: False, timeout=60)
    loop.pace.stop()

    assert loop.end() is True
