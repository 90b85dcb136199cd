"""Runs one test of a workflow: the real engine, with replies in the place of models."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from Middleware.config.files import Snapshot
from Middleware.config.store import ConfigStore
from Middleware.core.cancellation import CancelToken
from Middleware.core.clock import Clock, SystemClock
from Middleware.core.errors import MiddlewareError
from Middleware.core.events import Event, Reply, ReplyBuilder, TextDelta
from Middleware.workflows.managers.conversation_intake import take_in
from Middleware.workflows.managers.workflow_catalog import find_workflow
from Middleware.workflows.managers.workflow_manager import WorkflowManager
from Middleware.workflows.models.early_end import RunEndsEarly
from Middleware.workflows.models.request_scope import Backends, RequestScope
from Middleware.workflows.models.server_parts import ServerParts
from Middleware.workflows.models.workflow_call import CLEAR_CONVERSATION, WorkflowCall
from Middleware.workflows.testing.files import WorkflowCase
from Middleware.workflows.testing.models import Call, FakeModels, StandIns
from Middleware.workflows.testing.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class TestBench:
    """Where tests run: the configuration, and the real models that are stood in for."""

    __test__ = False

    store: ConfigStore
    backends: Backends
    server: ServerParts = field(default_factory=ServerParts)
    """What of the server nodes may use. Its folders for data are replaced by throw-away ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to."""

    reply: Reply
    error: str | None
    trace: Trace
    calls: tuple[Call, ...]
    """Of models, in the order in which they began."""
    silent: tuple[str, ...] = ()
    """Nodes that called a model for which the test has no reply."""


def run_case(bench: TestBench, case: WorkflowCase, *, workflow: str, user: str = "") -> Outcome:
    """Run a test. Raises ConfigError only where there is no such user."""
    models = FakeModels(bench.backends, case.replies)
    outcome = play(bench, case, models, workflow=case.workflow or workflow, user=user)
    return replace(outcome, silent=tuple(models.silent))


def play(
    bench: TestBench, case: WorkflowCase, models: StandIns, *, workflow: str, user: str = ""
) -> Outcome:
    """Run what a test says on the given models."""
    config = bench.store.snapshot(user or None)
    trace, said = Trace(), ReplyBuilder()
    error: str | None = None
    with _throw_away(bench.server) as server:
        try:
            for event in _events(config, case, workflow, _Parts(models, trace, server)):
                said.add(event)
        except MiddlewareError as failure:
            error = failure.message
    return Outcome(reply=said.build(), error=error, trace=trace, calls=tuple(models.calls))


@dataclass(frozen=True, slots=True)
class _Parts:
    models: StandIns
    trace: Trace
    server: ServerParts


def _events(config: Snapshot, case: WorkflowCase, workflow: str, parts: _Parts) -> Iterator[Event]:
    folder, name = find_workflow(config, workflow)
    conversation = take_in(case.conversation(), config.user, case.conversation_id or None)
    scope = RequestScope(
        config=config,
        backends=parts.models,
        request_id="test",
        cancel=CancelToken(),
        recorder=parts.trace,
        clock=_clock(case.now),
        tools=case.tools,
        filler=conversation.filler,
        server=parts.server,
        door="test",
    )
    call = WorkflowCall(
        workflow=name,
        folder=folder,
        messages=conversation.messages,
        discussion_id=conversation.discussion_id,
        streaming=case.stream,
        globals={**case.global_variables, CLEAR_CONVERSATION: case.clear_conversation},
    )
    try:
        yield from WorkflowManager(call, scope).events()
    except RunEndsEarly as end:
        yield TextDelta(end.message)


@contextmanager
def _throw_away(server: ServerParts) -> Iterator[ServerParts]:
    """The server's parts, with data folders that are empty and do not outlive the test."""
    with tempfile.TemporaryDirectory(prefix="workflow-test-") as folder:
        path = Path(folder)
        fresh = ServerParts(
            install=server.install,
            discussion_directory=path / "discussions",
            sqlite_directory=path / "sqlite",
            allow_inline_python=server.allow_inline_python,
        )
        try:
            yield fresh
        finally:
            fresh.close()


class _FixedClock(SystemClock):
    """Shows one moment; time passes all the same for whoever measures it."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self._now = now

    def now(self) -> datetime:
        return self._now

    def timestamp(self) -> float:
        return self._now.timestamp()


def _clock(now: datetime | None) -> Clock:
    return SystemClock() if now is None else _FixedClock(now.replace(tzinfo=None))
