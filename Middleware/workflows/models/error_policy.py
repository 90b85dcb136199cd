"""What happens when a node fails (design §6)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import (
    BackendError,
    BackendRejected,
    ConfigError,
    MiddlewareError,
    NodeTimeout,
    RunCancelled,
    ServerStopping,
    WorkflowError,
)
from Middleware.llm.failover import Backup
from Middleware.workflows.models.early_end import RunEndsEarly

OnError: TypeAlias = Literal["fail", "continue", "value", "route"]

_NEVER_AGAIN = frozenset({400, 401, 403, 404, 413, 422})
"""Statuses of a backend that the same request would get again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """``retry``, ``onError``, ``fallbackEndpoints`` and ``timeoutSeconds`` of one node."""

    retries: int = 0
    delay_seconds: float = 0.0
    on_error: OnError = "fail"
    value: Any = None
    """What the node gives out instead, with ``value``."""
    route: str = "error"
    """The edge taken instead, with ``route``; in a list the id of a node."""
    fallback_endpoints: tuple[str, ...] = ()
    timeout_seconds: float | None = None

    def forgives(self, error: BaseException) -> bool:
        """Whether the run goes on after ``error``. Nobody forgives a client that left."""
        return self.on_error != "fail" and is_fault(error)


NO_POLICY = ErrorPolicy()


class Tries:
    """The tries of one execution of a node: its endpoint again, then the backups that endpoint
    files name, then the node's own other endpoints."""

    def __init__(self, policy: ErrorPolicy) -> None:
        self._policy = policy
        self._left = policy.retries
        self._others: Iterator[str] = iter(policy.fallback_endpoints)
        self.endpoint: str | None = None
        """The endpoint of this try; None is the node's own."""
        self.preset: str | None = None
        """The preset of this try; None is the node's own."""
        self.tried: set[str] = set()
        """Endpoints whose backups were asked."""

    def again(
        self,
        error: BaseException,
        cancel: CancelToken,
        backup: Callable[[], Backup | None] = lambda: None,
    ) -> bool:
        """Whether to try once more. Waits first; raises when the run is cancelled meanwhile.

        ``backup`` tells who stands in for the endpoint that failed.
        """
        if not is_fault(error):
            return False
        if self._left > 0 and is_worth_repeating(error):
            self._left -= 1
            cancel.wait(self._policy.delay_seconds)
            return True
        stand_in = backup()
        if stand_in is not None:
            self.endpoint, self.preset = stand_in.endpoint, stand_in.preset or self.preset
            return True
        other = next(self._others, None) if is_of_the_endpoint(error) else None
        if other is None:
            return False
        self.endpoint, self.preset = other, None
        return True


def is_fault(error: BaseException) -> bool:
    """A failure of the node, and not a run that was stopped."""
    stopped = isinstance(error, RunCancelled | ServerStopping | RunEndsEarly)
    return isinstance(error, MiddlewareError) and not stopped


def is_worth_repeating(error: BaseException) -> bool:
    """False for what would fail in the same way again: configuration, refused requests."""
    if isinstance(error, BackendRejected):
        return error.backend_status not in _NEVER_AGAIN
    return isinstance(error, BackendError | WorkflowError)


def is_of_the_endpoint(error: BaseException) -> bool:
    """Whether another endpoint may do better."""
    return isinstance(error, BackendError | ConfigError | NodeTimeout)
