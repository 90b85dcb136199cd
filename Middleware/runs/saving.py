"""Rows on their way into the databases: what cannot be written now, and what is too old."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from Middleware.core.clock import Clock
from Middleware.runs.metrics import Metrics
from Middleware.runs.retention import (
    Keep,
    close_interrupted,
    is_too_much,
    prune,
    running_processes,
)
from Middleware.runs.store import Rows, Store
from Middleware.runs.stores import store_at
from Middleware.runs.tracking import Tracked
from Middleware.storage.places import Lives, Place, alive_at, exists
from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable

logger = logging.getLogger(__name__)

MOST_UNSAVED_BYTES: Final = 32_000_000
"""Rows that wait for a database that cannot be written. At more than this, runs are lost."""
_BUSY_SECONDS: Final = 0.2
_PRUNE_SECONDS: Final = 1.0
_LOOK_AT_OTHERS_SECONDS: Final = 15.0


@dataclass(slots=True)
class Batch:
    """The rows of one look at the runs, for one database."""

    place: Place
    rows: Rows = field(default_factory=Rows)
    runs: list[tuple[Tracked, bool]] = field(default_factory=list)
    """Whose rows these are, and whether the run is finished."""

    def finished(self) -> int:
        return sum(finished and not tracked.run.parent_id for tracked, finished in self.runs)


class Saving:
    """Belongs to the thread that writes. Nothing here raises because of a database."""

    def __init__(self, session: str, metrics: Metrics, clock: Clock) -> None:
        self._session = session
        self._metrics = metrics
        self._clock = clock
        self._unsaved: deque[Batch] = deque()
        self._stores: dict[Place, Store] = {}
        self._alive: dict[Place, Lives] = {}
        self._incomplete: set[Place] = set()
        """Databases in which the end of a run may be missing."""
        self._prune_again: dict[str, float] = {}
        self._suspects: dict[Place, set[str]] = {}
        """Processes that looked gone when they were last looked at."""
        self._look_at_others = 0.0
        self._failing = False

    def add(self, batches: Iterable[Batch]) -> None:
        self._unsaved.extend(batches)

    def save(self, running: Callable[[], Iterable[str]]) -> None:
        """Write what waits, in order. ``running`` are the ids of all runs that have not ended."""
        while self._unsaved:
            batch = self._unsaved[0]
            try:
                store = self._store(batch.place)
                if batch.place in self._incomplete:
                    self._complete(store, running())
                self._refused(store.write(batch.rows))
            except (DatabaseBusy, DatabaseUnavailable) as error:
                self._cannot(error)
                return
            self._unsaved.popleft()
            self._recovered()

    def open(self, places: Iterable[Place]) -> None:
        """Close the runs that a crash has left open, before anybody looks. Makes no file."""
        for place in set(places):
            if exists(place):
                try:
                    self._store(place)
                except (DatabaseBusy, DatabaseUnavailable) as error:
                    self._cannot(error)

    def prune_is_due(self, user: str) -> bool:
        return self._clock.monotonic() >= self._prune_again.get(user, 0.0)

    def prune(self, user: str, keep: Keep, *, until: Callable[[], bool]) -> None:
        """Delete a user's runs that are too many; ``until`` tells that there is other work."""
        store = self._stores.get(keep.place)
        begun = self._clock.monotonic()
        if store is None or self._failing:
            return
        now = self._clock.timestamp()
        try:
            with store.looking() as connection:
                more = is_too_much(connection, user, keep, now)
            # Counting a large table takes a while; what is long is not done often.
            took = self._clock.monotonic() - begun
            self._prune_again[user] = begun + max(_PRUNE_SECONDS, took * 50)
            if not more:
                return
            while more and not until():
                with store.transaction() as connection:
                    more = prune(connection, user, keep, now)
            store.give_back()
        except (DatabaseBusy, DatabaseUnavailable) as error:
            logger.debug("old runs could not be deleted now: %s", _reason(error))

    def close(self) -> None:
        if self._unsaved:
            lost = sum(batch.finished() for batch in self._unsaved)
            logger.error("the run log could not be written at the end: %d runs are missing", lost)
        for store in self._stores.values():
            store.close()
        for alive in self._alive.values():
            alive.close()

    def _store(self, place: Place) -> Store:
        store = self._stores.get(place)
        if store is None:
            store = self._stores[place] = store_at(place, wait_seconds=_BUSY_SECONDS)
            with self._or_forget(store):
                self._begin(store)
        return store

    @contextmanager
    def _or_forget(self, store: Store) -> Iterator[None]:
        """What has not begun well begins again next time."""
        try:
            yield
        except BaseException:
            del self._stores[store.place]
            store.close()
            raise

    def _begin(self, store: Store) -> None:
        """The first use of a database: runs of processes that are gone are over."""
        where = _home(store.place)
        alive = self._alive.get(where)
        if alive is None:
            alive = self._alive[where] = alive_at(store.place, self._session)
        with store.transaction() as connection:
            closed = close_interrupted(connection, self._living(alive))
        self._interrupted(closed)

    def look_after_others(self) -> None:
        """Now and then: runs of processes that have gone meanwhile are over as well. One must
        look gone twice: a database that was away for a moment takes every process for gone.
        """
        now = self._clock.monotonic()
        if now < self._look_at_others:
            return
        self._look_at_others = now + _LOOK_AT_OTHERS_SECONDS
        for store in self._stores.values():
            try:
                self._look_at(store)
            except (DatabaseBusy, DatabaseUnavailable) as error:
                logger.debug("runs of other servers could not be read now: %s", _reason(error))

    def _look_at(self, store: Store) -> None:
        alive = self._alive[_home(store.place)]
        alive.renew()
        with store.looking() as connection:
            processes = running_processes(connection)
        lives = self._living(alive)
        gone = {process for process in processes if not lives(process)}
        certain = gone & self._suspects.get(store.place, set())
        self._suspects[store.place] = gone
        if certain:
            with store.transaction() as connection:
                closed = close_interrupted(connection, lambda process: process not in certain)
            self._interrupted(closed)

    def _living(self, alive: Lives) -> Callable[[str], bool]:
        return lambda process: process == self._session or alive.lives(process)

    def _interrupted(self, runs: int) -> None:
        if runs:
            logger.info("%d runs were interrupted by the end of their server", runs)

    def _complete(self, store: Store, running: Iterable[str]) -> None:
        """Ends of runs were lost: nothing may look as if it ran for ever."""
        with store.transaction() as connection:
            close_interrupted(connection, lambda process: process != self._session, running)
        self._incomplete.discard(store.place)

    def _cannot(self, error: Exception) -> None:
        if not self._failing:
            self._failing = True
            logger.error("the run log cannot be written, runs may be missing: %s", _reason(error))
        while sum(batch.rows.bytes for batch in self._unsaved) > MOST_UNSAVED_BYTES:
            lost = self._unsaved.popleft()
            self._metrics.dropped_runs += lost.finished()
            self._incomplete.add(lost.place)
            for tracked, finished in lost.runs:
                if not finished:
                    tracked.forget_rows()

    def _recovered(self) -> None:
        if self._failing:
            self._failing = False
            lost = self._metrics.dropped_runs
            logger.warning("the run log is written again; %d runs are missing from it", lost)

    def _refused(self, rows: int) -> None:
        if rows:
            logger.error("the run log's database refused %d rows; their runs are incomplete", rows)


def _home(place: Place) -> Place:
    """What processes that use the place have in common: the folder, or the database."""
    return place.parent if isinstance(place, Path) else place


def close_interrupted_runs(places: Iterable[Place], clock: Clock) -> None:
    """For who only reads: mark the runs of processes that are gone."""
    saving = Saving(f"look-{clock.new_id()}", Metrics(), clock)
    try:
        saving.open(places)
    finally:
        saving.close()


def _reason(error: Exception) -> str:
    return str(error) or "another program keeps it locked"
