"""The thread that turns runs into rows, a few times a second, while nobody waits for it."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from Middleware.core.clock import Clock
from Middleware.runs.metrics import Metrics
from Middleware.runs.recorder import RunRecord
from Middleware.runs.retention import Keep
from Middleware.runs.saving import Batch, Saving
from Middleware.runs.tracking import EndOfTree, Tracked, Tracking
from Middleware.storage.places import Place

logger = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 0.25
MOST_WAITING: Final = 8192
"""Starts and ends of runs that wait to be looked at. At more than this, runs are lost."""
_RUNS_IN_ONE_GO: Final = 16
_PRUNE_ALL_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterParts:
    """What the writer is built from."""

    keep: Callable[[str], Keep | None]
    """What to keep of a user's runs; None for a user who cannot be found any more."""
    users: Callable[[], Iterable[str]]
    clock: Clock
    metrics: Metrics
    end_of_tree: EndOfTree | None = None
    interval_seconds: float = INTERVAL_SECONDS


class Writer:
    """One a process. Everything but its public methods happens in its own thread."""

    def __init__(self, parts: WriterParts) -> None:
        self._parts = parts
        session = f"runs-{parts.clock.new_id()}"
        keeps_trees = parts.end_of_tree is not None
        self._tracking = Tracking(session, parts.metrics, keeps_trees=keeps_trees)
        self._saving = Saving(session, parts.metrics, parts.clock)
        self._queue: deque[tuple[RunRecord, bool]] = deque()
        self._lost_ends = False
        self._ended_unseen: set[str] = set()
        """Runs found to be over before their end came out of the queue, at the last look."""
        self._flushes: list[threading.Event] = []
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.stopping = False
        """Whether :meth:`close` was called."""
        self._keeps: dict[str, Keep | None] = {}
        self._pruned_all_at = float("-inf")
        self._mistaken = False

    def started(self, run: RunRecord) -> None:
        """On the request path. Nobody is woken: the next look will find it."""
        if self._thread is not None and len(self._queue) < MOST_WAITING:
            self._queue.append((run, False))

    def finished(self, run: RunRecord) -> None:
        """On the request path."""
        if self._thread is None:
            return
        if len(self._queue) < MOST_WAITING:
            self._queue.append((run, True))
        else:
            self._lost_ends = True
            self._parts.metrics.dropped_runs += run.parent_id is None

    def start(self) -> None:
        with self._lock:
            if self._thread is None and not self.stopping:
                self._thread = threading.Thread(target=self._work, name="run-log", daemon=True)
                self._thread.start()

    def flush(self, seconds: float) -> bool:
        """Wait until all that was told so far is written; False when the time was up."""
        written = threading.Event()
        with self._lock:
            if self._thread is None or self.stopping:
                return False
            self._flushes.append(written)
        self._wake.set()
        return written.wait(seconds)

    def close(self, seconds: float = 5.0) -> None:
        """Write what there is, and stop."""
        with self._lock:
            self.stopping = True
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join(seconds)

    def _work(self) -> None:
        self._guarded(self._open)
        while not self.stopping:
            self._wake.wait(self._parts.interval_seconds)
            self._wake.clear()
            self._look()
        self._look()
        self._guarded(self._saving.close)

    def _look(self) -> None:
        with self._lock:
            waiting, self._flushes = self._flushes, []
        self._keeps = {}
        self._guarded(lambda: self._gather(everything=bool(waiting) or self.stopping))
        self._guarded(lambda: self._saving.save(self._running))
        self._guarded(lambda: self._prune(at_once=bool(waiting)))
        self._guarded(self._saving.look_after_others)
        for written in waiting:
            written.set()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        # The outermost guard of a background thread: one mistake must not end the log. It is
        # told once, since it may come again with every look.
        except Exception:
            if not self._mistaken:
                self._mistaken = True
                logger.exception("the run log has made a mistake")

    def _open(self) -> None:
        keeps = [self._parts.keep(user) for user in self._parts.users()]
        self._saving.open(keep.place for keep in keeps if keep is not None)

    def _gather(self, *, everything: bool) -> None:
        """Make rows. A run that is not over gets its first one at the second look, unless
        somebody wants to see it: most are over by then."""
        batches: dict[Place, Batch] = {}
        known, self._ended_unseen = self._ended_unseen, set()
        for number, (run, finished) in enumerate(self._drain(), start=1):
            if number % _RUNS_IN_ONE_GO == 0:
                # Let a thread that has a client waiting have the interpreter.
                time.sleep(0)
            if run.id in known:
                continue
            tracked = self._tracking.start(run)
            if finished:
                self._finish(tracked, batches)
        ends_are_missing, self._lost_ends = self._lost_ends, False
        for tracked in self._tracking:
            if ends_are_missing and tracked.run.status != "running":
                self._ended_unseen.add(tracked.run.id)
                self._finish(tracked, batches)
            elif (everything or not tracked.is_new) and tracked.has_changed():
                self._write_down(tracked, batches, finished=False)
            tracked.is_new = False
        self._saving.add(batches.values())

    def _drain(self) -> Iterator[tuple[RunRecord, bool]]:
        for _ in range(len(self._queue)):
            yield self._queue.popleft()

    def _finish(self, tracked: Tracked, batches: dict[Place, Batch]) -> None:
        self._tracking.finish(tracked)
        self._write_down(tracked, batches, finished=True)
        if self._parts.end_of_tree is not None and tracked.parent is None:
            self._parts.end_of_tree(tracked.tree)

    def _write_down(self, tracked: Tracked, batches: dict[Place, Batch], *, finished: bool) -> None:
        keep = self._keep(tracked.run.user)
        batch = None
        if keep is not None and keep.enabled:
            batch = batches.setdefault(keep.place, Batch(keep.place))
            batch.runs.append((tracked, finished))
        try:
            self._tracking.add_rows(tracked, batch.rows if batch else None, finished=finished)
        # A record that cannot be read must not take those of others with it.
        except Exception:
            if not self._mistaken:
                self._mistaken = True
                logger.exception("run %s could not be recorded", tracked.run.id)

    def _running(self) -> list[str]:
        return [tracked.run.id for tracked in self._tracking]

    def _prune(self, *, at_once: bool) -> None:
        now = self._parts.clock.monotonic()
        users = set(self._keeps)
        if now - self._pruned_all_at >= _PRUNE_ALL_SECONDS:
            self._pruned_all_at = now
            users.update(self._parts.users())
        for user in users:
            keep = self._keep(user)
            if keep is not None and (at_once or self._saving.prune_is_due(user)):
                self._saving.prune(user, keep, until=lambda: bool(self._queue))

    def _keep(self, user: str) -> Keep | None:
        """Asked once a look: what the settings say now."""
        if user not in self._keeps:
            self._keeps[user] = self._parts.keep(user)
        return self._keeps[user]
