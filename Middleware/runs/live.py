"""Runs while they happen: what has been told of them, in order, for whoever looks on."""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from Middleware.core.clock import Clock
from Middleware.runs.recorder import RunRecord, StepRecord

Happening: TypeAlias = Literal["run_started", "step_started", "step_finished", "run_finished"]

Moment: TypeAlias = tuple[Happening, RunRecord, Any, float]
"""What happened, in which run, the id of the node or the step, and when (seconds since 1970). A
plain tuple, because two are made for every node while a client waits."""


@dataclass(slots=True, eq=False)
class Trace:
    """A run that no other run has started, and all that it started."""

    root: RunRecord
    moments: list[Moment] = field(default_factory=list)
    """Only added to: a reader remembers how far it came, and nobody waits for anybody."""


class Live:
    """All runs of this process that have not finished. Safe to use from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.timestamp
        self._traces: dict[str, Trace] = {}

    def start(self, run: RunRecord) -> None:
        trace = self._traces.get(run.parent_id) if run.parent_id else None
        if trace is None:
            trace = Trace(run)
        self._traces[run.id] = trace
        trace.moments.append(("run_started", run, None, self._now()))

    def step_started(self, run: RunRecord, node_id: str) -> None:
        trace = self._traces.get(run.id)
        if trace is not None:
            trace.moments.append(("step_started", run, node_id, self._now()))

    def step_finished(self, run: RunRecord, step: StepRecord) -> None:
        trace = self._traces.get(run.id)
        if trace is not None:
            trace.moments.append(("step_finished", run, step, self._now()))

    def finish(self, run: RunRecord) -> None:
        trace = self._traces.pop(run.id, None)
        if trace is not None:
            trace.moments.append(("run_finished", run, None, self._now()))

    def find(self, run_id: str) -> tuple[Trace, RunRecord] | None:
        """A run that has not finished, and the trace that it is part of."""
        trace = self._traces.get(run_id)
        if trace is None:
            return None
        return trace, next(moment[1] for moment in trace.moments if moment[1].id == run_id)

    def __len__(self) -> int:
        return len(self._traces)
