"""When the engine looks for work: at once when there is news, and hardly ever when there is none.

A look of the engine's own costs some three milliseconds of a core; to be asked whether there is a
task that nobody has begun costs a tenth of it.
"""

import threading
import time
from collections.abc import Callable

LONGEST_SECONDS = 5.0
"""Between two looks in any case: for tasks that belong to no conversation any more."""


class Pace:
    """Has the face of the event by which the engine's loop is stopped and on which it waits."""

    def __init__(self, is_work: Callable[[], bool]) -> None:
        self._is_work = is_work
        self._news = threading.Event()
        self._stopping = threading.Event()

    def hurry(self) -> None:
        """There is, or may be, a task now."""
        self._news.set()

    def stop(self) -> None:
        self._stopping.set()
        self._news.set()

    def is_set(self) -> bool:
        return self._stopping.is_set()

    def wait(self, timeout: float) -> bool:
        """Returns when it is worth a look, or all is over: then True. ``timeout`` is the time
        between two questions; the loop raises it when many workers are in each other's way.
        """
        began = time.monotonic()
        while not self.is_set():
            if self._news.wait(timeout):
                self._news.clear()
                break
            if time.monotonic() - began >= LONGEST_SECONDS or self._is_work():
                break
        return self.is_set()
