"""An engine for tests: one task at a time, in this thread, and a stop at any place.

It keeps what a durable engine promises: a task is queued with the transaction that needs it, the
results of finished steps are returned when a task is begun again, and only the execution that
owns a task may record. It has executors, leases and a clock of its own.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, select, update

from Middleware.conversations import rules, tables, task
from Middleware.conversations.activities import Activities, Outside
from Middleware.conversations.database import Database
from Middleware.conversations.inbox import Inbox
from Middleware.conversations.leases import Lease
from Middleware.conversations.model import fake_outcome
from Middleware.conversations.models import ActionCall, LostTask, ModelCall, ModelOutcome
from Middleware.conversations.profiles import FixedProfiles, Profile, Profiles
from Middleware.conversations.reading import Reader
from Middleware.conversations.repair import EngineTask, Repairer
from Middleware.conversations.settings import RepairSettings
from Middleware.conversations.steps import Steps
from Middleware.conversations.task import DONE
from Middleware.core.cancellation import CancelToken

LEASE_SECONDS = 30.0

_metadata = MetaData()
_queue = Table(
    "stepping_queue",
    _metadata,
    Column("place", Integer, primary_key=True, autoincrement=True),
    Column("task_id", Text, unique=True),
    Column("conversation_id", Text),
    Column("status", Text),
    Column("executor", Text),
    Column("owner", Integer),
)


class Killed(BaseException):
    """The process is gone: nothing after this line of it happens."""


@dataclass
class FakeClock:
    time: float = 1_000_000.0

    def __call__(self) -> float:
        # Every look costs a little, so that no two things happen at once.
        self.time += 0.001
        return self.time

    def pass_(self, seconds: float) -> None:
        self.time += seconds


@dataclass
class CountingModel:
    """The fake model; tells how often it was asked, and fails when it is told to."""

    calls: list[ModelCall] = field(default_factory=list)
    failures: int = 0
    outcome: Callable[[ModelCall], ModelOutcome] | None = None

    def answer(
        self, call: ModelCall, profile: Profile, cancel: CancelToken, show: Callable[[str], None]
    ) -> ModelOutcome:
        self.calls.append(call)
        if self.failures:
            self.failures -= 1
            raise ValueError("the model is not in the mood")
        return self.outcome(call) if self.outcome else fake_outcome(call, show)


@dataclass
class CountingActions:
    calls: list[ActionCall] = field(default_factory=list)
    failures: int = 0

    def carry_out(self, call: ActionCall, profile: Profile, cancel: CancelToken) -> str | None:
        self.calls.append(call)
        if self.failures:
            self.failures -= 1
            raise ValueError("the till is closed")
        return None


class SteppingEngine:
    """One deployment. ``executor`` names the process that works now; another one after a kill."""

    def __init__(
        self,
        folder: Path,
        profiles: Profiles | None = None,
        repair: RepairSettings | None = None,
        limits: rules.Limits | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.database = Database(f"sqlite:///{folder / 'stepping.sqlite'}", clock=self.clock)
        with self.database.engine.connect() as connection:
            # What is committed survives a kill, which is all that these tests ask.
            connection.exec_driver_sql("PRAGMA synchronous=OFF")
        self.database.migrate()
        _metadata.create_all(self.database.engine)
        self.model = CountingModel()
        self.actions = CountingActions()
        self.profiles = profiles or FixedProfiles()
        self.inbox = Inbox(self.database, self, limits or rules.Limits())
        self.reader = Reader(self.database)
        self.kill_at: Callable[[str], bool] = lambda place: False
        self.places: list[str] = []
        self.repairer = Repairer(
            self.database, self, repair or RepairSettings(), checkpoint=self._checkpoint
        )
        self._recorded: dict[tuple[str, int], str] = {}
        self._owners = itertools.count(1)
        self._executors = itertools.count(1)
        self.start_process()

    def start_process(self) -> None:
        """A new process takes the place of the one that worked until now."""
        self.executor = f"exec-{next(self._executors)}"
        self.lease = Lease(self.database, self.executor, LEASE_SECONDS)
        self.lease.take()

    def _checkpoint(self, place: str) -> None:
        self.places.append(place)
        if self.kill_at(place):
            raise Killed(place)

    # The queue, as the inbox and the repair pass see it

    def enqueue(self, connection: Connection, conversation_id: str, task_id: str) -> None:
        row = {"task_id": task_id, "conversation_id": conversation_id, "status": "waits"}
        connection.execute(insert(_queue).values(row))

    def look(self, task_ids: Sequence[str]) -> Mapping[str, EngineTask]:
        query = select(_queue).where(_queue.c.task_id.in_(task_ids), _queue.c.status != "done")
        with self.database.transaction() as connection:
            return {
                row.task_id: EngineTask(
                    waits=row.status == "waits", runs=row.status == "runs", executor=row.executor
                )
                for row in connection.execute(query)
            }

    def running(self, limit: int) -> Mapping[str, str | None]:
        query = select(_queue).where(_queue.c.status == "runs").limit(limit)
        with self.database.transaction() as connection:
            return {row.task_id: row.executor for row in connection.execute(query)}

    def hand_on(self, task_id: str) -> None:
        self._set(task_id, status="waits", owner=None)

    def drop(self, task_id: str) -> None:
        self._set(task_id, status="done")

    def _set(self, task_id: str, **values: Any) -> None:
        here = _queue.c.task_id == task_id
        with self.database.transaction() as connection:
            connection.execute(update(_queue).where(here).values(values))

    # The work

    def next_task(self) -> tuple[str, str] | None:
        query = select(_queue).where(_queue.c.status == "waits").order_by(_queue.c.place)
        with self.database.transaction() as connection:
            row = connection.execute(query.limit(1)).first()
        return (row.conversation_id, row.task_id) if row else None

    def run_one(self) -> bool:
        """Take the first task of the queue and run it; False when there is none.

        Raises Killed when the process dies meanwhile. The task is then left as it is.
        """
        found = self.next_task()
        if found is None:
            return False
        execution = self.begin(*found)
        while execution.step():
            pass
        return True

    def begin(self, conversation_id: str, task_id: str) -> "Execution":
        owner = next(self._owners)
        self._set(task_id, status="runs", executor=self.executor, owner=owner)
        return Execution(self, conversation_id, task_id, owner)

    def run(self) -> None:
        """Until nothing is left to be done now."""
        self.lease.take()
        while self.run_one():
            self.lease.take()

    def recover(self) -> None:
        """A new process, once the lease of the dead one has ended."""
        self.kill_at = lambda place: False
        self.start_process()
        self.clock.pass_(LEASE_SECONDS + 1)
        self.lease.take()
        while self.repairer.run():
            self.clock.pass_(5)
            self.lease.take()
        self.run()

    def outside(self) -> Outside:
        return Outside(
            profiles=self.profiles,
            model=self.model,
            actions=self.actions,
            checkpoint=self._checkpoint,
            retry_pause_seconds=0.0,
        )

    def owner_of(self, task_id: str) -> int | None:
        with self.database.transaction() as connection:
            query = select(_queue.c.owner).where(_queue.c.task_id == task_id)
            owner: int | None = connection.execute(query).scalar()
        return owner

    def recorded(self, task_id: str, number: int) -> str | None:
        return self._recorded.get((task_id, number))

    def record(self, task_id: str, number: int, owner: int, result: str) -> None:
        if self.owner_of(task_id) != owner:
            raise LostTask(task_id)
        self._recorded[task_id, number] = result

    def finish(self, task_id: str, owner: int) -> None:
        if self.owner_of(task_id) == owner:
            self._set(task_id, status="done")

    def place(self, name: str) -> None:
        self._checkpoint(name)

    def rows(self, table: Table) -> list[dict[str, Any]]:
        with self.database.transaction() as connection:
            return [dict(row) for row in connection.execute(select(table)).mappings()]

    def everything(self) -> str:
        """All that is stored but the replies."""
        kept = (table for table in tables.metadata.sorted_tables if table is not tables.records)
        return "\n".join(str(self.rows(table)) for table in kept)


class Execution:
    """One execution of a task, a step at a time, so that others can come in between."""

    def __init__(
        self, engine: SteppingEngine, conversation_id: str, task_id: str, owner: int
    ) -> None:
        self._engine = engine
        self._task_id = task_id
        self._owner = owner
        self._number = 0
        database = engine.database
        self._steps = Steps(database, engine)
        self._activities = Activities(database, engine.outside())
        self._task = task.begin(database, conversation_id, task_id, engine.executor)
        engine.place("begin:committed")
        self.next = "take" if self._task else DONE

    def step(self) -> bool:
        """The next step; False when the task is done, or belongs to another execution."""
        if self.next == DONE:
            self._engine.finish(self._task_id, self._owner)
            return False
        name = self.next
        self._number += 1
        known = self._engine.recorded(self._task_id, self._number)
        try:
            self.next = known if known is not None else self._run(name)
        except LostTask:
            return False
        return True

    def _run(self, name: str) -> str:
        owner: Steps | Activities = self._activities if name in ("think", "act") else self._steps
        assert self._task is not None
        self._engine.place(f"{name}:begin")
        result: str = getattr(owner, name)(self._task)
        self._engine.place(f"{name}:committed")
        self._engine.record(self._task_id, self._number, self._owner, result)
        self._engine.place(f"{name}:recorded")
        return result
