"""Locks that workflows take (memory-and-state §17, S36): in the database of the reference here, in
PostgreSQL in ``postgres_locks``.

A lock is a row. It runs out after ten minutes unless it is renewed, which its process does while
it holds it, so that a process that died leaves nothing behind for longer. A server that starts
does not wait for that: it deletes the rows of processes that are gone. Whether one is gone, the
operating system knows: every process keeps a file locked while it lives. Times are UTC.
"""

import contextlib
import logging
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar, Final

from Middleware.core.clock import Clock, SystemClock
from Middleware.storage.alive import Alive
from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable, transaction

logger = logging.getLogger(__name__)

LEASE: Final = timedelta(minutes=10)
RENEW_SECONDS: Final = 120.0

_TABLE = """
    CREATE TABLE IF NOT EXISTS WorkflowLocks (
        Id INTEGER PRIMARY KEY AUTOINCREMENT,
        WilmerSessionId NVARCHAR(50),
        WorkflowId NVARCHAR(50),
        WorkflowLockId NVARCHAR(500),
        ExpirationDate DATETIME
    )
"""
_TAKE = (
    "INSERT INTO WorkflowLocks (WilmerSessionId, WorkflowId, WorkflowLockId, ExpirationDate)"
    " VALUES (?, ?, ?, ?)"
)
_RELEASE = "DELETE FROM WorkflowLocks WHERE WilmerSessionId = ? AND WorkflowId = ?"
_RENEW = "UPDATE WorkflowLocks SET ExpirationDate = ? WHERE WilmerSessionId = ? AND WorkflowId = ?"
_SESSIONS = "SELECT DISTINCT WilmerSessionId FROM WorkflowLocks"
_FORGET = "DELETE FROM WorkflowLocks WHERE WilmerSessionId IS ?"


@dataclass(frozen=True, slots=True)
class Held:
    """A lock of this process. ``request`` may take it again: it would wait for itself."""

    place: Hashable
    name: str
    run: str
    request: str


class WorkflowLocks(ABC):
    """The locks that one process takes, of all users. Safe to use from any thread."""

    shared: ClassVar[bool] = False
    """Whether one database holds the locks of all users: the place of a lock is then the name of
    its user, else the path of its database."""

    def __init__(self, clock: Clock | None = None, *, renew_seconds: float) -> None:
        self._clock = clock or SystemClock()
        self.session = self._clock.new_id()
        self._renew_seconds = renew_seconds
        self._held: set[Held] = set()
        self._guard = threading.Lock()
        self._renewer: threading.Thread | None = None
        self._news = threading.Event()

    def acquire(self, place: Hashable, name: str, *, run: str, request: str = "") -> bool:
        """Take the lock ``name`` of a place, or tell that another has it.

        A database that cannot be used locks nothing: the run goes on (with a warning). One that
        stays busy counts as a lock that is held.
        """
        wanted = Held(place, name, run, request)
        if self._has(wanted):
            return True
        try:
            if not self._take(place, name, run):
                return False
        except DatabaseBusy:
            logger.warning("lock %r: the database is busy, so it counts as held", name)
            return False
        except DatabaseUnavailable as error:
            logger.warning("lock %r: no database, so nothing is locked: %s", name, error)
            return True
        self._keep(wanted)
        return True

    def release(self, run: str) -> None:
        """Give back every lock of a run. Never raises."""
        with self._guard:
            mine = {held for held in self._held if held.run == run}
            self._held -= mine
            self._news.set()
        for place in {held.place for held in mine}:
            self._quietly(self._drop, place, run)

    @abstractmethod
    def clean_up(self, places: Iterable[Hashable]) -> None:
        """At the start of a server: delete what dead processes have left. Makes no database."""

    def close(self) -> None:
        """Give everything back; other processes see at once that this one is gone."""
        with self._guard:
            runs = {held.run for held in self._held}
        for run in runs:
            self.release(run)
        self._leave()

    @abstractmethod
    def _take(self, place: Hashable, name: str, run: str) -> bool:
        """Write the row unless there is one that has not run out."""

    @abstractmethod
    def _drop(self, place: Hashable, run: str) -> None:
        """Delete the rows of a run."""

    @abstractmethod
    def _extend(self, place: Hashable, run: str) -> None:
        """Let the rows of a run hold as long as new ones."""

    @abstractmethod
    def _leave(self) -> None:
        """Let others see that this process is gone."""

    def _has(self, wanted: Held) -> bool:
        with self._guard:
            return any(
                held.place == wanted.place
                and held.name == wanted.name
                and (held.run == wanted.run or (held.request and held.request == wanted.request))
                for held in self._held
            )

    def _keep(self, held: Held) -> None:
        with self._guard:
            self._held.add(held)
            if self._renewer is None:
                self._news.clear()
                self._renewer = threading.Thread(target=self._renew, name="locks", daemon=True)
                self._renewer.start()

    def _renew(self) -> None:
        """Runs while there is a lock to renew."""
        while True:
            self._news.wait(self._renew_seconds)
            with self._guard:
                self._news.clear()
                if not self._held:
                    self._renewer = None
                    return
                mine = set(self._held)
            for place, run in {(held.place, held.run) for held in mine}:
                self._quietly(self._extend, place, run)

    def _quietly(self, change: Callable[[Hashable, str], None], place: Hashable, run: str) -> None:
        try:
            change(place, run)
        except (DatabaseBusy, DatabaseUnavailable):
            logger.warning("locks of run %s could not be changed; they run out by themselves", run)


class SqliteLocks(WorkflowLocks):
    """A database a user; its path is the place of the user's locks."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        renew_seconds: float = RENEW_SECONDS,
        wait_seconds: float = 5.0,
    ) -> None:
        """``wait_seconds``: how long another process may keep the database."""
        super().__init__(clock, renew_seconds=renew_seconds)
        self._wait_seconds = wait_seconds
        self._seen: dict[Path, Alive] = {}

    def clean_up(self, places: Iterable[Hashable]) -> None:
        for place in places:
            path = _path(place)
            if not path.is_file():
                continue
            with contextlib.suppress(DatabaseBusy, DatabaseUnavailable):
                alive = self._open(path)
                with transaction(path, _TABLE) as rows:
                    for (session,) in rows.execute(_SESSIONS).fetchall():
                        if session != self.session and not alive.lives(str(session)):
                            rows.execute(_FORGET, (session,))

    def _take(self, place: Hashable, name: str, run: str) -> bool:
        path = _path(place)
        self._open(path)
        with transaction(path, _TABLE, wait_seconds=self._wait_seconds) as rows:
            now = self._now()
            if _live_rows(rows, name, now):
                return False
            rows.execute("DELETE FROM WorkflowLocks WHERE WorkflowLockId = ?", (name,))
            rows.execute(_TAKE, (self.session, run, name, _written(now + LEASE)))
        return True

    def _drop(self, place: Hashable, run: str) -> None:
        with transaction(_path(place), _TABLE) as rows:
            rows.execute(_RELEASE, (self.session, run))

    def _extend(self, place: Hashable, run: str) -> None:
        with transaction(_path(place), _TABLE) as rows:
            rows.execute(_RENEW, (_written(self._now() + LEASE), self.session, run))

    def _leave(self) -> None:
        with self._guard:
            for alive in self._seen.values():
                alive.close()
            self._seen.clear()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.timestamp(), UTC)

    def _open(self, path: Path) -> Alive:
        """Say that we live, before the first row says that we hold something."""
        with self._guard:
            alive = self._seen.get(path.parent)
            if alive is None:
                try:
                    alive = self._seen[path.parent] = Alive(path.parent, self.session)
                except OSError as error:
                    raise DatabaseUnavailable(str(error)) from error
            return alive


def _path(place: Hashable) -> Path:
    assert isinstance(place, Path)
    return place


def _live_rows(rows: sqlite3.Connection, name: str, now: datetime) -> bool:
    found = rows.execute(
        "SELECT ExpirationDate FROM WorkflowLocks WHERE WorkflowLockId = ?", (name,)
    ).fetchall()
    return any(_read(text) > now for (text,) in found)


def _written(moment: datetime) -> str:
    return moment.isoformat(" ")


def _read(text: object) -> datetime:
    """Rows of the reference are in local time and say no zone. What is not understood is over."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.min.replace(tzinfo=UTC)
