"""What is removed in the course of time: finished engine records, leases of the dead, and, if the
owner wants, old replies and whole conversations.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from sqlalchemy import Connection, delete, select

from Middleware.conversations import tables
from Middleware.conversations.database import Database
from Middleware.conversations.leases import forget_dead
from Middleware.conversations.live_rows import forget_unwatched
from Middleware.conversations.settings import RetentionSettings

DAY = 86400.0
_MOST_BATCHES = 10
_OF_A_CONVERSATION = (
    tables.runs,
    tables.signals,
    tables.turns,
    tables.records,
    tables.actions,
    tables.history,
    tables.live,
    tables.refusals,
)


class FinishedTasks(Protocol):
    def forget_finished(self, before: str, limit: int) -> int: ...


class Retention:
    def __init__(
        self, database: Database, finished: FinishedTasks, settings: RetentionSettings
    ) -> None:
        self._database = database
        self._finished = finished
        self._settings = settings

    def run(self) -> None:
        """Remove what is due. A big backlog takes several passes, and each several transactions:
        neither the database nor the thread, which renews a lease, is busy with it for long.
        """
        settings = self._settings
        before = datetime.now(UTC) - timedelta(seconds=settings.engine_seconds)
        self._in_batches(lambda: self._finished.forget_finished(before.isoformat(), settings.batch))
        forget_dead(self._database, settings.engine_seconds)
        forget_unwatched(self._database)
        if settings.record_days is not None:
            record_age = settings.record_days * DAY
            self._in_batches(lambda: self._remove_records(record_age))
        if settings.conversation_days is not None:
            conversation_age = settings.conversation_days * DAY
            self._in_batches(lambda: self._remove_conversations(conversation_age))

    def _in_batches(self, remove: Callable[[], int]) -> None:
        for _ in range(_MOST_BATCHES):
            if remove() < self._settings.batch:
                return

    def _remove_records(self, age: float) -> int:
        record = tables.records.c
        with self._database.transaction() as connection:
            old = select(record.reference).where(
                record.created_at < self._database.now(connection) - age
            )
            found = connection.execute(old.limit(self._settings.batch)).scalars().all()
            connection.execute(delete(tables.records).where(record.reference.in_(found)))
        return len(found)

    def _remove_conversations(self, age: float) -> int:
        row = tables.conversations
        with self._database.transaction() as connection:
            old = select(row.c.id).where(
                row.c.phase == "completed",
                row.c.updated_at < self._database.now(connection) - age,
            )
            found = connection.execute(old.limit(self._settings.batch)).scalars().all()
            forget(connection, found)
        return len(found)


def forget(connection: Connection, ids: Sequence[str]) -> None:
    """Remove conversations with all that belongs to them."""
    for table in _OF_A_CONVERSATION:
        connection.execute(delete(table).where(table.c.conversation_id.in_(ids)))
    row = tables.conversations
    connection.execute(delete(row).where(row.c.id.in_(ids)))
