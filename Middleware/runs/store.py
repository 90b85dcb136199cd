"""One file of runs: what is written into it, and how it is read."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from Middleware.runs.migrations import MIGRATIONS
from Middleware.runs.rows import (
    CUT_STEPS,
    ENTRY,
    Row,
    called,
    first_number,
    write_runs,
    write_steps,
)
from Middleware.storage.sqlite import (
    REFUSALS,
    DatabaseDamaged,
    RowRefused,
    migrate,
    open_database,
    translated,
)

FILE = "runs.sqlite"
_READER_WAITS_SECONDS = 5.0
_ROWS_AT_ONCE = 16


@dataclass(slots=True)
class Rows:
    """What is written in one transaction."""

    runs: list[Row] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)
    cuts: list[tuple[int, int]] = field(default_factory=list)
    """Of a run, the position from which on its steps are written anew."""
    bytes: int = 0
    """About how much memory all this takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which runs are listed, newest first. Without ``workflow`` only those that no other run has
    started."""

    workflow: str | None = None
    """``assistant``, ``folder/name``, or the name of a file."""
    status: str | None = None
    session: str | None = None
    """Of a coding agent."""
    since: float | None = None
    """Seconds since 1970."""
    limit: int = 50
    before: int | None = None
    """A run's number."""
    owners: tuple[str, ...] | None = None
    """Whose; None is everybody's."""


class StoredStep(NamedTuple):
    started_at: float | None
    """Seconds since 1970."""
    model: str | None
    step: dict[str, Any]
    """As ``to_dict()`` gave it."""


class Store:
    """Not safe for several threads at once: the one that writes has one, and readers others."""

    def __init__(self, path: Path, *, wait_seconds: float = _READER_WAITS_SECONDS) -> None:
        """``wait_seconds``: for how long another writer is waited for."""
        self.path = path
        self._wait_seconds = wait_seconds
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def open(self) -> sqlite3.Connection:
        """The connection, made anew when somebody has taken the file away.

        Raises DatabaseBusy and DatabaseUnavailable. A file that is no database is kept under
        another name, and a new one begun.
        """
        if self._connection is not None and self._file == _identity(self.path):
            return self._connection
        self.close()
        try:
            self._connection = self._connect()
        except DatabaseDamaged:
            self._put_aside()
            self._connection = self._connect()
        self._file = _identity(self.path)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with translated():
                connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing. Raises DatabaseBusy and DatabaseUnavailable; after DatabaseDamaged the
        next one finds a new file."""
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

    def write(self, rows: Rows) -> int:
        """How many rows the database refused; all others are in it, or none when this raises."""
        try:
            with self.transaction() as connection:
                connection.executemany(CUT_STEPS, rows.cuts)
                _write_many(connection, write_runs, rows.runs)
                _write_many(connection, write_steps, rows.steps)
        except RowRefused:
            return self._write_one_by_one(rows)
        return 0

    def _connect(self) -> sqlite3.Connection:
        return open_database(self.path, MIGRATIONS, wait_seconds=self._wait_seconds)

    def _write_one_by_one(self, rows: Rows) -> int:
        parts: tuple[tuple[str, Sequence[Row]], ...] = (
            (CUT_STEPS, rows.cuts),
            (write_runs(1), rows.runs),
            (write_steps(1), rows.steps),
        )
        refused = 0
        with self.transaction() as connection:
            for statement, values in parts:
                for row in values:
                    try:
                        connection.execute(statement, row)
                    except REFUSALS:
                        refused += 1
        return refused

    def _put_aside(self) -> None:
        with translated():
            for suffix in ("", "-wal", "-shm"):
                file = self.path.with_name(self.path.name + suffix)
                if file.exists():
                    file.replace(file.with_name(f"{file.name}.damaged"))


class Reader:
    """One look into a file of runs. A file that is not there is an empty one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        connection.row_factory = sqlite3.Row
        self._connection = connection

    def newest(self, query: Query) -> list[Mapping[str, Any]]:
        owners = query.owners if query.owners is not None else (None,)
        found: list[Mapping[str, Any]] = []
        for owner in owners:
            # One after the other, so that each is read in the order of its index.
            found.extend(self._newest(query, owner))
        return sorted(found, key=lambda row: -int(row["number"]))[: query.limit]

    def _newest(self, query: Query, owner: str | None) -> Sequence[Mapping[str, Any]]:
        conditions: list[tuple[str, Any]] = [
            ("owner = ?", owner),
            (_status_condition(query.status), query.status),
            ("session = ?", query.session),
            ("number >= ?", None if query.since is None else first_number(query.since)),
            ("number < ?", query.before),
        ]
        given = [(text, value) for text, value in conditions if value is not None]
        if query.workflow is None:
            texts, values = _STARTED_BY_NO_RUN
        else:
            texts, values = _of_workflow(query.workflow)
        where = " AND ".join((*texts, *(text for text, _ in given)))
        return self._connection.execute(
            f"SELECT {LISTED} FROM runs WHERE {where} ORDER BY number DESC LIMIT ?",
            (*values, *(value for _, value in given), query.limit),
        ).fetchall()

    def find(self, run_id: str) -> Mapping[str, Any] | None:
        found = self._connection.execute("SELECT * FROM runs WHERE id = ?", (run_id,))
        row: Mapping[str, Any] | None = found.fetchone()
        return row

    def ids_like(self, beginning: str) -> list[str]:
        """Up to two ids that begin like that, the newest first."""
        found = self._connection.execute(
            "SELECT id FROM runs WHERE id >= ? AND id < ? LIMIT 2",
            (beginning, f"{beginning}\U0010ffff"),
        )
        return [str(row[0]) for row in found]

    def tree(self, user: str, root: int) -> list[Mapping[str, Any]]:
        """All runs of a tree, parents before their children."""
        return self._connection.execute(
            "SELECT * FROM runs WHERE user = ? AND root = ? ORDER BY number", (user, root)
        ).fetchall()

    def steps(self, run: Mapping[str, Any]) -> list[StoredStep]:
        """Of a row of a run."""
        if run["steps"] is not None:
            return [StoredStep(*one) for one in json.loads(run["steps"])]
        rows = self._connection.execute(
            "SELECT started_at, model, body FROM steps WHERE run = ? ORDER BY position",
            (run["number"],),
        )
        return [StoredStep(row[0], row[1], json.loads(row[2])) for row in rows]


_Conditions = tuple[list[str], list[str]]
"""And their values."""

_STARTED_BY_NO_RUN: _Conditions = (["parent_id IS NULL"], [])


def _status_condition(status: str | None) -> str:
    """So that the index is found, which leaves the usual out."""
    return "status = ?" if status == "succeeded" else "status = ? AND status <> 'succeeded'"


def _of_workflow(given: str) -> _Conditions:
    """The name alone finds runs by an index."""
    folder, _, name = given.rpartition("/")
    if folder:
        name = called(name, folder)
        return ["name = ?", "(folder = ? OR folder = ?)"], [name, folder, given]
    # What is in every folder is not found by its name.
    return ["workflow = ?" if given == ENTRY else "name = ?"], [given]


LISTED = (
    "number, id, parent_id, workflow, folder, door, user, status, started_at, duration_ms,"
    " prompt_tokens, completion_tokens, estimated, cost, error, session"
)


def _write_many(
    connection: sqlite3.Connection, statement: Callable[[int], str], rows: Sequence[Row]
) -> None:
    """Several rows in one statement: for each statement the interpreter is given away and has to
    be waited for again, and so have those who answer clients meanwhile.
    """
    end = len(rows) - len(rows) % _ROWS_AT_ONCE
    for start in range(0, end, _ROWS_AT_ONCE):
        values = tuple(chain.from_iterable(rows[start : start + _ROWS_AT_ONCE]))
        connection.execute(statement(_ROWS_AT_ONCE), values)
    connection.executemany(statement(1), rows[end:])


@contextmanager
def reading(path: Path) -> Iterator[Reader | None]:
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
            yield Reader(connection)
        finally:
            connection.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
