"""``Idempotency-Key``: a request that is sent twice runs once (decisions §6)."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from Middleware.api.answers import Answer
from Middleware.api.background import Background, Task
from Middleware.api.errors import internal_error
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import BackendError, MalformedRequest, MiddlewareError, RunCancelled
from Middleware.core.events import Event, Finish

KEPT_SECONDS = 600.0
_MOST = 1024


@dataclass(frozen=True, slots=True)
class TwinKey:
    """What makes two requests one."""

    scope: str
    door: str
    key: str


@dataclass(slots=True, eq=False)
class SharedRun:
    """One run, and what it has said so far, for all who asked for it."""

    request_id: str
    fingerprint: bytes
    """Of the request's body: a key may not be used for another one."""
    cancel: CancelToken = field(default_factory=CancelToken)
    changed: threading.Condition = field(default_factory=threading.Condition)
    answer: Answer | None = None
    events: list[Event] = field(default_factory=list)
    error: MiddlewareError | None = None
    done: bool = False
    done_at: float = 0.0
    followers: int = 0
    releases: list[Callable[[], None]] = field(default_factory=list)
    """To be called when the run is over."""

    def pump(self) -> None:
        """Run the run. Called once, in a thread of its own."""
        assert self.answer is not None
        error: MiddlewareError | None = BackendError("The answer ended without saying why.")
        try:
            for event in self.answer.events:
                with self.changed:
                    self.events.append(event)
                    self.changed.notify_all()
                if isinstance(event, Finish):
                    error = None
                    break
        except MiddlewareError as failure:
            error = failure
        # The outermost guard of this thread; internal_error() logs the traceback.
        except Exception as failure:  # noqa: BLE001
            error = internal_error(failure, self.request_id)
        self.end(error)
        if error is None:
            self.answer.rest()
        self._release()

    def _release(self) -> None:
        for release in self.releases:
            release()

    def end(self, error: MiddlewareError | None) -> None:
        with self.changed:
            self.error, self.done, self.done_at = error, True, time.monotonic()
            self.changed.notify_all()

    def follow(self, cancel: CancelToken) -> Iterator[Event]:
        """All events from the first on, as they come."""
        told = 0
        with cancel.on_cancel(self.wake):
            while True:
                news, done = self._news(told, cancel)
                told += len(news)
                yield from news
                cancel.check()
                if done:
                    break
        if self.error is not None:
            raise self.error

    def _news(self, told: int, cancel: CancelToken) -> tuple[list[Event], bool]:
        """What came after the first ``told`` events, waited for, and whether that is all."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.events) > told or self.done or cancel.cancelled)
            return self.events[told:], self.done

    def leave(self) -> None:
        """One follower less. Without any, a run that is not done is cancelled."""
        with self.changed:
            self.followers -= 1
            last = self.followers <= 0 and not self.done
        if last:
            self.cancel.cancel(RunCancelled())

    def wake(self) -> None:
        with self.changed:
            self.changed.notify_all()

    @property
    def usable(self) -> bool:
        """Whether a twin may have it: a failed run is not worth repeating, nor an old one."""
        if not self.done:
            return not self.cancel.cancelled
        return self.error is None and time.monotonic() - self.done_at < KEPT_SECONDS


class SharedAnswer:
    """What one of the twins gets. Must be released."""

    def __init__(self, run: SharedRun, answer: Answer, cancel: CancelToken) -> None:
        self.release = run.leave
        self.request_id = run.request_id
        """The first twin's: ids in the answer are made of it."""
        self.model = answer.model
        self.heartbeat_seconds = answer.heartbeat_seconds
        self.conversation_id = answer.conversation_id
        self.ignored = answer.ignored
        self.clamped = answer.clamped
        self.events: Iterator[Event] = run.follow(cancel)

    def has_rest(self) -> bool:
        return False

    def rest(self) -> None:
        """The run has a thread of its own for it."""


class Twins:
    """One a server."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._lock = threading.Lock()
        self._runs: dict[TwinKey, SharedRun] = {}

    def answer(
        self,
        key: TwinKey,
        fresh: SharedRun,
        start: Callable[[SharedRun], Answer],
        cancel: CancelToken,
    ) -> SharedAnswer:
        """Join the run that is known under ``key``, or get what it has said; else make ``fresh``
        one, which ``start`` begins. Raises what ``start`` raises, and MalformedRequest for a key
        that belongs to another request.
        """
        with self._lock:
            run = self._runs.get(key)
            if run is not None and not run.usable:
                run = None
            if run is not None and run.fingerprint != fresh.fingerprint:
                raise MalformedRequest("Idempotency-Key", "was used for another request")
            mine = run is None
            run = run or fresh
            with run.changed:
                run.followers += 1
            if mine:
                self._remember(key, run)
        if mine:
            self._start(run, start)
        return SharedAnswer(run, _answer_of(run, cancel), cancel)

    def _start(self, run: SharedRun, start: Callable[[SharedRun], Answer]) -> None:
        try:
            answer = start(run)
        except BaseException as error:
            ours = error if isinstance(error, MiddlewareError) else MiddlewareError("It failed.")
            run.end(ours)
            raise
        with run.changed:
            run.answer = answer
            run.changed.notify_all()
        self._background.submit(Task(run.request_id, run.pump, run.cancel))

    def _remember(self, key: TwinKey, run: SharedRun) -> None:
        self._runs.pop(key, None)
        self._runs[key] = run
        over = [one for one, known in self._runs.items() if not known.usable and known is not run]
        for one in over:
            del self._runs[one]
        if len(self._runs) > _MOST:
            del self._runs[next(iter(self._runs))]


def _answer_of(run: SharedRun, cancel: CancelToken) -> Answer:
    """What is known of the run before its first event."""
    try:
        with cancel.on_cancel(run.wake), run.changed:
            run.changed.wait_for(lambda: run.answer is not None or run.done or cancel.cancelled)
        cancel.check()
        if run.answer is None:
            assert run.error is not None
            raise run.error
    except BaseException:
        run.leave()
        raise
    return run.answer
