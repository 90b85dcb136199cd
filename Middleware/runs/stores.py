"""The store of a place, and who reads there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from Middleware.runs.postgres_store import TABLES, PostgresStore
from Middleware.runs.reader import Reader
from Middleware.runs.sqlite_store import SqliteStore, reading_file
from Middleware.runs.store import Store
from Middleware.storage.places import Place


def store_at(place: Place, *, wait_seconds: float = 5.0) -> Store:
    """``wait_seconds``: for how long another writer of a file is waited for."""
    if isinstance(place, Path):
        return SqliteStore(place, wait_seconds=wait_seconds)
    return PostgresStore(place)


@contextmanager
def reading(place: Place) -> Iterator[Reader | None]:
    """One view of all runs, whatever is written meanwhile; None where nothing was ever written.
    Raises DatabaseBusy and DatabaseUnavailable."""
    if isinstance(place, Path):
        with reading_file(place) as reader:
            yield reader
    else:
        with place.transaction(TABLES, named=True, one_view=True) as connection:
            yield Reader(connection)
