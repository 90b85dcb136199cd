"""Reading what the log has written: in one database, or in several (users may have their own)."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice

from Middleware.core.messages import Caller
from Middleware.runs.errors import RunLogUnavailable, UnknownRun
from Middleware.runs.reader import Query, Reader
from Middleware.runs.records import Record, Row, nest, open_moment, run_record, summary
from Middleware.runs.retention import delete_runs
from Middleware.runs.stores import reading, store_at
from Middleware.storage.places import Place
from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of a list."""

    runs: list[Record]
    next: str | None
    """What the following page begins after; None at the end."""

    def to_dict(self) -> Record:
        return {"runs": self.runs, "next": self.next}


class History:
    """All runs that are written down. ``places`` are the databases there may be."""

    def __init__(
        self, places: Callable[[], Iterable[Place]], close: Callable[[], None] = lambda: None
    ) -> None:
        self._places = places
        self.close = close
        """For whoever opened the databases for this alone."""

    def newest(self, query: Query) -> Listed:
        pages = []
        # One more than asked for tells whether there is a following page.
        wider = replace(query, limit=query.limit + 1)
        for place in self._all():
            with _reader(place) as reader:
                pages.append(reader.newest(wider) if reader else [])
        rows = list(islice(merge(*pages, key=lambda row: -row["number"]), query.limit + 1))
        shown = rows[: query.limit]
        more = len(rows) > query.limit
        return Listed([summary(row) for row in shown], str(shown[-1]["number"]) if more else None)

    def find(self, run_id: str, owners: tuple[str, ...] | None = None) -> Record:
        """A run with all that it started. Raises UnknownRun."""
        with self._holding(run_id, owners) as (_, reader, top):
            records = []
            for row in reader.tree(top["user"], top["root"]):
                record = run_record(row, reader.steps(row))
                if record["status"] == "interrupted":
                    _add_interrupted_node(record)
                records.append(record)
            return nest(records)[run_id]

    def delete(self, run_id: str, owners: tuple[str, ...] | None = None) -> None:
        """Delete a run with all that it started. Raises UnknownRun."""
        with self._holding(run_id, owners) as (place, reader, top):
            below = {run_id}
            numbers = []
            for row in reader.tree(top["user"], top["root"]):
                if row["id"] in below or row["parent_id"] in below:
                    below.add(row["id"])
                    numbers.append(row["number"])
        store = store_at(place)
        with _readable():
            try:
                with store.transaction() as connection:
                    delete_runs(connection, numbers)
            finally:
                store.close()

    def ids_like(self, beginning: str) -> list[str]:
        """Up to two ids for each database that begin like that."""
        found: list[str] = []
        for place in self._all():
            with _reader(place) as reader:
                found.extend(reader.ids_like(beginning) if reader else ())
        return found

    def _all(self) -> tuple[Place, ...]:
        return tuple(dict.fromkeys(self._places()))

    @contextmanager
    def _holding(
        self, run_id: str, owners: tuple[str, ...] | None
    ) -> Iterator[tuple[Place, Reader, Row]]:
        for place in self._all():
            with _reader(place) as reader:
                row = reader.find(run_id) if reader else None
                if reader is not None and row is not None:
                    if owners is not None and row["owner"] not in owners:
                        break
                    yield place, reader, row
                    return
        raise UnknownRun(run_id)


def owners_seen_by(caller: Caller | None) -> tuple[str, ...] | None:
    """Whose runs a caller may see: their own, and those that nobody's key has started with their
    user file. Where no keys are demanded, and with the key of the command line: everybody's.
    """
    if caller is None or not caller.user:
        return None
    return f"{caller.user}/{caller.key_name}", f"{caller.user}/"


def _add_interrupted_node(record: Record) -> None:
    node = record["context"]["currentStepNodeId"]
    timeline = record["timeline"]
    if node and (not timeline or timeline[-1]["nodeName"] != node):
        timeline.append(open_moment(node, "interrupted"))


@contextmanager
def _reader(place: Place) -> Iterator[Reader | None]:
    with _readable(), reading(place) as reader:
        yield reader


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (DatabaseBusy, DatabaseUnavailable) as error:
        raise RunLogUnavailable(str(error) or "locked") from error
