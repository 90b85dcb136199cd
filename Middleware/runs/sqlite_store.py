"""Runs in a file of SQLite: the usual place."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from Middleware.runs.migrations import MIGRATIONS
from Middleware.runs.reader import Reader
from Middleware.runs.store import Store
from Middleware.storage.sqlite import (
    DatabaseDamaged,
    identity_of,
    migrate,
    open_database,
    translated,
)

FILE = "runs.sqlite"
_READER_WAITS_SECONDS = 5.0
_PAGES_GIVEN_BACK = 2000
_PAGES_KEPT = 250


class SqliteStore(Store):
    """One file. It is made when something is written for the first time."""

    def __init__(self, path: Path, *, wait_seconds: float = _READER_WAITS_SECONDS) -> None:
        """``wait_seconds``: for how long another writer is waited for."""
        self.place: Path = path
        self._wait_seconds = wait_seconds
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def open(self) -> sqlite3.Connection:
        """The connection, made anew when somebody has taken the file away.

        Raises DatabaseBusy and DatabaseUnavailable. A file that is no database is kept under
        another name, and a new one begun.
        """
        if self._connection is not None and self._file == identity_of(self.place):
            return self._connection
        self.close()
        try:
            self._connection = self._connect()
        except DatabaseDamaged:
            self._put_aside()
            self._connection = self._connect()
        self._file = identity_of(self.place)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with translated():
                connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """After DatabaseDamaged the next one finds a new file."""
        connection = self.open()
        try:
            with translated():
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    # A full disk may have rolled it back already.
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
        except DatabaseDamaged:
            self.close()
            self._put_aside()
            raise

    @contextmanager
    def looking(self) -> Iterator[sqlite3.Connection]:
        with translated():
            yield self.open()

    def give_back(self) -> None:
        """Make the file smaller by pages that are not used any more, if they are so many that
        the next runs will not need them soon."""
        with self.looking() as connection:
            unused, pages = (
                int(connection.execute(f"PRAGMA {what}").fetchone()[0])
                for what in ("freelist_count", "page_count")
            )
            if unused < _PAGES_KEPT or unused * 4 < pages:
                return
            # As a script, because as a statement it is not carried on to its end.
            connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_GIVEN_BACK})")

    def _connect(self) -> sqlite3.Connection:
        return open_database(self.place, MIGRATIONS, wait_seconds=self._wait_seconds)

    def _put_aside(self) -> None:
        with translated():
            for suffix in ("", "-wal", "-shm"):
                file = self.place.with_name(self.place.name + suffix)
                if file.exists():
                    file.replace(file.with_name(f"{file.name}.damaged"))


@contextmanager
def reading_file(path: Path) -> Iterator[Reader | None]:
    """None when there is no such file. Raises DatabaseBusy and DatabaseUnavailable."""
    if not path.is_file():
        yield None
        return
    with translated():
        connection = sqlite3.connect(path, timeout=_READER_WAITS_SECONDS, isolation_level=None)
        try:
            migrate(connection, MIGRATIONS)
            connection.execute("PRAGMA query_only = ON")
            # One view of the whole, whatever is written meanwhile.
            connection.execute("BEGIN")
            connection.row_factory = sqlite3.Row
            yield Reader(connection)
        finally:
            connection.close()
