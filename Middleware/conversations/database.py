"""One database for our tables and the engine's: SQLite in a file, or PostgreSQL."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Table,
    create_engine,
    event,
    func,
    insert,
    literal,
    literal_column,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from Middleware.conversations import tables
from Middleware.conversations.migrations import Migration, migrate
from Middleware.conversations.models import (
    Options,
    Phase,
    State,
    StorageUnavailable,
    UnreadableConversation,
)
from Middleware.core.errors import ConfigError
from Middleware.storage.sqlite import identity_of

CONNECTIONS = 20
_MIGRATION_LOCK = 0x48656164  # "Head": any number, as long as it is always the same one

_STATE_FIELDS = tuple(item.name for item in fields(State))


class Locked:
    """A conversation under its lock, inside one transaction.

    Changes are gathered and written once, when the transaction ends; ``connection`` is for the
    other tables.
    """

    def __init__(self, connection: Connection, state: State, now: float) -> None:
        self.connection = connection
        self.state = state
        self.now = now
        self._changed: dict[str, Any] = {}
        self._events: list[dict[str, Any]] = []

    def change(self, **values: Any) -> None:
        self.state = replace(self.state, **values)
        self._changed.update(values)

    def enter(self, phase: Phase) -> None:
        """Change the phase; every change is in the history (STAT-1)."""
        if phase != self.state.phase:
            self.note("phase_changed", phase=phase)
            self.change(phase=phase)

    def note(self, type_: str, **data: Any) -> None:
        """Add an event to the history of the current run."""
        self._events.append(
            {
                "conversation_id": self.state.id,
                "number": self.state.next_event,
                "run_id": self.state.run_id,
                "type": type_,
                "data": json.dumps(data, ensure_ascii=False),
                "at": self.now,
            }
        )
        self.change(next_event=self.state.next_event + 1)

    def insert_new(self, table: Table, values: Mapping[str, Any]) -> bool:
        """See :func:`insert_new`."""
        return insert_new(self.connection, table, values)

    def write(self) -> None:
        if self._events:
            self.connection.execute(insert(tables.history), self._events)
        if self._changed:
            values = {**self._changed, "updated_at": self.now}
            if "cancel_requested" in values:
                values["cancel_requested"] = int(values["cancel_requested"])
            row = tables.conversations
            self.connection.execute(update(row).where(row.c.id == self.state.id).values(values))


class Database:
    """Transactions and what differs between the two databases."""

    def __init__(self, url: str, clock: Callable[[], float] | None = None) -> None:
        """``url`` is ``sqlite:///path`` or ``postgresql://…``. ``clock`` replaces the
        database's own, in tests."""
        self.engine = _engine(url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self._clock = clock
        self._identity: tuple[int, int] | None = None

    @property
    def file(self) -> Path | None:
        """The file of an SQLite database."""
        name = self.engine.url.database
        return Path(name) if self.is_sqlite and name and name != ":memory:" else None

    def migrate(self, migrations: tuple[Migration, ...] = ()) -> int:
        """Create or update the tables; several processes may do so at once."""
        with self.transaction() as connection:
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.execute(select(func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            return migrate(connection, self.now(connection), migrations)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Raises StorageUnavailable when the database is not there, or is broken or full."""
        self._be_sure_of_the_file()
        with reaching_it(), self.engine.begin() as connection:
            yield connection

    def _be_sure_of_the_file(self) -> None:
        """Connections that are open would go on in a file that was removed, and lose everything
        that is accepted.
        """
        if self.file is None:
            return
        found = identity_of(self.file)
        if self._identity is None:
            self._identity = found
        elif found != self._identity:
            raise StorageUnavailable(
                detail=f"{self.file} was removed or replaced while it was in use: start again"
            )

    def now(self, connection: Connection) -> float:
        """The database's clock, so that workers on several machines agree (LEASE-2)."""
        if self._clock is not None:
            return self._clock()
        if self.is_sqlite:
            return time.time()
        return float(connection.execute(select(_PG_NOW)).scalar_one())

    @contextmanager
    def locked(self, conversation_id: str) -> Iterator[Locked | None]:
        """One transaction that holds the conversation's row; None when there is no such one."""
        with self.transaction() as connection:
            locked = self.lock(connection, conversation_id)
            yield locked
            if locked is not None:
                locked.write()

    def lock(self, connection: Connection, conversation_id: str) -> Locked | None:
        """The same inside a transaction of the caller, who also calls ``write``."""
        row = tables.conversations
        if self.is_sqlite:
            # The first write of a transaction takes the one write lock there is.
            mine = update(row).where(row.c.id == conversation_id).values(id=row.c.id)
            connection.execute(mine)
            found = connection.execute(select(row).where(row.c.id == conversation_id))
            now = self.now(connection)
        else:
            query = select(row, _PG_NOW.label("now")).where(row.c.id == conversation_id)
            found = connection.execute(query.with_for_update())
        values = found.mappings().first()
        if values is None:
            return None
        if not self.is_sqlite:
            now = self._clock() if self._clock is not None else float(values["now"])
        return Locked(connection, state_of(values), now)

    def has_waiting_task(self) -> bool:
        """Whether a task waits for a worker; asked often, so it costs little. False when the
        database does not answer.
        """
        try:
            with self.transaction() as connection:
                return connection.exec_driver_sql(tables.WAITING_TASK).first() is not None
        except StorageUnavailable:
            return False

    def close(self) -> None:
        self.engine.dispose()


@contextmanager
def reaching_it() -> Iterator[None]:
    """What a database says that is not there, broken or full becomes StorageUnavailable. A
    decorator as well, for calls that the engine's library makes of itself.
    """
    try:
        yield
    except PoolTimeout as error:
        raise StorageUnavailable(detail=str(error)) from error
    except DBAPIError as error:
        if not _is_of_the_database(error):
            raise
        raise StorageUnavailable(detail=str(error.orig)) from error


def _is_of_the_database(error: DBAPIError) -> bool:
    """Whether another request of ours could not do better just now."""
    if isinstance(error, OperationalError) or error.connection_invalidated:
        return True
    # SQLite says of a damaged file only that there is an error: its kind is the plainest of all.
    return type(error.orig) is sqlite3.DatabaseError


def insert_new(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless its key is taken; whether it was inserted."""
    statement = upsert(connection, table).values(dict(values)).on_conflict_do_nothing()
    # Not the count of rows: drivers do not agree on what it is here.
    return connection.execute(statement.returning(literal(1))).first() is not None


def upsert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An insert that can say what happens when the key is taken."""
    dialect = connection.dialect.name
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


_PG_NOW: ColumnElement[float] = literal_column("extract(epoch from clock_timestamp())::float8")


def state_of(row: Mapping[Any, Any]) -> State:
    """Raises UnreadableConversation."""
    values = {name: row[name] for name in _STATE_FIELDS}
    try:
        values["options"] = Options(**json.loads(values["options"]))
    except (ValueError, TypeError) as error:
        raise UnreadableConversation(row["id"], f"`options`: {error}") from error
    if values["phase"] not in get_args(Phase):
        raise UnreadableConversation(row["id"], f"there is no `phase` {values['phase']!r}")
    values["cancel_requested"] = bool(values["cancel_requested"])
    return State(**values)


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(
            "The database is named like `sqlite:///file` or `postgresql://host/name`.",
            detail=str(error),
        ) from error
    name = parsed.get_backend_name()
    if name == "sqlite":
        engine = create_engine(parsed, pool_size=CONNECTIONS, max_overflow=0)
        event.listen(engine, "connect", _prepare_sqlite)
        return engine
    if name == "postgresql":
        return create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_size=CONNECTIONS,
            max_overflow=0,
            pool_pre_ping=True,
            connect_args={"connect_timeout": 10},
        )
    raise ConfigError(
        f"There is no support for {name!r} databases.",
        remedy="Use `sqlite:///file` or `postgresql://host/name`.",
    )


def _prepare_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = "IMMEDIATE"
    connection.execute("PRAGMA busy_timeout=30000")
    connection.execute("PRAGMA journal_mode=WAL")
    # An accepted signal survives a power cut, not only the death of the process.
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    if sqlite3.sqlite_version_info < _KNOWS_SUBSECONDS:
        connection.create_function("unixepoch", 1, _unixepoch)


_KNOWS_SUBSECONDS = (3, 42)


def _unixepoch(what: str) -> float:
    """The engine takes for granted that a Python of 3.12 or later brings a newer SQLite, which
    has this function with `subsec`. One that was built on an older system does not."""
    if what != "subsec":
        raise ValueError(f"unixepoch({what!r}) is not expected here")
    return time.time()


def ping(database: Database) -> None:
    """Raises StorageUnavailable when the database does not answer."""
    with database.transaction() as connection:
        connection.execute(text("SELECT 1"))
