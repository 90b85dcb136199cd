"""The run log: told by the processor, read by the API."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from Middleware.core.messages import Caller
from Middleware.runs.errors import RunStillRunning, UnknownRun
from Middleware.runs.happenings import Happened, Watching, told_again
from Middleware.runs.history import History, Listed, owners_seen_by
from Middleware.runs.live import Live, Trace
from Middleware.runs.reader import Query
from Middleware.runs.recorder import RunRecord, StepRecord
from Middleware.runs.records import Record, open_moment
from Middleware.runs.redaction import redacted_run
from Middleware.runs.rows import owner_of
from Middleware.runs.writer import Writer, WriterParts
from Middleware.storage.places import Place

_FLUSH_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.05
_LOOK_ELSEWHERE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Watched:
    trace: Trace
    run: RunRecord


class RunLog:
    """One a process. The methods of a :class:`Recorder` only take references; all work is done
    by a thread of the log's own (:class:`Writer`), which :meth:`start` starts.
    """

    def __init__(self, parts: WriterParts) -> None:
        self.metrics = parts.metrics
        self._parts = parts
        self._live = Live(parts.clock)
        self._writer = Writer(parts)
        self._history = History(self._places)

    def start(self) -> None:
        self._writer.start()

    def flush(self, seconds: float = _FLUSH_SECONDS) -> bool:
        """Wait until everything that has happened can be read."""
        return self._writer.flush(seconds)

    def close(self) -> None:
        """Write what there is. Called when the last request is over."""
        self._writer.close()

    @property
    def running(self) -> int:
        """Runs that have not finished, sub-workflows included."""
        return len(self._live)

    # Told by the processor, on the request path

    def run_started(self, run: RunRecord) -> None:
        self.metrics.refusals.ran(run.request_id)
        self._live.start(run)
        self._writer.started(run)

    def step_started(self, run: RunRecord, node_id: str) -> None:
        self._live.step_started(run, node_id)

    def step_finished(self, run: RunRecord, step: StepRecord) -> None:
        self._live.step_finished(run, step)

    def run_finished(self, run: RunRecord) -> None:
        self._live.finish(run)
        self._writer.finished(run)

    # Asked by people; each raises RunLogUnavailable

    def newest(self, query: Query) -> Listed:
        self.flush()
        return self._history.newest(query)

    def find(self, run_id: str, caller: Caller | None = None) -> Record:
        """A run with all that it started. Raises UnknownRun."""
        watched = self._watched(run_id)
        self.flush()
        record = self._history.find(run_id, owners_seen_by(caller))
        if watched is not None and record["status"] == "running":
            _add_present(record, watched)
        return record

    def delete(self, run_id: str, caller: Caller | None = None) -> None:
        """Delete a run with all that it started. Raises UnknownRun, RunStillRunning."""
        self.flush()
        record = self._history.find(run_id, owners_seen_by(caller))
        if self._live.find(run_id) is not None or record["status"] == "running":
            raise RunStillRunning(run_id)
        self._history.delete(run_id, owners_seen_by(caller))

    def follow(self, run_id: str, caller: Caller | None = None) -> Iterator[list[Happened]]:
        """What happens in a run until it ends, in portions; an empty one when nothing did for a
        moment. Raises UnknownRun at once.
        """
        while True:
            watched = self._watched(run_id)
            if watched is not None and self._may_see(watched.run, caller):
                return self._follow(watched, caller)
            record = self.find(run_id, caller)
            # It may have begun between the two looks.
            if record["status"] != "running" or self._watched(run_id) is None:
                return self._follow_elsewhere(record, caller)

    def _follow(self, watched: _Watched, caller: Caller | None) -> Iterator[list[Happened]]:
        watching = Watching(watched.trace, watched.run)
        while not self._writer.stopping:
            yield watching.news()
            if watching.over:
                yield [("run_finished", self._final(watched.run, caller))]
                return
            time.sleep(_LOOK_SECONDS)

    def _follow_elsewhere(self, record: Record, caller: Caller | None) -> Iterator[list[Happened]]:
        """A run that is over, or one of another server: of that, what it has written."""
        told = 0
        while not self._writer.stopping:
            *steps, end = told_again(record)
            if record["status"] != "running":
                yield [*steps[told:], end]
                return
            yield steps[told:]
            told = len(steps)
            time.sleep(_LOOK_ELSEWHERE_SECONDS)
            record = self.find(record["id"], caller)

    def _final(self, run: RunRecord, caller: Caller | None) -> Record:
        try:
            return self.find(run.id, caller)
        except UnknownRun:
            # Not kept, deleted meanwhile, or lost because the database could not be written.
            told = run.to_dict()
            shown = redacted_run(told) if run.private else told
            return {**shown, "timeline": [], "children": []}

    def _watched(self, run_id: str) -> _Watched | None:
        found = self._live.find(run_id)
        return None if found is None else _Watched(*found)

    def _may_see(self, run: RunRecord, caller: Caller | None) -> bool:
        """Also a run that is not kept: to look on writes nothing down."""
        owners = owners_seen_by(caller)
        return owners is None or owner_of(run.caller, run.user) in owners

    def _places(self) -> Iterator[Place]:
        for user in self._parts.users():
            keep = self._parts.keep(user)
            if keep is not None:
                yield keep.place


def _add_present(record: Record, watched: _Watched) -> None:
    """What a row does not hold of a run that still runs: its words so far, and its open nodes."""
    run = watched.run
    said = run.said
    if said is not None and not run.private:
        record["partialText"] = "".join(said.texts())
    open_nodes: dict[str, float] = {}
    for happening, whose, what, at in tuple(watched.trace.moments):
        if whose is run and happening == "step_started":
            open_nodes[what] = at
        elif whose is run and happening == "step_finished":
            open_nodes.pop(what.node_name, None)
    record["timeline"].extend(open_moment(node, "running", at) for node, at in open_nodes.items())
