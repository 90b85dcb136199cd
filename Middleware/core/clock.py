"""Time and ids as a value that is passed in, so that a test can fix them."""

import time
import uuid
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time and fresh ids come from."""

    def now(self) -> datetime:
        """Local time, without a zone: what a person's wall clock shows."""
        ...

    def timestamp(self) -> float:
        """Seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    def new_id(self) -> str:
        """32 hex digits, unique."""
        ...


class SystemClock:
    """The real one."""

    def now(self) -> datetime:
        return datetime.now()

    def timestamp(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.perf_counter()

    def new_id(self) -> str:
        return uuid.uuid4().hex
