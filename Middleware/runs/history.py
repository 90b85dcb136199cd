"""Reading what the log has written, in one file or in several (users may have their own)."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from pathlib import Path

from Middleware.core.messages import Caller
from Middleware.runs.errors import RunLogUnavailable, UnknownRun
from Middleware.runs.records import Record, Row, nest, open_moment, run_record, summary
from Middleware.runs.retention import delete_runs
from Middleware.runs.store import Query, Reader, Store, reading
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
    """All runs that are written down. ``paths`` are the files there may be."""

    def __init__(self, paths: Callable[[], Iterable[Path]]) -> None:
        self._paths = paths

    def newest(self, query: Query) -> Listed:
        pages = []
        # One more than asked for tells whether there is a following page.
        wider = replace(query, limit=query.limit + 1)
        for path in self._files():
            with _reader(path) as reader:
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
        with self._holding(run_id, owners) as (path, reader, top):
            below = {run_id}
            numbers = []
            for row in reader.tree(top["user"], top["root"]):
                if row["id"] in below or row["parent_id"] in below:
                    below.add(row["id"])
                    numbers.append(row["number"])
        store = Store(path)
        with _readable():
            try:
                with store.transaction() as connection:
                    delete_runs(connection, numbers)
            finally:
                store.close()

    def ids_like(self, beginning: str) -> list[str]:
        """Up to two ids for each file that begin like that."""
        found: list[str] = []
        for path in self._files():
            with _reader(path) as reader:
                found.extend(reader.ids_like(beginning) if reader else ())
        return found

    def _files(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(self._paths()))

    @contextmanager
    def _holding(
        self, run_id: str, owners: tuple[str, ...] | None
    ) -> Iterator[tuple[Path, Reader, Row]]:
        for path in self._files():
            with _reader(path) as reader:
                row = reader.find(run_id) if reader else None
                if reader is not None and row is not None:
                    if owners is not None and row["owner"] not in owners:
                        break
                    yield path, reader, row
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
def _reader(path: Path) -> Iterator[Reader | None]:
    with _readable(), reading(path) as reader:
        yield reader


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (DatabaseBusy, DatabaseUnavailable) as error:
        raise RunLogUnavailable(str(error) or "locked") from error
