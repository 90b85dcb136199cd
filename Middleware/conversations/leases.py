"""Which executors are alive, and who does what only one may do (section 12).

All times are the database's; a lease counts while its end is strictly in the future.
"""

import os
import socket
import time

from sqlalchemy import Connection, delete, select, update

from Middleware.conversations import tables
from Middleware.conversations.database import Database, upsert


class Lease:
    """That of one executor: one start of one process."""

    def __init__(self, database: Database, executor: str, seconds: float) -> None:
        self._database = database
        self.executor = executor
        self.seconds = seconds

    def take(self) -> None:
        """Before the first task, and again after the lease was lost."""
        row = tables.executors
        with self._database.transaction() as connection:
            now = self._database.now(connection)
            values = {
                "id": self.executor,
                "about": f"{socket.gethostname()} pid {os.getpid()}",
                "started_at": now,
                "expires_at": now + self.seconds,
            }
            statement = upsert(connection, row).values(values)
            ends = {"expires_at": now + self.seconds}
            connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=ends))

    def renew(self) -> bool:
        """False when it was lost: it had ended before (LEASE-3)."""
        row = tables.executors
        with self._database.transaction() as connection:
            now = self._database.now(connection)
            mine = (row.c.id == self.executor) & (row.c.expires_at > now)
            ends = {"expires_at": now + self.seconds}
            return connection.execute(update(row).where(mine).values(ends)).rowcount > 0

    def give_up(self) -> None:
        """At an orderly end: others need not wait."""
        with self._database.transaction() as connection:
            mine = tables.executors.c.id == self.executor
            connection.execute(delete(tables.executors).where(mine))


def living(database: Database, connection: Connection) -> set[str]:
    """The executors whose leases count now."""
    row = tables.executors
    now = database.now(connection)
    return set(connection.execute(select(row.c.id).where(row.c.expires_at > now)).scalars())


def bury_all(database: Database) -> None:
    """End every lease: for who has proved to be the only process (REPAIR-7)."""
    with database.transaction() as connection:
        connection.execute(delete(tables.executors))


def forget_dead(database: Database, older_than_seconds: float) -> int:
    """Remove leases that ended long ago and own no task."""
    row, conversation = tables.executors, tables.conversations
    owners = select(conversation.c.task_owner).where(conversation.c.task_owner.is_not(None))
    with database.transaction() as connection:
        ended = row.c.expires_at < database.now(connection) - older_than_seconds
        statement = delete(row).where(ended & row.c.id.not_in(owners))
        return connection.execute(statement).rowcount


class Duty:
    """Work that one process at a time does, and not too often (REPAIR-3)."""

    def __init__(self, database: Database, name: str, holder: str) -> None:
        self._database = database
        self._name = name
        self._holder = holder
        self._not_before = 0.0

    def take(self, seconds: float, at_least_apart: float) -> bool:
        """Whether it falls to this process, for at most ``seconds``."""
        if time.monotonic() < self._not_before:
            return False
        row = tables.duties
        with self._database.transaction() as connection:
            now = self._database.now(connection)
            values = {"holder": self._holder, "expires_at": now + seconds}
            executor = tables.executors.c
            alive = select(executor.id).where(executor.expires_at > now)
            left = row.c.holder.is_(None) | row.c.holder.not_in(alive) | (row.c.expires_at <= now)
            # Done in times to come: the clock was set back since, and nobody is to wait for it.
            is_due = (row.c.done_at <= now - at_least_apart) | (row.c.done_at > now)
            free = left & is_due
            statement = (
                upsert(connection, row)
                .values(name=self._name, done_at=0.0, **values)
                .on_conflict_do_update(index_elements=["name"], set_=values, where=free)
                .returning(row.c.holder)
            )
            taken = connection.execute(statement).first() is not None
        if taken:
            # It is done now, by this process: nobody may do it again before.
            self._not_before = time.monotonic() + at_least_apart
        return taken

    def done(self) -> None:
        row = tables.duties
        with self._database.transaction() as connection:
            now = self._database.now(connection)
            mine = (row.c.name == self._name) & (row.c.holder == self._holder)
            values = {"holder": None, "expires_at": 0.0, "done_at": now}
            connection.execute(update(row).where(mine).values(values))
