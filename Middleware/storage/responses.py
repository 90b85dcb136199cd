"""Kept answers of ``/v1/responses``: one database, cleaned by age and number."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from Middleware.core.clock import Clock
from Middleware.storage.places import Connection, Place, PostgresTables, exists
from Middleware.storage.sqlite import identity_of, open_database, translated

_WAIT_SECONDS = 10.0
_CLEAN_EVERY = 100
"""Responses that are put between two clean-ups."""
_LONGEST_CHAIN = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResponse:
    """One response, and the input that led to it."""

    id: str
    scope: str
    """Whose it is; others cannot see it."""
    created_at: int
    """Seconds since 1970."""
    body: Mapping[str, Any]
    """The response object."""
    items: Sequence[Mapping[str, Any]] = ()
    """The input items of this request alone."""
    previous_id: str | None = None


def _create(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE responses (scope TEXT NOT NULL, id TEXT NOT NULL, created_at INTEGER "
        "NOT NULL, previous_id TEXT, body BLOB NOT NULL, items BLOB NOT NULL, "
        "PRIMARY KEY (scope, id)) WITHOUT ROWID"
    )
    connection.execute("CREATE INDEX responses_by_age ON responses (created_at)")


_POSTGRES = PostgresTables(
    "responses",
    (
        (
            "CREATE TABLE responses (scope TEXT NOT NULL, id TEXT NOT NULL, created_at BIGINT "
            "NOT NULL, previous_id TEXT, body BYTEA NOT NULL, items BYTEA NOT NULL, "
            "PRIMARY KEY (scope, id))",
            "CREATE INDEX responses_by_age ON responses (created_at)",
        ),
    ),
)
_PUT = (
    "INSERT INTO responses (scope, id, created_at, previous_id, body, items)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (scope, id) DO UPDATE SET"
    " created_at = excluded.created_at, previous_id = excluded.previous_id,"
    " body = excluded.body, items = excluded.items"
)


def _row(kept: KeptResponse) -> tuple[Any, ...]:
    return (
        kept.scope,
        kept.id,
        kept.created_at,
        kept.previous_id,
        orjson.dumps(kept.body),
        orjson.dumps(list(kept.items)),
    )


def _kept(scope: str, id: str, row: tuple[Any, ...]) -> KeptResponse:
    created_at, previous_id, body, items = row
    return KeptResponse(
        id=id,
        scope=scope,
        created_at=created_at,
        body=orjson.loads(body),
        items=orjson.loads(items),
        previous_id=previous_id,
    )


class ResponseStore:
    """One a server. The database is made when the first response is kept.

    All methods raise DatabaseBusy and DatabaseUnavailable.
    """

    def __init__(
        self, place: Place, clock: Clock, *, keep_days: float = 30, most: int = 10_000
    ) -> None:
        self.place = self._place = place
        self._clock = clock
        self._keep_seconds = keep_days * 86400
        self._most = most
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._until_clean = 0

    def put(self, kept: KeptResponse) -> None:
        """Keep a response, or put it in the place of what is kept under its id."""
        with self._use() as connection:
            connection.execute(_PUT, _row(kept))
            self._until_clean -= 1
            if self._until_clean < 0:
                self._until_clean = _CLEAN_EVERY
                self._clean(connection)

    def get(self, scope: str, id: str) -> KeptResponse | None:
        if self._connection is None and not exists(self._place):
            return None
        with self._use() as connection:
            row = connection.execute(
                "SELECT created_at, previous_id, body, items FROM responses "
                "WHERE scope = ? AND id = ? AND created_at >= ?",
                (scope, id, self._oldest()),
            ).fetchone()
        if row is None:
            return None
        return _kept(scope, id, row)

    def change(
        self, scope: str, id: str, change: Callable[[KeptResponse], KeptResponse]
    ) -> KeptResponse | None:
        """Put what ``change`` makes of a kept one in its place, while no other process changes it;
        None when there is none."""
        if self._connection is None and not exists(self._place):
            return None
        with self._use() as connection:
            if isinstance(self._place, Path):
                connection.execute("BEGIN IMMEDIATE")
            try:
                changed = self._changed(connection, scope, id, change)
            except BaseException:
                if isinstance(self._place, Path):
                    connection.execute("ROLLBACK")
                raise
            if isinstance(self._place, Path):
                connection.execute("COMMIT")
            return changed

    def _changed(
        self,
        connection: Connection,
        scope: str,
        id: str,
        change: Callable[[KeptResponse], KeptResponse],
    ) -> KeptResponse | None:
        # An update that changes nothing holds the row, on either database.
        mine = "UPDATE responses SET id = id WHERE scope = ? AND id = ? AND created_at >= ?"
        if not connection.execute(mine, (scope, id, self._oldest())).rowcount:
            return None
        row = connection.execute(
            "SELECT created_at, previous_id, body, items FROM responses WHERE scope = ? AND id = ?",
            (scope, id),
        ).fetchone()
        changed = change(_kept(scope, id, row))
        connection.execute(_PUT, _row(changed))
        return changed

    def chain(self, scope: str, id: str) -> list[KeptResponse]:
        """The response and those it goes on from, oldest first; empty when it is not kept. One
        that is not kept any more is where the chain begins.
        """
        found: list[KeptResponse] = []
        seen: set[str] = set()
        wanted: str | None = id
        while wanted is not None and wanted not in seen and len(found) < _LONGEST_CHAIN:
            seen.add(wanted)
            kept = self.get(scope, wanted)
            if kept is None:
                break
            found.append(kept)
            wanted = kept.previous_id
        found.reverse()
        return found

    def delete(self, scope: str, id: str) -> bool:
        """False when there is none."""
        if self._connection is None and not exists(self._place):
            return False
        with self._use() as connection:
            done = connection.execute(
                "DELETE FROM responses WHERE scope = ? AND id = ?", (scope, id)
            )
            return done.rowcount > 0

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _use(self) -> Iterator[Connection]:
        if not isinstance(self._place, Path):
            with self._place.transaction(_POSTGRES) as connection:
                yield connection
            return
        with self._lock:
            if self._connection is not None and identity_of(self._place) != self._identity:
                self._connection.close()
                self._connection = None
            if self._connection is None:
                self._connection = open_database(self._place, [_create], wait_seconds=_WAIT_SECONDS)
                self._identity = identity_of(self._place)
            with translated():
                yield self._connection

    def _clean(self, connection: Connection) -> None:
        connection.execute("DELETE FROM responses WHERE created_at < ?", (self._oldest(),))
        connection.execute(
            "DELETE FROM responses WHERE created_at < (SELECT created_at FROM responses "
            "ORDER BY created_at DESC LIMIT 1 OFFSET ?)",
            (self._most - 1,),
        )

    def _oldest(self) -> int:
        return int(self._clock.timestamp() - self._keep_seconds)
