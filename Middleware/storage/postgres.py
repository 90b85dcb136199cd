"""PostgreSQL with a pool of connections. Foreign errors become ours here.

Statements are the same as for SQLite, with ``?`` where a value goes, so that each stands once in
this program. Our tables are in a schema of their own, beside those of the durable engine. Imported
only by what needs it: a server on SQLite does not load the driver.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final
from zlib import crc32

import psycopg
from psycopg.rows import dict_row, tuple_row
from sqlalchemy import create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from Middleware.core.errors import ConfigError
from Middleware.storage.places import PostgresTables
from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable, RowRefused
from Middleware.storage.urls import postgres_url

_SCHEMA: Final = "headrace"
_CONNECTIONS: Final = 5
_CONNECTIONS_WHEN_BUSY: Final = 15
_WAIT_SECONDS: Final = 5.0
_CHANGES: Final = 0x68726368
_LIVES: Final = 0x68726C76
"""Classes of advisory locks: any numbers, as long as they are always the same ones."""
_KEEP_ALIVE: Final = (
    "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
)
"""A machine that vanishes says no goodbye: its locks are to go soon, not after two hours."""

_WAITS = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.QueryCanceled,
    psycopg.errors.DeadlockDetected,
)


class PostgresConnection:
    """One transaction, with the methods of a connection of SQLite that are used here."""

    def __init__(self, connection: Any, *, named: bool) -> None:
        """``named``: rows are mappings instead of tuples."""
        self._connection = connection
        self._rows = dict_row if named else tuple_row

    def execute(self, statement: str, values: Iterable[Any] = (), /) -> Any:
        with _translated():
            cursor = self._connection.cursor(row_factory=self._rows)
            return cursor.execute(_theirs(statement), _storable(values))

    def executemany(self, statement: str, rows: Iterable[Iterable[Any]], /) -> Any:
        all_values = [_storable(values) for values in rows]
        if not all_values:
            return None
        with _translated():
            cursor = self._connection.cursor(row_factory=self._rows)
            return cursor.executemany(_theirs(statement), all_values)


class Postgres:
    """One database, used by any thread. Nothing is opened before the first transaction."""

    def __init__(self, url: str) -> None:
        """``postgresql://…``. Raises ConfigError."""
        try:
            parsed = make_url(postgres_url(url)).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError) as error:
            raise ConfigError(
                "The database is named like `postgresql://host/name`.", detail=str(error)
            ) from error
        self._engine = create_engine(
            parsed,
            pool_size=_CONNECTIONS,
            max_overflow=_CONNECTIONS_WHEN_BUSY - _CONNECTIONS,
            pool_timeout=_WAIT_SECONDS,
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": int(_WAIT_SECONDS),
                "options": _KEEP_ALIVE,
                "application_name": "headrace",
            },
        )
        event.listen(self._engine, "connect", _use_our_schema)
        self._prepared: set[str] = set()
        self._guard = threading.Lock()

    def require(self) -> None:
        """Raises ConfigError where nobody answers, or there is no such database."""
        try:
            with self._begin(_WAIT_SECONDS):
                pass
        except (DatabaseUnavailable, DatabaseBusy) as error:
            name = self._engine.url.database or ""
            raise ConfigError(
                f"The database of --database cannot be used: {' '.join(str(error).split())}.",
                remedy=f"Start PostgreSQL, or make the database with `createdb {name}`.",
            ) from error

    @contextmanager
    def transaction(
        self,
        tables: PostgresTables,
        *,
        named: bool = False,
        alone: bool = False,
        one_view: bool = False,
        wait_seconds: float = _WAIT_SECONDS,
    ) -> Iterator[PostgresConnection]:
        """All or nothing. ``alone``: no other such transaction changes these tables meanwhile;
        ``one_view``: everything is read as it was at the beginning, and nothing is written.

        Raises DatabaseBusy and DatabaseUnavailable.
        """
        self._prepare(tables)
        with self._begin(wait_seconds, one_view=one_view) as raw:
            connection = PostgresConnection(raw, named=named)
            if alone:
                connection.execute(_LOCK_CHANGES, (_CHANGES, _number(tables.name)))
            yield connection

    def detached(self) -> Any:
        """A connection of its own, in which every statement counts at once."""
        with _translated():
            raw = self._engine.raw_connection()
            connection = raw.driver_connection
            assert connection is not None
            raw.detach()
            connection.autocommit = True
            return connection

    def alive(self, session: str) -> "PostgresAlive":
        """Say that this process lives. Raises DatabaseUnavailable."""
        return PostgresAlive(self, session)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _begin(self, wait_seconds: float, *, one_view: bool = False) -> Iterator[Any]:
        with _translated():
            raw = self._engine.raw_connection()
        try:
            with _translated():
                connection = raw.driver_connection
                assert connection is not None
                if one_view:
                    # Before anything else: afterwards it is refused.
                    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                limit = f"{max(1, int(wait_seconds * 1000))}ms"
                connection.execute("SELECT set_config('lock_timeout', %s, true)", (limit,))
                yield connection
                connection.commit()
        finally:
            # What was not committed is rolled back on the way into the pool.
            raw.close()

    def _prepare(self, tables: PostgresTables) -> None:
        """Bring the tables up to date, once a process. Several processes may do so at once."""
        with self._guard:
            if tables.name in self._prepared:
                return
            with self._begin(_WAIT_SECONDS) as raw:
                connection = PostgresConnection(raw, named=False)
                connection.execute(_LOCK_CHANGES, (_CHANGES, 0))
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}")
                connection.execute(_VERSIONS)
                _change(connection, tables)
            self._prepared.add(tables.name)


class PostgresAlive:
    """As :class:`~Middleware.storage.alive.Alive`, for servers on several machines: each holds a
    lock of the database as long as its connection lives, and the database lets go of it."""

    def __init__(self, database: Postgres, session: str) -> None:
        """Raises DatabaseUnavailable."""
        self._database = database
        self._session = session
        self._guard = threading.Lock()
        self._connection = self._hold()

    def lives(self, session: str) -> bool:
        """Raises DatabaseUnavailable."""
        with self._guard:
            row = self._ask(_IS_HELD, (_LIVES, _number(session)))
        return row is not None

    def renew(self) -> None:
        """Say again that this process lives, if the database was gone meanwhile."""
        with self._guard:
            self._ask("SELECT 1", ())

    def close(self) -> None:
        with self._guard:
            self._connection.close()

    def _ask(self, statement: str, values: Sequence[Any]) -> Any:
        with _translated():
            try:
                return self._connection.execute(statement, values).fetchone()
            except psycopg.OperationalError:
                self._connection.close()
        self._connection = self._hold()
        with _translated():
            return self._connection.execute(statement, values).fetchone()

    def _hold(self) -> Any:
        connection = self._database.detached()
        with _translated():
            connection.execute(
                "SELECT pg_advisory_lock_shared(%s, %s)", (_LIVES, _number(self._session))
            )
        return connection


_IS_HELD: Final = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid::bigint = %s AND objid::bigint = %s LIMIT 1"
)
_LOCK_CHANGES: Final = "SELECT pg_advisory_xact_lock(?, ?)"
_VERSIONS: Final = (
    "CREATE TABLE IF NOT EXISTS versions (name TEXT PRIMARY KEY, version INTEGER NOT NULL)"
)


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of the driver and of the pool as ours; their texts name no password."""
    try:
        yield
    except _WAITS as error:
        raise DatabaseBusy from error
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise RowRefused(str(error)) from error
    except psycopg.Error as error:
        raise DatabaseUnavailable(str(error)) from error
    except UnicodeEncodeError as error:
        raise RowRefused(str(error)) from error
    except PoolTimeout as error:
        raise DatabaseBusy(str(error)) from error
    except SQLAlchemyError as error:
        raise DatabaseUnavailable(str(error)) from error


def _change(connection: PostgresConnection, tables: PostgresTables) -> None:
    found = connection.execute("SELECT version FROM versions WHERE name = ?", (tables.name,))
    row = found.fetchone()
    done = int(row[0]) if row else 0
    if done > len(tables.changes):
        raise DatabaseUnavailable("it was written by a newer version of this program")
    for change in tables.changes[done:]:
        for statement in change:
            connection.execute(statement)
    connection.execute(
        "INSERT INTO versions VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET version = excluded.version",
        (tables.name, len(tables.changes)),
    )


def _use_our_schema(connection: Any, record: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET search_path TO {_SCHEMA}")
    connection.commit()


@cache
def _theirs(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")


def _storable(values: Iterable[Any]) -> list[Any]:
    """PostgreSQL knows no text with a null in it."""
    return [
        value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value
        for value in values
    ]


def _number(name: str) -> int:
    """Of a name, as a lock of the database wants it."""
    return crc32(name.encode()) & 0x7FFFFFFF
