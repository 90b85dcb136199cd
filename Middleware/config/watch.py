"""Something on disk that is looked at rarely, and whose earlier states are kept for a while.

A request that runs while a file is edited goes on with what the file said when the request
began, even if it looks at the file for the first time after the edit. So every version carries
the moment since which it holds, on the clock of the requests.
"""

import os
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from Middleware.core.clock import Clock

T = TypeVar("T")

CHECK_SECONDS = 0.5
"""How old a look at the disk may be before the next request causes another."""
SETTLED_SECONDS = 2.0
"""A change younger than this may be followed by one that leaves the same time stamp."""
_CLOCK_STEP_SECONDS = 0.02
"""File systems stamp with a clock that lags behind by up to one tick."""
_KEPT_VERSIONS = 8


@dataclass(frozen=True, slots=True)
class Version(Generic[T]):
    """One state, and the moment (monotonic) since which it holds."""

    since: float
    value: T


class Watched(ABC, Generic[T]):
    """Base of files and folders. Shared by all threads; one of them looks, others do not wait
    unless there is nothing to give them yet.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.versions: tuple[Version[T], ...] = ()
        """Newest first."""
        self.changes = 0
        """Counts everything that a reader could notice."""
        self._clock = clock
        self._checked = float("-inf")
        self._lock = threading.Lock()

    def refresh(self, older_than: float = CHECK_SECONDS) -> None:
        """Look at the disk if the last look is at least ``older_than`` seconds ago."""
        if self._clock.monotonic() - self._checked < older_than:
            return
        if not self._lock.acquire(blocking=not self.versions):
            return
        try:
            now = self._clock.monotonic()
            if now - self._checked >= older_than:
                self._look()
                self._checked = now
        finally:
            self._lock.release()

    @abstractmethod
    def _look(self) -> None:
        """Compare with the disk, and :meth:`_add` what is new. Called with the lock held."""

    @property
    def newest(self) -> Version[T] | None:
        versions = self.versions
        return versions[0] if versions else None

    def version_at(self, started: float) -> Version[T] | None:
        """What a request that began at ``started`` is to see; the oldest kept if all are later."""
        versions = self.versions
        for version in versions:
            if version.since <= started:
                return version
        return versions[-1] if versions else None

    def _add(self, value: T, changed: float) -> None:
        """``changed`` is when the disk says it happened, in seconds since 1970."""
        since = float("-inf")
        if self.versions:
            # It happened after the last look, whatever the disk's clock says.
            now = self._clock.monotonic()
            age = self._clock.timestamp() - changed - _CLOCK_STEP_SECONDS
            since = now - min(max(age, 0.0), now - self._checked)
        self.versions = (Version(since, value), *self.versions[: _KEPT_VERSIONS - 1])
        self.changes += 1


def changed_at(stat: os.stat_result) -> float:
    """When a file or folder last changed or came to this place, in seconds since 1970.

    A copied or renamed file may keep an old time of modification, so the time of the change of
    its entry counts too (on Windows that is the time of creation, which a copy gets afresh).
    """
    return max(stat.st_mtime, stat.st_ctime)


def stamp_of(stat: os.stat_result) -> tuple[int, int, int, int]:
    """Differs whenever the content may differ."""
    return stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_ctime_ns
