"""Work that goes on after its answer has been sent: the nodes behind the responder."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import MiddlewareError, RunCancelled

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """``cancel`` is only used when the server stops."""

    request_id: str
    work: Callable[[], None]
    cancel: CancelToken


class Background:
    """Threads made when they are needed, at most ``most``, which end when they are not.

    Not a ThreadPoolExecutor: the interpreter waits for the threads of one before it exits, and
    a node that hangs must not keep a stopping server alive.
    """

    def __init__(self, most: int = 200, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._changed = threading.Condition()
        self._waiting: deque[Task] = deque()
        self._running: set[Task] = set()
        self._threads = 0
        self._idle = 0

    def __len__(self) -> int:
        """Tasks that are not finished."""
        return len(self._waiting) + len(self._running)

    @property
    def threads(self) -> int:
        return self._threads

    def submit(self, task: Task) -> None:
        with self._changed:
            self._waiting.append(task)
            if self._idle >= len(self._waiting):
                self._changed.notify_all()
            elif self._threads < self._most:
                self._start_thread(task.request_id)

    def _start_thread(self, request_id: str) -> None:
        thread = threading.Thread(target=self._run, name=f"after-{request_id}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The machine has no more threads; the answer that was just sent must not suffer.
            # The task waits for one of ours, or for the next submit().
            logger.exception("no thread for background nodes request=%s", request_id)
        else:
            self._threads += 1

    def wait_until_idle(self, deadline: float) -> bool:
        """Wait until everything is done; False when ``deadline`` (time.monotonic) came first."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not len(self), max(0.0, deadline - time.monotonic())
            )

    def stop_all(self, reason: Callable[[], MiddlewareError]) -> None:
        """Cancel what runs, each for a reason of its own, and forget what has not begun."""
        with self._changed:
            self._waiting.clear()
            running = tuple(self._running)
            self._changed.notify_all()
        for task in running:
            task.cancel.cancel(reason())

    def _run(self) -> None:
        # In a call of its own, so that an idle thread does not keep the last request alive.
        while self._do_one():
            pass

    def _do_one(self) -> bool:
        task = self._next()
        if task is None:
            return False
        try:
            task.work()
        except RunCancelled:
            logger.info("background nodes cancelled request=%s", task.request_id)
        except MiddlewareError as error:
            logger.warning("background nodes failed request=%s: %s", task.request_id, error.message)
        # The outermost guard of a background thread.
        except Exception:
            logger.exception("background nodes failed request=%s", task.request_id)
        finally:
            with self._changed:
                self._running.discard(task)
                self._changed.notify_all()
        return True

    def _next(self) -> Task | None:
        """The next task; None when there was none for a while and the thread shall end."""
        with self._changed:
            self._idle += 1
            try:
                self._changed.wait_for(lambda: bool(self._waiting), self._idle_seconds)
            finally:
                self._idle -= 1
            if not self._waiting:
                self._threads -= 1
                return None
            task = self._waiting.popleft()
            self._running.add(task)
            return task
