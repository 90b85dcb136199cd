"""Which runs there are, and how they are read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from Middleware.runs.rows import ENTRY, called, first_number
from Middleware.storage.places import Connection


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


class Reader:
    """One look at all runs of a database."""

    def __init__(self, connection: Connection) -> None:
        """Its rows are mappings."""
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
        return [str(row["id"]) for row in found.fetchall()]

    def tree(self, user: str, root: int) -> list[Mapping[str, Any]]:
        """All runs of a tree, parents before their children."""
        return self._connection.execute(
            'SELECT * FROM runs WHERE "user" = ? AND root = ? ORDER BY number', (user, root)
        ).fetchall()

    def steps(self, run: Mapping[str, Any]) -> list[StoredStep]:
        """Of a row of a run."""
        if run["steps"] is not None:
            return [StoredStep(*one) for one in json.loads(run["steps"])]
        rows = self._connection.execute(
            "SELECT started_at, model, body FROM steps WHERE run = ? ORDER BY position",
            (run["number"],),
        )
        return [
            StoredStep(row["started_at"], row["model"], json.loads(row["body"]))
            for row in rows.fetchall()
        ]


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
    'number, id, parent_id, workflow, folder, door, "user", status, started_at, duration_ms,'
    " prompt_tokens, completion_tokens, estimated, cost, error, session"
)
