"""PostgreSQL: one kept connection of a process. Foreign errors become ours here.

Imported only by what needs it: a server on SQLite does not load the driver.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg

from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable, RowRefused
from Middleware.storage.urls import postgres_url

Connection = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

_WAITS = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.QueryCanceled,
    psycopg.errors.DeadlockDetected,
)


@contextmanager
def translated() -> Iterator[None]:
    """Errors of PostgreSQL as ours; their texts name no password."""
    try:
        yield
    except _WAITS as error:
        raise DatabaseBusy from error
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise RowRefused(str(error)) from error
    except psycopg.Error as error:
        raise DatabaseUnavailable(str(error)) from error


class KeptConnection:
    """A connection that is opened when it is needed, and again when it was lost. One user at a
    time; safe to use from any thread."""

    def __init__(
        self, url: str, prepare: Callable[[Connection], None], *, wait_seconds: float = 5.0
    ) -> None:
        """``prepare`` is called with each new connection: for tables, and what is bound to it.
        ``wait_seconds``: how long a statement, or connecting, may take."""
        self._url = postgres_url(url)
        self._prepare = prepare
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def run(self, work: Callable[[Connection], T]) -> T:
        """``work`` in a transaction of its own; once more if the connection had been lost.

        Raises DatabaseBusy and DatabaseUnavailable.
        """
        with self._lock, translated():
            kept = self._connection is not None
            try:
                return self._attempt(work)
            except psycopg.OperationalError:
                # A new one is of no use when it was new already, or when the database answers.
                if not kept or self._connection is not None:
                    raise
                return self._attempt(work)

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _attempt(self, work: Callable[[Connection], T]) -> T:
        connection = self._connection or self._open()
        try:
            with connection.transaction():
                return work(connection)
        finally:
            if connection.broken or connection.closed:
                self._drop()

    def _open(self) -> Connection:
        milliseconds = int(self._wait_seconds * 1000)
        connection = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=max(2, int(self._wait_seconds)),
            application_name="headrace",
            options=f"-c statement_timeout={milliseconds}",
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None
