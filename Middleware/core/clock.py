"""Time and ids as a value that is passed in, so that a test can fix them."""

import hashlib
import itertools
import os
import time
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
    """The real one.

    An id is a keyed hash of a counter rather than ``uuid4``: that asks the system for random
    bytes each time, which costs more than all else that happens before a run begins. Nobody can
    guess one from another.
    """

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._numbers = itertools.count()

    def now(self) -> datetime:
        return datetime.now()

    def timestamp(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.perf_counter()

    def new_id(self) -> str:
        number = next(self._numbers).to_bytes(8, "big")
        return hashlib.blake2b(number, key=self._key, digest_size=16).hexdigest()
