"""A worker in a process of its own, which can be told to die, by signal 9, at a named place."""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from Middleware.conversations.activities import ActionRunner
from Middleware.conversations.model import fake_outcome
from Middleware.conversations.models import ActionCall, ModelCall, ModelOutcome
from Middleware.conversations.profiles import Profile
from Middleware.conversations.service import Conversations, Parts
from Middleware.conversations.settings import (
    EngineSettings,
    RepairSettings,
    RetentionSettings,
    WorkerSettings,
)
from Middleware.core.cancellation import CancelToken

IN_MODEL = "model"
"""A place where a process can die: the model speaks."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a worker process is told. All of it can be sent to another process."""

    url: str
    folder: str
    """For what the outside world sees: calls of the model, effects of actions."""
    die_at: str = ""
    lease_seconds: float = 1.0
    freeze_in_model: bool = False
    """The first model call says that it has begun, and then takes its time."""
    model_seconds: float = 0.0
    says: tuple[str, ...] = ()
    """What the model is heard to say; it then waits for the file `go on` in the folder."""
    turns_at_once: int = 32
    engine_seconds: float = 600.0
    task_max_failures: int = 20

    def settings(self) -> WorkerSettings:
        return WorkerSettings(
            lease_seconds=self.lease_seconds,
            loop_throttle_seconds=0.1,
            turns_at_once=self.turns_at_once,
            task_max_failures=self.task_max_failures,
            engine=EngineSettings(poll_seconds=0.03),
            repair=RepairSettings(redispatch_after_seconds=0.5, failure_backoff_max_seconds=1.0),
            retention=RetentionSettings(every_seconds=0.5, engine_seconds=self.engine_seconds),
        )


class Outside:
    """The world beyond the process: a folder that outlives it."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def note(self, kind: str, **data: Any) -> None:
        line = json.dumps({"kind": kind, "pid": os.getpid(), "at": time.time(), **data}) + "\n"
        handle = os.open(self.folder / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, line.encode())
        os.close(handle)

    def notes(self, kind: str) -> list[dict[str, Any]]:
        path = self.folder / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [note for note in map(json.loads, lines) if note["kind"] == kind]

    def is_first(self, name: str) -> bool:
        """True once, for one process of all."""
        try:
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class NotingModel:
    """The fake model, which leaves a trace of each call."""

    def __init__(self, job: Job, outside: Outside, checkpoint: Callable[[str], None]) -> None:
        self._job = job
        self._outside = outside
        self._checkpoint = checkpoint

    def answer(
        self, call: ModelCall, profile: Profile, cancel: CancelToken, show: Callable[[str], None]
    ) -> ModelOutcome:
        self._outside.note("model", turn=call.turn, attempt=call.attempt, key=call.idempotency_key)
        self._checkpoint(IN_MODEL)
        if self._job.freeze_in_model and self._outside.is_first("frozen"):
            self._outside.note("in model")
            time.sleep(0.3)
        elif self._job.model_seconds:
            time.sleep(self._job.model_seconds)
        if self._job.says:
            for piece in self._job.says:
                show(piece)
            wait_for((self._outside.folder / "go on").exists)
            return fake_outcome(call, lambda text: None)
        return fake_outcome(call, show)


class NotingActions(ActionRunner):
    """An outside system that honours the key it is given, and one look at what it saw."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    def carry_out(self, call: ActionCall, profile: Profile, cancel: CancelToken) -> str | None:
        self._outside.note("action", reference=call.reference, attempt=call.attempt)
        return None


def work(job: Job) -> None:
    """The body of a worker process: works until it is killed."""
    outside = Outside(job.folder)

    def checkpoint(place: str) -> None:
        if place == job.die_at and outside.is_first(f"died {place.replace(':', '-')}"):
            outside.note("died", place=place)
            os.kill(os.getpid(), signal.SIGKILL)

    parts = Parts(
        database_url=job.url,
        model=NotingModel(job, outside, checkpoint),
        actions=NotingActions(outside),
        settings=job.settings(),
        checkpoint=checkpoint,
    )
    conversations = Conversations(parts)
    conversations.work()
    outside.note("ready")
    while True:
        time.sleep(60)


_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, "Middleware.conversations.worker"])


@contextmanager
def worker(job: Job) -> Iterator[ForkServerProcess]:
    """A running worker process; it is killed when the block ends, if it lives until then."""
    with own_process(work, job) as process:
        yield process


@contextmanager
def own_process(body: Callable[..., None], *arguments: Any) -> Iterator[ForkServerProcess]:
    """The same for any function of a module."""
    process = _context.Process(target=body, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        if process.is_alive():
            process.kill()
        process.join()


def wait_for(check: Callable[[], Any], seconds: float = 30.0, what: str = "") -> Any:
    """The first true value of ``check``; fails when there is none in time."""
    ends = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        assert time.monotonic() < ends, f"waited {seconds:g} s in vain {what}"
        time.sleep(0.01)


def without(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in names}
