"""Locks that workflows take, where several servers share a PostgreSQL (decisions §8).

As in SQLite a lock is a row that runs out unless it is renewed. Times are the database's, so that
servers whose clocks differ agree. Which servers live, the database knows: each keeps a lock of
its own there (an advisory one) for as long as its connection lasts.
"""

from collections.abc import Hashable, Iterable
from contextlib import suppress
from typing import Final

from Middleware.core.clock import Clock
from Middleware.storage.locks import LEASE, RENEW_SECONDS, WorkflowLocks
from Middleware.storage.postgres import Connection, KeptConnection
from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable

_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS workflow_locks (
        owner text NOT NULL,
        name text NOT NULL,
        session text NOT NULL,
        run text NOT NULL,
        expires_at timestamptz NOT NULL,
        PRIMARY KEY (owner, name)
    )
"""
_ALONE: Final = "SELECT pg_advisory_xact_lock(hashtextextended('workflow_locks', 0))"
_LIVES: Final = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
_TAKE: Final = """
    INSERT INTO workflow_locks AS held (owner, name, session, run, expires_at)
    VALUES (%s, %s, %s, %s, clock_timestamp() + %s)
    ON CONFLICT (owner, name) DO UPDATE
    SET session = EXCLUDED.session, run = EXCLUDED.run, expires_at = EXCLUDED.expires_at
    WHERE held.expires_at <= clock_timestamp()
    RETURNING 1
"""
_RELEASE: Final = "DELETE FROM workflow_locks WHERE owner = %s AND session = %s AND run = %s"
_RENEW: Final = """
    UPDATE workflow_locks SET expires_at = clock_timestamp() + %s
    WHERE owner = %s AND session = %s AND run = %s
"""
_FORGET: Final = """
    DELETE FROM workflow_locks
    WHERE session <> %s AND pg_try_advisory_xact_lock(hashtextextended(session, 0))
"""


class PostgresLocks(WorkflowLocks):
    """The place of a lock is the name of its user."""

    shared = True

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        *,
        renew_seconds: float = RENEW_SECONDS,
        wait_seconds: float = 5.0,
    ) -> None:
        super().__init__(clock, renew_seconds=renew_seconds)
        self._database = KeptConnection(url, self._prepare, wait_seconds=wait_seconds)

    def clean_up(self, places: Iterable[Hashable]) -> None:
        with suppress(DatabaseBusy, DatabaseUnavailable):
            self._database.run(lambda rows: rows.execute(_FORGET, (self.session,)))

    def _prepare(self, connection: Connection) -> None:
        with connection.transaction():
            # Two that make the same table at the same time are an error otherwise.
            connection.execute(_ALONE)
            connection.execute(_TABLE)
        connection.execute(_LIVES, (self.session,))

    def _take(self, place: Hashable, name: str, run: str) -> bool:
        values = (place, _plain(name), self.session, run, LEASE)
        return self._database.run(lambda rows: rows.execute(_TAKE, values).fetchone() is not None)

    def _drop(self, place: Hashable, run: str) -> None:
        self._database.run(lambda rows: rows.execute(_RELEASE, (place, self.session, run)))

    def _extend(self, place: Hashable, run: str) -> None:
        self._database.run(lambda rows: rows.execute(_RENEW, (LEASE, place, self.session, run)))

    def _leave(self) -> None:
        self._database.close()


def _plain(name: str) -> str:
    """A text of the database may not hold everything that a file can."""
    return name.encode("unicode_escape").decode("ascii")
