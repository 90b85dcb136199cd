"""What happened in a test: the run, its nodes and those of its sub-workflows."""

from collections.abc import Iterator
from typing import Any

from Middleware.runs.recorder import RunRecord, Silent
from Middleware.workflows.models.run import Run


class Trace(Silent):
    """Keeps the runs of one test."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._order: list[str] = []

    def run_started(self, run: RunRecord) -> None:
        assert isinstance(run, Run)
        self._runs[run.id] = run
        self._order.append(run.id)

    @property
    def main(self) -> Run | None:
        """The run of the workflow that is tested."""
        return self._runs[self._order[0]] if self._order else None

    @property
    def globals(self) -> dict[str, Any]:
        """Its global variables as they are now."""
        return dict(self.main.context.global_variables) if self.main else {}

    def nodes(self, *, deep: bool) -> list[tuple[str, ...]]:
        """What each node that ran may be called, in order. ``deep``: also those of sub-workflows,
        behind the node that started them."""
        return list(_nodes(self.main, self._runs, deep)) if self.main else []

    def errors(self) -> list[str]:
        """What nodes failed with, those included whose workflow went on."""
        told = (
            step.notes.error
            for id in self._order
            for step in self._runs[id].steps
            if step.notes is not None
        )
        return [error for error in told if error]


def _nodes(run: Run, runs: dict[str, Run], deep: bool) -> Iterator[tuple[str, ...]]:
    label = _label(run)
    for step in run.steps:
        title = step.title or step.node_name
        yield (step.node_name, title, f"{label}/{step.node_name}", f"{label}/{title}")
        child = runs.get(step.notes.child_run_id or "") if step.notes else None
        if deep and child is not None:
            yield from _nodes(child, runs, deep)


def _label(run: Run) -> str:
    """As the workflow itself says it."""
    if run.workflow == "_DefaultWorkflow" and run.folder:
        return run.folder.rpartition("/")[2]
    return run.workflow
