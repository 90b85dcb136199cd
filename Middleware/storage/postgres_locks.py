"""Locks that workflows take, where several servers share a PostgreSQL (decisions §8).

As in SQLite a lock is a row that runs out unless it is renewed. Times are the database's, so that
servers whose clocks differ agree, and which servers live it knows as well.
"""

import threading
from collections.abc import Hashable, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Final

from Middleware.core.clock import Clock
from Middleware.storage.locks import LEASE, RENEW_SECONDS, WorkflowLocks
from Middleware.storage.places import PostgresTables
from Middleware.storage.postgres import Postgres, PostgresAlive, PostgresConnection
from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable

_TABLES: Final = PostgresTables(
    "locks",
    (
        (
            """
            CREATE TABLE workflow_locks (
                owner text NOT NULL,
                name text NOT NULL,
                session text NOT NULL,
                run text NOT NULL,
                expires_at timestamptz NOT NULL,
                PRIMARY KEY (owner, name)
            )
            """,
        ),
    ),
)
_TAKE: Final = """
    INSERT INTO workflow_locks AS held (owner, name, session, run, expires_at)
    VALUES (?, ?, ?, ?, clock_timestamp() + ?)
    ON CONFLICT (owner, name) DO UPDATE
    SET session = EXCLUDED.session, run = EXCLUDED.run, expires_at = EXCLUDED.expires_at
    WHERE held.expires_at <= clock_timestamp()
    RETURNING 1
"""
_RELEASE: Final = "DELETE FROM workflow_locks WHERE owner = ? AND session = ? AND run = ?"
_RENEW: Final = """
    UPDATE workflow_locks SET expires_at = clock_timestamp() + ?
    WHERE owner = ? AND session = ? AND run = ?
"""
_SESSIONS: Final = "SELECT DISTINCT session FROM workflow_locks WHERE session <> ?"
_FORGET: Final = "DELETE FROM workflow_locks WHERE session = ?"


class PostgresLocks(WorkflowLocks):
    """The place of a lock is the name of its user."""

    shared = True

    def __init__(
        self,
        database: Postgres,
        clock: Clock | None = None,
        *,
        renew_seconds: float = RENEW_SECONDS,
        wait_seconds: float = 5.0,
    ) -> None:
        """``wait_seconds``: how long another process may keep the table."""
        super().__init__(clock, renew_seconds=renew_seconds)
        self._database = database
        self._wait_seconds = wait_seconds
        self._opening = threading.Lock()
        self._alive: PostgresAlive | None = None

    def clean_up(self, places: Iterable[Hashable]) -> None:
        with suppress(DatabaseBusy, DatabaseUnavailable):
            alive = self._live()
            with self._transaction() as rows:
                for (session,) in rows.execute(_SESSIONS, (self.session,)).fetchall():
                    if not alive.lives(session):
                        rows.execute(_FORGET, (session,))

    def _take(self, place: Hashable, name: str, run: str) -> bool:
        # Before the first row says that we hold something.
        self._live()
        with self._transaction() as rows:
            values = (place, _plain(name), self.session, run, LEASE)
            return rows.execute(_TAKE, values).fetchone() is not None

    def _drop(self, place: Hashable, run: str) -> None:
        with self._transaction() as rows:
            rows.execute(_RELEASE, (place, self.session, run))

    def _extend(self, place: Hashable, run: str) -> None:
        with self._opening:
            # After the end nothing is opened again, and the end waits for this.
            if self._alive is None:
                return
            self._alive.renew()
            with self._transaction() as rows:
                rows.execute(_RENEW, (LEASE, place, self.session, run))

    def _leave(self) -> None:
        with self._opening:
            if self._alive is not None:
                self._alive.close()
                self._alive = None

    def _live(self) -> PostgresAlive:
        """Say that we live; once more if the connection that says so was lost."""
        with self._opening:
            if self._alive is None:
                self._alive = self._database.alive(self.session)
            else:
                self._alive.renew()
            return self._alive

    def _transaction(self) -> AbstractContextManager[PostgresConnection]:
        return self._database.transaction(_TABLES, wait_seconds=self._wait_seconds)


def _plain(name: str) -> str:
    """A text of the database may not hold everything that a file can."""
    return name.encode("unicode_escape").decode("ascii")
