"""What happens when the logic of a conversation itself fails, not a model, an action or a worker.

A fault of the program, or rows that somebody has changed by hand: trying again may help, after an
upgrade at the latest, but not for ever. This is the one way in which a conversation ends as
`failed`; a failing model or action ends its turn only (MODEL-6, DEC-9).
"""

from sqlalchemy import func, select

from Middleware.conversations import rules, tables
from Middleware.conversations.closing import close_conversation
from Middleware.conversations.database import Database, Locked
from Middleware.conversations.task import Task, owned

_PROGRESS = ("run_started", "signal_applied", "phase_changed", "reply_recorded")


def task_failed(
    database: Database, task: Task, error: str, most: int, longest_pause: float
) -> None:
    """Note it, and leave the task to the repair pass after a growing pause; the ``most``-th failure
    in a row without any progress ends the conversation. Raises LostTask.
    """
    with owned(database, task) as locked:
        if locked is None:
            return
        failures = _failures_in_a_row(locked) + 1
        locked.note("task_failed", task=task.id, worker=task.executor, count=failures, error=error)
        if failures >= most:
            close_conversation(locked, "failed")
            return
        pause = rules.repair_backoff(failures, longest_pause)
        # Nobody's, so that the repair pass finds it although this worker lives.
        locked.change(
            task_owner=None,
            task_claim=None,
            task_enqueued_at=locked.now,
            task_retry_at=locked.now + pause,
        )


def _failures_in_a_row(locked: Locked) -> int:
    event = tables.history.c
    here = event.conversation_id == locked.state.id
    newest = select(func.max(event.number)).where(here, event.type.in_(_PROGRESS)).scalar_subquery()
    query = select(func.count()).where(here, event.type == "task_failed", event.number > newest)
    return int(locked.connection.execute(query).scalar_one())
