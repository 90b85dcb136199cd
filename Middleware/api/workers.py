"""The threads that answer requests."""

import logging
import threading
import time
from collections import deque
from typing import Protocol

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 60.0


class Task(Protocol):
    """A connection of waitress with a request to answer."""

    def service(self) -> None: ...

    def cancel(self) -> None: ...


class _Worker:
    """What an idle thread waits for: its lock is released once it has been given a task."""

    __slots__ = ("task", "wake")

    def __init__(self, task: Task) -> None:
        self.task: Task | None = task
        self.wake = threading.Lock()
        self.wake.acquire()


class Workers:
    """At most ``most`` threads, made when they are needed and ended when they are not.

    Takes the place of waitress's own dispatcher, whose threads all exist from the start and take
    turns. Here the thread that became idle last is the next to work: few requests at a time keep
    few threads warm, the server starts sooner, and it costs less memory and processor time
    (a fifth of a small request with 600 threads).
    """

    def __init__(self, most: int, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._idle: list[_Worker] = []
        self._waiting: deque[Task] = deque()
        self._stopping = False
        self.threads = 0
        """Threads that exist now."""

    @property
    def idle(self) -> int:
        """Threads that wait for a task."""
        return len(self._idle)

    def add_task(self, task: Task) -> None:
        """Have ``task`` served, at once if there is a thread to be had."""
        with self._lock:
            if not self._idle:
                if self.threads >= self._most or not self._start(task):
                    self._waiting.append(task)
                return
            worker = self._idle.pop()
            worker.task = task
        worker.wake.release()

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:
        """Let every thread end after its task; True when all have ended in ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._stopping = True
            idle, self._idle = self._idle, []
            for worker in idle:
                worker.wake.release()
            if cancel_pending:
                while self._waiting:
                    self._waiting.popleft().cancel()
            done = self._ended.wait_for(
                lambda: not self.threads, max(0.0, deadline - time.monotonic())
            )
            if not done:
                logger.warning("%d requests are still being answered", self.threads)
            return done

    def _start(self, task: Task) -> bool:
        worker = _Worker(task)
        thread = threading.Thread(target=self._run, args=(worker,), name="worker", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self.threads:
                raise
            # The machine has no more threads: the task waits for one of those that exist.
            logger.exception("no more than %d threads can be made", self.threads)
            return False
        self.threads += 1
        return True

    def _run(self, worker: _Worker) -> None:
        while worker.task is not None:
            self._serve(worker.task)
            self._next_task(worker)
        with self._lock:
            self.threads -= 1
            self._ended.notify_all()

    def _serve(self, task: Task) -> None:
        try:
            task.service()
        # The outermost guard of a worker; waitress has its own for requests.
        except Exception:
            logger.exception("a connection failed")

    def _next_task(self, worker: _Worker) -> None:
        """Wait for a task; ``worker.task`` stays None when the thread shall end."""
        with self._lock:
            worker.task = self._waiting.popleft() if self._waiting else None
            if worker.task is not None or self._stopping:
                return
            self._idle.append(worker)
        if worker.wake.acquire(timeout=self._idle_seconds):
            return
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return
        # It was given a task, or told to end, at the last moment.
        worker.wake.acquire()
