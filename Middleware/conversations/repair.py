"""The repair pass: hands on the tasks of lost workers. It interprets no conversation, invents no
outcome and calls no model (REPAIR-2).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Connection, or_, select, text, update

from Middleware.conversations import rules, tables
from Middleware.conversations.database import Database, state_of
from Middleware.conversations.inbox import Queue, wake
from Middleware.conversations.leases import living
from Middleware.conversations.models import State, StorageUnavailable, UnreadableConversation
from Middleware.conversations.rules import RepairOutcome
from Middleware.conversations.settings import RepairSettings
from Middleware.conversations.task import Checkpoint, release

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineTask:
    """What the engine knows of a task."""

    waits: bool
    """In the queue; some worker will take it."""
    runs: bool
    """Begun, and neither finished nor given back; perhaps by an executor that is gone."""
    executor: str | None
    ours: bool = True
    """Of this version of the engine's work; no process of ours takes that of another one."""


class TaskQueue(Queue, Protocol):
    """The engine, as far as repair needs it."""

    def look(self, task_ids: Sequence[str]) -> Mapping[str, EngineTask]:
        """Tasks that are neither queued nor running are left out."""
        ...

    def running(self, limit: int) -> Mapping[str, str | None]:
        """Tasks that are begun and not finished, oldest first, each with its executor."""
        ...

    def hand_on(self, task_id: str) -> None:
        """Put a running task of a lost worker back into the queue, under its own id."""
        ...

    def drop(self, task_id: str) -> None:
        """Nobody is to begin it any more."""
        ...


class Repairer:
    def __init__(
        self,
        database: Database,
        queue: TaskQueue,
        settings: RepairSettings,
        checkpoint: Checkpoint = lambda place: None,
    ) -> None:
        self._database = database
        self._queue = queue
        self._settings = settings
        self._checkpoint = checkpoint

    def wake_due(self) -> int:
        """Give a task to conversations whose wait has ended; how many. Any process may do it."""
        row = tables.conversations.c
        with self._database.transaction() as connection:
            now = self._database.now(connection)
            due = select(row.id).where(
                row.task_id.is_(None),
                row.phase != "completed",
                row.deadline <= now,
                row.task_retry_at <= now,
            )
            ids = connection.execute(due.order_by(row.deadline).limit(100)).scalars().all()
        return sum(self._alone(id, partial(self._wake_due, id)) for id in ids)

    def _wake_due(self, conversation_id: str) -> bool:
        with self._database.locked(conversation_id) as locked:
            if locked is None or locked.state.task_id is not None or locked.state.closed:
                return False
            if locked.state.deadline is None or locked.state.deadline > locked.now:
                return False
            wake(locked, self._queue)
        return True

    def run(self) -> int:
        """One pass; how many tasks were handed on or made."""
        repaired = 0
        for row in self._suspects():
            repaired += self._alone(row["id"], partial(self._repair_row, row))
            self._checkpoint("repair:one")
        self._finish_leftovers()
        return repaired

    def _repair_row(self, row: Mapping[Any, Any]) -> bool:
        return self._repair(state_of(row)) == "repair_dispatched"

    def _alone(self, conversation_id: str, look: Callable[[], bool]) -> bool:
        """One conversation that cannot be looked after, say because its row is damaged, is no
        reason to leave the others alone. It is told, and looked at again after a while.
        """
        try:
            return look()
        except StorageUnavailable:
            raise
        except Exception as error:
            known = isinstance(error, UnreadableConversation)
            logger.error(
                "conversation %s is left alone for a while: %s",
                conversation_id,
                error if known else "it cannot be looked after",
                exc_info=not known,
            )
            row, pause = tables.conversations, self._settings.failure_backoff_max_seconds
            here = row.c.id == conversation_id
            with self._database.transaction() as connection:
                later = {"task_retry_at": self._database.now(connection) + pause}
                connection.execute(update(row).where(here).values(later))
            return False

    def _finish_leftovers(self) -> None:
        """Tasks whose work was done when their worker was lost, but that the engine still has.

        Handed on, they find nothing to do. They are of no conversation any more, so that the
        pass above does not see them.
        """
        running = self._queue.running(self._settings.scan_limit)
        if not running:
            return
        task = tables.conversations.c.task_id
        with self._database.transaction() as connection:
            alive = living(self._database, connection)
            known = select(task).where(task.in_(running))
            current = set(connection.execute(known).scalars())
        for task_id, executor in running.items():
            if executor not in alive and task_id not in current:
                self._queue.hand_on(task_id)

    def repair(self, conversation_id: str, run_id: str | None = None) -> RepairOutcome | None:
        """Look at one conversation now (REPAIR-5, REPAIR-6); None when there is no such one."""
        with self._database.locked(conversation_id) as locked:
            if locked is None:
                return None
            state = locked.state
        if run_id is not None and run_id != state.run_id:
            return "rejected_not_current"
        if state.closed:
            return "rejected_not_active"
        return self._repair(state)

    def _suspects(self) -> list[Mapping[Any, Any]]:
        """Those that cannot be in good health, longest untouched first, so that it is fair."""
        row = tables.conversations
        limit = self._settings.scan_limit
        with self._database.transaction() as connection:
            now = self._database.now(connection)
            alive = living(self._database, connection)
            unclaimed = row.c.task_owner.is_(None) & (
                row.c.task_enqueued_at <= now - self._settings.redispatch_after_seconds
            )
            lost = row.c.task_owner.is_not(None) & row.c.task_owner.not_in(alive)
            with_task = (
                select(row)
                .where(row.c.task_id.is_not(None), row.c.task_retry_at <= now)
                .where(or_(unclaimed, lost))
                .order_by(row.c.task_retry_at)
                .limit(limit)
            )
            without = (
                select(row)
                .where(text(tables.STRANDED))
                .where(row.c.task_retry_at <= now)
                .limit(limit)
            )
            found = [
                *connection.execute(with_task).mappings(),
                *connection.execute(without).mappings(),
            ]
            return list(found[:limit])

    def _repair(self, state: State) -> RepairOutcome:
        if state.task_id is None:
            return self._wake_stranded(state)
        engine = self._queue.look([state.task_id]).get(state.task_id)
        with self._database.transaction() as connection:
            alive = living(self._database, connection)
        runs = engine is not None and engine.runs and engine.executor in alive
        ours = engine is not None and engine.ours
        waits = engine is not None and ours and engine.waits and state.task_owner is None
        if runs or waits:
            self._look_later(state)
            return "repair_not_needed"
        if not self._mark(state, again=not ours):
            return "repair_not_needed"
        self._checkpoint("repair:marked")
        if engine is not None and not ours:
            self._queue.drop(state.task_id)
        elif engine is not None and engine.runs:
            self._queue.hand_on(state.task_id)
        logger.warning("task %s handed on, its worker was %s", state.task_id, state.task_owner)
        return "repair_dispatched"

    def _wake_stranded(self, seen: State) -> RepairOutcome:
        with self._database.locked(seen.id) as locked:
            if locked is None or locked.state.task_id or not rules.must_have_task(locked.state):
                return "repair_not_needed"
            wake(locked, self._queue)
            locked.note("task_repaired", task=locked.state.task_id, count=1)
        return "repair_dispatched"

    def _look_later(self, seen: State) -> None:
        """It waits because all workers are busy, or none is there, or it has just been begun.
        Those behind it in the list of suspects must have their turn.
        """
        with self._database.locked(seen.id) as locked:
            if locked is not None and locked.state.task_id == seen.task_id:
                pause = self._settings.redispatch_after_seconds
                locked.change(task_retry_at=locked.now + pause)

    def _mark(self, seen: State, *, again: bool) -> bool:
        """Say in the conversation that its task is handed on; False when another repairer, or
        the worker itself, was quicker (REPAIR-4). ``again``: the engine has no such task, or one
        that nobody will take.
        """
        with self._database.locked(seen.id) as locked:
            if locked is None or _identity(locked.state) != _identity(seen):
                return False
            if _owner_lives(self._database, locked.connection, seen):
                return False
            repairs = seen.task_repairs + 1
            if seen.task_owner is not None:
                locked.note("lease_expired", task=seen.task_id, owner=seen.task_owner)
            if again:
                release(locked)
                wake(locked, self._queue)
            locked.note("task_repaired", task=locked.state.task_id, count=repairs)
            pause = rules.repair_backoff(repairs, self._settings.failure_backoff_max_seconds)
            # Without its claim the old execution can record nothing any more, should it still run.
            locked.change(
                task_owner=None,
                task_claim=None,
                task_repairs=repairs,
                task_retry_at=locked.now + pause,
            )
            return True


def _identity(state: State) -> tuple[object, ...]:
    return (state.task_id, state.task_owner, state.task_claim, state.task_repairs)


def _owner_lives(database: Database, connection: Connection, state: State) -> bool:
    return state.task_owner is not None and state.task_owner in living(database, connection)
