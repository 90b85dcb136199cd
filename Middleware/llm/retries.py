"""Which failed calls are made again, and after how long (config-files, Surprises 6 and 7).

Repeated is what may pass by itself: a connection that was refused or closed, and the statuses
that say "later". Never repeated is what would fail again (a refused request, a wrong key), a
silence that was waited for already, and anything of which a part has been passed on.
"""

import random
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from Middleware.core.errors import (
    BackendBadReply,
    BackendError,
    BackendRejected,
    BackendUnreachable,
)

FIRST_WAIT_SECONDS: Final = 0.2
"""Doubled each time. With the usual two retries a dead server is reported within a second."""
LONGEST_WAIT_SECONDS: Final = 5.0
"""A server that wants more patience (``Retry-After``) is not waited for: the client is told."""

_PASSING: Final = frozenset((408, 425, 429, 500, 502, 503, 504, 529))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """``times``: tries after the first one."""

    times: int = 0

    def wait_before(self, error: BackendError, tried: int) -> float | None:
        """Seconds to wait before the next try, after ``tried`` of them; None: do not try."""
        if tried > self.times or not may_pass(error):
            return None
        wait = FIRST_WAIT_SECONDS * 2.0 ** (tried - 1) * random.uniform(0.8, 1.0)
        if error.retry_after is not None:
            wait = max(wait, seconds_until(error.retry_after))
        return wait if wait <= LONGEST_WAIT_SECONDS else None


def may_pass(error: BackendError) -> bool:
    """Whether the same call may succeed a moment later."""
    if isinstance(error, BackendRejected):
        return error.backend_status in _PASSING
    return isinstance(error, BackendUnreachable | BackendBadReply)


def seconds_until(retry_after: str) -> float:
    """What a ``Retry-After`` header asks for: a number, or a date; 0 for what is neither."""
    text = retry_after.strip()
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0
