"""A task in the hands of one execution, and the fence around everything that it writes."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, update

from Middleware.conversations import tables
from Middleware.conversations.database import Database, Locked
from Middleware.conversations.models import LostTask

DONE = "done"

Checkpoint = Callable[[str], None]
"""Told the name of each place where a process may be lost. Does nothing, but in tests."""


@dataclass(frozen=True, slots=True)
class Task:
    """From one wait of a conversation to the next. ``claim`` names this execution of it."""

    conversation_id: str
    id: str
    claim: str
    executor: str


def begin(database: Database, conversation_id: str, task_id: str, executor: str) -> Task | None:
    """Take the task, from whoever had it before; None when it has been done already."""
    with database.locked(conversation_id) as locked:
        if locked is None or locked.state.task_id != task_id:
            return None
        task = Task(conversation_id, task_id, uuid.uuid4().hex, executor)
        locked.note("task_leased", task=task_id, owner=executor)
        locked.change(task_claim=task.claim, task_owner=executor)
        return task


@contextmanager
def owned(database: Database, task: Task) -> Iterator[Locked | None]:
    """The conversation, locked for an execution that still owns its task.

    None when the task had been finished and this is a repetition. Raises LostTask when another
    execution has taken over: nothing that this one brings may be recorded (MODEL-4, ENG-3).
    """
    with database.locked(task.conversation_id) as locked:
        if locked is None:
            raise LostTask(task.conversation_id)
        if locked.state.task_id != task.id:
            yield None
            return
        if locked.state.task_claim != task.claim:
            raise LostTask(task.conversation_id)
        yield locked


def release(locked: Locked) -> None:
    """The task is done; the conversation waits, and costs nothing."""
    locked.change(
        task_id=None, task_claim=None, task_owner=None, task_enqueued_at=None, task_retry_at=0.0
    )


def turn_in_progress(locked: Locked) -> Mapping[Any, Any]:
    """The row of the turn that the conversation is in."""
    return locked.connection.execute(select(tables.turns).where(_here(locked))).mappings().one()


def change_turn(locked: Locked, **values: Any) -> None:
    locked.connection.execute(update(tables.turns).where(_here(locked)).values(values))


def _here(locked: Locked) -> Any:
    turn = tables.turns.c
    return (turn.conversation_id == locked.state.id) & (turn.turn == locked.state.turn)
