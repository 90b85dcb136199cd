"""One database of runs: what is written into it, whichever database it is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain

from Middleware.runs.rows import CUT_STEPS, Row, write_runs, write_steps
from Middleware.storage.places import Connection, Place
from Middleware.storage.sqlite import RowRefused, translated

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


class Store(ABC):
    """Not safe for several threads at once: the one that writes has one, and readers others."""

    place: Place

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Connection]:
        """All or nothing. Raises DatabaseBusy and DatabaseUnavailable."""

    @abstractmethod
    def looking(self) -> AbstractContextManager[Connection]:
        """For reading a little. Raises DatabaseBusy and DatabaseUnavailable."""

    @abstractmethod
    def give_back(self) -> None:
        """After much was deleted. Raises DatabaseBusy and DatabaseUnavailable."""

    @abstractmethod
    def close(self) -> None: ...

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
                    connection.execute("SAVEPOINT one")
                    try:
                        with translated():
                            connection.execute(statement, row)
                    except RowRefused:
                        refused += 1
                        connection.execute("ROLLBACK TO SAVEPOINT one")
                    connection.execute("RELEASE SAVEPOINT one")
        return refused


def _write_many(
    connection: Connection, statement: Callable[[int], str], rows: Sequence[Row]
) -> None:
    """Several rows in one statement: for each statement the interpreter is given away and has to
    be waited for again, and so have those who answer clients meanwhile.
    """
    end = len(rows) - len(rows) % _ROWS_AT_ONCE
    for start in range(0, end, _ROWS_AT_ONCE):
        values = tuple(chain.from_iterable(rows[start : start + _ROWS_AT_ONCE]))
        connection.execute(statement(_ROWS_AT_ONCE), values)
    connection.executemany(statement(1), rows[end:])
