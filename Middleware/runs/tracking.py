"""Runs as the log follows them, from their start to their last row."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from Middleware.runs.metrics import Metrics, workflow_label
from Middleware.runs.recorder import RunRecord, StepRecord
from Middleware.runs.redaction import redacted_run, redacted_step
from Middleware.runs.rows import (
    Row,
    RunPlace,
    Sums,
    first_number,
    owner_of,
    run_row,
    size_of_step,
    step_row,
    steps_text,
)
from Middleware.runs.store import Rows


@dataclass(slots=True, eq=False)
class Tracked:
    """One run. Belongs to the thread that writes."""

    run: RunRecord
    number: int
    root: int
    """The number of the run that no other has started."""
    parent: "Tracked | None"
    owner: str
    tree: list[RunRecord]
    """All runs of the tree so far, if somebody wants them at its end; shared by all of it."""
    below: Sums = field(default_factory=Sums)
    """What finished sub-workflows have used."""
    written: Sequence[StepRecord] = ()
    """The steps that have rows, in their order."""
    sizes: list[int] = field(default_factory=list)
    """Of these rows, in bytes."""
    has_step_rows: bool = False
    """Whether steps have rows of their own, or had."""
    measured: set[int] = field(default_factory=set)
    """Steps that the metrics know, by identity: they are alive as long as their run."""
    node: str | None = None
    """The current node in the newest row; None when there is no row yet."""
    is_new: bool = True
    """Whether it began since the last look: a short run gets only one row, at its end."""

    def has_changed(self) -> bool:
        run = self.run
        return self.node != run.current_node or len(self.written) != len(run.steps)

    def forget_rows(self) -> None:
        """The rows were lost: the next ones hold everything."""
        self.written, self.sizes, self.node = (), [], None


class Tracking:
    """Gives runs their numbers and makes their rows."""

    def __init__(self, process: str, metrics: Metrics, *, keeps_trees: bool) -> None:
        self._process = process
        self._metrics = metrics
        self._keeps_trees = keeps_trees
        self._known: dict[str, Tracked] = {}
        self._last_number = 0
        self._salt = hash(process) & 1023

    def __iter__(self) -> Iterator[Tracked]:
        return iter(tuple(self._known.values()))

    def start(self, run: RunRecord) -> Tracked:
        known = self._known.get(run.id)
        if known is not None:
            return known
        parent = self._known.get(run.parent_id) if run.parent_id else None
        number = max(first_number(run.started_at) + self._salt, self._last_number + 1)
        self._last_number = number
        tracked = Tracked(
            run=run,
            number=number,
            root=parent.root if parent else number,
            parent=parent,
            owner=owner_of(run.caller, run.user),
            tree=parent.tree if parent else [],
        )
        if self._keeps_trees:
            tracked.tree.append(run)
        self._known[run.id] = tracked
        return tracked

    def finish(self, tracked: Tracked) -> None:
        self._known.pop(tracked.run.id, None)

    def add_rows(self, tracked: Tracked, rows: Rows | None, *, finished: bool) -> None:
        """Measure what is new and add its rows; None when nothing of the run is kept."""
        run = tracked.run
        told = run.to_dict(steps=False)
        steps = tuple(run.steps)
        start = _common(tracked.written, steps)
        if start < len(tracked.written):
            if rows is not None:
                rows.cuts.append((tracked.number, start))
            del tracked.sizes[start:]
        new = [
            self._step_row(tracked, told, steps[position], position)
            for position in range(start, len(steps))
        ]
        tracked.sizes.extend(map(size_of_step, new))
        tracked.written, tracked.node = steps, run.current_node
        sums = Sums()
        sums.add_tokens(told["tokens"], told["cost"])
        sums.add(tracked.below)
        if finished:
            self._end(tracked, told, sums)
        if rows is None:
            return
        inside = finished and not tracked.has_step_rows
        if not inside and new:
            tracked.has_step_rows = True
            rows.steps.extend(new)
        place = RunPlace(
            number=tracked.number,
            root=tracked.root,
            owner=tracked.owner,
            process=self._process,
            first_token_ms=run.first_token_ms,
            steps_bytes=sum(tracked.sizes),
            steps=steps_text(new) if inside else None,
        )
        shown = redacted_run(told) if run.private else told
        row, size = run_row(shown, place, run.started_at, sums)
        rows.runs.append(row)
        rows.bytes += size + sum(map(size_of_step, new))

    def _step_row(
        self, tracked: Tracked, told: dict[str, Any], step: StepRecord, position: int
    ) -> Row:
        shown = step.to_dict()
        if id(step) not in tracked.measured:
            tracked.measured.add(id(step))
            self._metrics.add_step(told["door"], workflow_label(told), shown)
        if tracked.run.private:
            shown = redacted_step(shown)
        return step_row(tracked.number, position, step, shown)

    def _end(self, tracked: Tracked, told: dict[str, Any], sums: Sums) -> None:
        if tracked.parent is not None:
            tracked.parent.below.add(sums)
        elif tracked.run.parent_id is None:
            self._metrics.add_run(told, tracked.run.first_token_ms)


EndOfTree = Callable[[Sequence[RunRecord]], None]
"""Told of all runs of a finished tree, the root first."""


def _common(written: Sequence[StepRecord], steps: Sequence[StepRecord]) -> int:
    """How many steps at the beginning are the same ones."""
    count = 0
    for old, new in zip(written, steps, strict=False):
        if old is not new:
            break
        count += 1
    return count
