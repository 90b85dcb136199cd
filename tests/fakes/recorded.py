"""Runs without a server, and the run log of a folder.

with run_log(tmp_path) as log:
    run = log.begin("assistant")
    log.step(run, "node_1", "Hello")
    log.end(run)
    assert log.shown(run)["status"] == "succeeded"
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from Middleware.core.clock import Clock
from Middleware.core.events import TextDelta, Usage
from Middleware.core.messages import Caller
from Middleware.runs.metrics import Metrics
from Middleware.runs.reader import Query
from Middleware.runs.retention import Keep
from Middleware.runs.run_log import RunLog
from Middleware.runs.tracking import EndOfTree
from Middleware.runs.writer import WriterParts
from Middleware.storage.places import Place
from Middleware.workflows.models.run import Run, RunStatus
from Middleware.workflows.models.step_notes import StepNotes
from Middleware.workflows.models.workflow_context import WorkflowPayload, WorkflowStep
from tests.fakes.clock import ShiftedClock


@dataclass
class FakeLog:
    """A run log, and what the processor does with one."""

    log: RunLog
    clock: ShiftedClock
    keeps: dict[str, Keep | None] = field(default_factory=dict)
    _reached: threading.Event = field(default_factory=threading.Event)
    _go_on: threading.Event | None = None

    def look_up(self, user: str) -> Keep | None:
        if self._go_on is not None:
            self._reached.set()
            assert self._go_on.wait(10)
        return self.keeps.get(user)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The thread of the log has come to a run and does not get on with it."""
        self._go_on = threading.Event()
        try:
            self.finished()
            assert self._reached.wait(10)
            yield
        finally:
            self._go_on.set()
            self._go_on = None

    def begin(self, workflow: str = "assistant", **settings: Any) -> Run:
        run = Run(
            **{
                "id": self.clock.new_id(),
                "workflow": workflow,
                "folder": "",
                "user": "tester",
                "door": "openai",
                "started_at": self.clock.timestamp(),
                **settings,
            }
        )
        self.log.run_started(run)
        return run

    def below(self, parent: Run, workflow: str = "child", **settings: Any) -> Run:
        return self.begin(workflow, parent_id=parent.id, **settings)

    def start_step(self, run: Run, node: str) -> None:
        run.context.current_step_node_id = node
        self.log.step_started(run, node)

    def say(self, run: Run, *pieces: str) -> None:
        """Words of the node that answers."""
        said = run.said or run.begin_answer(run.current_node)
        for piece in pieces:
            said.add(TextDelta(piece))

    def end_step(self, run: Run, node: str, said: Any = "", **notes: Any) -> WorkflowStep:
        step = a_step(node, said, started_at=self.clock.timestamp(), **notes)
        if step.notes is not None:
            run.add_usage(step.notes.usage, step.notes.cost)
        run.context.steps.append(step)
        self.log.step_finished(run, step)
        return step

    def step(self, run: Run, node: str, said: Any = "", **notes: Any) -> WorkflowStep:
        self.start_step(run, node)
        return self.end_step(run, node, said, **notes)

    def end(self, run: Run, status: RunStatus = "succeeded", error: str | None = None) -> Run:
        run.context.error = error
        run.duration_ms = 12.5
        run.status = status
        self.log.run_finished(run)
        return run

    def finished(self, workflow: str = "assistant", **settings: Any) -> Run:
        run = self.begin(workflow, **settings)
        self.step(run, "node_1", "Hello")
        return self.end(run)

    def shown(self, run: Run) -> dict[str, Any]:
        return self.log.find(run.id)

    def listed(self, **query: Any) -> list[dict[str, Any]]:
        return self.log.newest(Query(**query)).runs

    def ids(self, **query: Any) -> list[str]:
        return [run["id"] for run in self.listed(**query)]

    def keep(self, user: str = "tester", **settings: Any) -> None:
        """Change what the user's file says."""
        keep = self.keeps[user]
        assert keep is not None
        self.keeps[user] = replace(keep, **settings)


def a_step(
    node: str,
    said: Any = "",
    *,
    type_name: str = "Standard",
    started_at: float | None = None,
    **notes: Any,
) -> WorkflowStep:
    kept = StepNotes(**notes)
    return WorkflowStep(
        node_name=node,
        output_data=WorkflowPayload.of(said),
        module_type=type_name,
        next_route=kept.next_route,
        thinking=kept.thinking,
        cost=kept.cost,
        processing_time_ms=1.5,
        started_at=started_at,
        notes=kept,
    )


def used(prompt: int, completion: int, *, estimated: bool = False) -> Usage:
    return Usage(prompt_tokens=prompt, completion_tokens=completion, estimated=estimated)


def a_caller(user: str, key_name: str) -> Caller:
    return Caller(user=user, key_name=key_name)


def file_of(folder: Path) -> Path:
    return folder / "data" / "runs.sqlite"


def _place(where: Place) -> Place:
    return file_of(where) if isinstance(where, Path) else where


@contextmanager
def run_log(
    where: Place,
    *,
    users: Mapping[str, Place] | None = None,
    clock: Clock | None = None,
    end_of_tree: EndOfTree | None = None,
    start: bool = True,
) -> Iterator[FakeLog]:
    """``where`` is a folder or a database. ``users`` and their databases; one, ``tester``, by
    default."""
    shifted = clock if isinstance(clock, ShiftedClock) else ShiftedClock()
    keeps: dict[str, Keep | None] = {
        user: Keep(place=place) for user, place in (users or {"tester": _place(where)}).items()
    }
    fake: FakeLog
    log = RunLog(
        WriterParts(
            keep=lambda user: fake.look_up(user),
            users=lambda: tuple(keeps),
            clock=shifted,
            metrics=Metrics(),
            end_of_tree=end_of_tree,
            interval_seconds=0.02,
        )
    )
    fake = FakeLog(log, shifted, keeps)
    if start:
        log.start()
    try:
        yield fake
    finally:
        log.close()
