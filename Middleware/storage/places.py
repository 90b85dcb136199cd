"""Where tables are: a file of SQLite, or the PostgreSQL that several servers share."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from Middleware.storage.alive import Alive
from Middleware.storage.sqlite import DatabaseUnavailable
from Middleware.storage.sqlite import transaction as sqlite_transaction

if TYPE_CHECKING:
    from Middleware.storage.postgres import Postgres

Place: TypeAlias = "Path | Postgres"


class Result(Protocol):
    """What a statement found."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


class Connection(Protocol):
    """Takes statements with ``?`` where a value goes."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Result: ...

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]], /) -> Any: ...


class Lives(Protocol):
    """Which processes live, of those that use the same database."""

    def lives(self, session: str) -> bool: ...

    def renew(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PostgresTables:
    """Tables of one purpose, and all their changes in order: forward only."""

    name: str
    changes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """Small tables that are used a few times a request at most."""

    sqlite: str
    """One statement that makes them if they are missing."""
    postgres: PostgresTables


def transaction(
    place: Place, tables: Tables, *, wait_seconds: float = 5.0
) -> AbstractContextManager[Connection]:
    """A write transaction that nobody else has at the same time, committed when the block ends
    well. Raises DatabaseBusy and DatabaseUnavailable."""
    if isinstance(place, Path):
        return sqlite_transaction(place, tables.sqlite, wait_seconds=wait_seconds)
    return place.transaction(tables.postgres, alone=True, wait_seconds=wait_seconds)


def alive_at(place: Place, session: str) -> Lives:
    """Say that this process lives, to all that use the place. Raises DatabaseUnavailable."""
    if not isinstance(place, Path):
        return place.alive(session)
    with _folder_errors():
        return Alive(place.parent, session)


@contextmanager
def _folder_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DatabaseUnavailable(str(error)) from error


def exists(place: Place) -> bool:
    """Whether there may be something to read."""
    return not isinstance(place, Path) or place.exists()
