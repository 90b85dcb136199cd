"""Cancelling a run: set by a door, looked at by whoever waits."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from Middleware.core.errors import MiddlewareError, RunCancelled

logger = logging.getLogger(__name__)


class CancelToken:
    """One a request. Safe to use from any thread; cancelling twice is the same as once."""

    __slots__ = ("_callbacks", "_condition", "_reason")

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._callbacks: list[Callable[[], None]] = []
        self._reason: MiddlewareError | None = None

    @contextmanager
    def child(self) -> Iterator["CancelToken"]:
        """A token for a part of the work: cancelled with this one, or by itself alone."""
        token = CancelToken()

        def pass_on() -> None:
            token.cancel(self._reason)

        with self.on_cancel(pass_on):
            yield token

    @contextmanager
    def limited(self, seconds: float, reason: MiddlewareError) -> Iterator["CancelToken"]:
        """A child that is cancelled with ``reason`` when the block takes longer than that."""
        with self.child() as token:
            timer = threading.Timer(seconds, token.cancel, [reason])
            timer.daemon = True
            timer.start()
            try:
                yield token
            finally:
                timer.cancel()

    @property
    def cancelled(self) -> bool:
        return self._reason is not None

    def cancel(self, reason: MiddlewareError | None = None) -> None:
        """Wake everyone who waits. ``reason`` is raised where the run looks next."""
        with self._condition:
            if self._reason is not None:
                return
            self._reason = reason or RunCancelled()
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for callback in callbacks:
            try:
                callback()
            # One that fails must not keep the others from being told.
            except Exception:
                logger.exception("a cancelled run could not be told")

    def check(self) -> None:
        """Raise the reason if the run was cancelled."""
        if self._reason is not None:
            raise self._reason

    def wait(self, seconds: float) -> None:
        """Sleep, but raise as soon as the run is cancelled."""
        with self._condition:
            self._condition.wait_for(lambda: self._reason is not None, seconds)
        self.check()

    @contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call ``callback`` if the run is cancelled while the block runs.

        It is called from the cancelling thread, once, and must not block. Raises at once when
        the run is cancelled already.
        """
        with self._condition:
            if self._reason is None:
                self._callbacks.append(callback)
        self.check()
        try:
            yield
        finally:
            with self._condition:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)
