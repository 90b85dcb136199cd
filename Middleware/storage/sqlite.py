"""SQLite: connections, transactions, numbered migrations. Foreign errors become ours here."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

Migration = Callable[[sqlite3.Connection], None]
"""One change of the tables. It may execute single statements, no scripts: those commit."""

_PRIVATE = 0o600


class DatabaseBusy(Exception):
    """Another process kept the database for too long."""


class DatabaseUnavailable(Exception):
    """The database cannot be used: no such folder, no rights, no database."""


class DatabaseDamaged(DatabaseUnavailable):
    """The file is no database, or not any more."""


class RowRefused(DatabaseUnavailable):
    """A value that the database does not take, or that its tables do not allow."""


REFUSALS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    OverflowError,
)


@contextmanager
def translated() -> Iterator[None]:
    """Errors of SQLite and of the file system as ours."""
    try:
        yield
    except REFUSALS as error:
        raise RowRefused(str(error)) from error
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise DatabaseBusy from error
        raise DatabaseUnavailable(str(error)) from error
    except sqlite3.DatabaseError as error:
        if type(error) is sqlite3.DatabaseError:
            raise DatabaseDamaged(str(error)) from error
        raise DatabaseUnavailable(str(error)) from error
    except (sqlite3.Error, OSError) as error:
        raise DatabaseUnavailable(str(error)) from error


def identity_of(path: Path) -> tuple[int, int] | None:
    """Which file a path stands for now; None when there is none. What is written to one that was
    removed or replaced meanwhile is lost, and SQLite does not mind.
    """
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


@contextmanager
def transaction(
    path: Path, schema: str = "", *, wait_seconds: float = 5.0
) -> Iterator[sqlite3.Connection]:
    """A connection inside one immediate write transaction, committed when the block ends well.

    Nothing is kept open between calls: these databases are used a few times a request at most.
    Raises DatabaseBusy and DatabaseUnavailable.
    """
    connection: sqlite3.Connection | None = None
    with translated():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=wait_seconds, isolation_level=None)
            connection.execute("BEGIN IMMEDIATE")
            if schema:
                connection.execute(schema)
            yield connection
            connection.execute("COMMIT")
        finally:
            if connection is not None:
                # Closing rolls back what was not committed.
                connection.close()


def open_database(
    path: Path, migrations: Sequence[Migration], *, wait_seconds: float
) -> sqlite3.Connection:
    """A connection to a database that one writes to all the time, its tables up to date.

    It may be used from any thread, by one at a time; transactions are the caller's. Readers do
    not wait for the writer, nor it for them. The file can be read by its owner alone. Raises
    DatabaseBusy and DatabaseUnavailable.
    """
    with translated():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Made by us, for its mode; the files that SQLite puts beside it get the same.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, _PRIVATE))
        connection = sqlite3.connect(
            path, timeout=wait_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            # Only counts while the file is empty: what is deleted later can be given back.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            # The last moments may be lost with the power, the database itself cannot.
            connection.execute("PRAGMA synchronous = NORMAL")
            migrate(connection, migrations)
        except BaseException:
            connection.close()
            raise
    return connection


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Bring the tables up to date. Several processes may do so at once.

    Raises DatabaseUnavailable for a database of a newer program.
    """
    if _version(connection) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = _version(connection)
        if done > len(migrations):
            raise DatabaseUnavailable("it was written by a newer version of this program")
        for migration in migrations[done:]:
            migration(connection)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
