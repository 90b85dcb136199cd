"""How much of past runs is kept: by number, age and size; and runs that a crash left open."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from Middleware.runs.rows import first_number
from Middleware.storage.places import Connection, Place

_DAY_SECONDS: Final = 86_400
_MEGABYTE: Final = 1_000_000
_CHUNK: Final = 500
"""Runs that are deleted in one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """What one user's settings say of the run log (decisions §8)."""

    place: Place
    enabled: bool = True
    max_runs: int = 10_000
    """Runs that no other run has started; sub-workflows go with theirs."""
    max_days: float = 30
    max_megabytes: float = 500


def prune(connection: Connection, user: str, keep: Keep, now: float) -> bool:
    """Delete some of a user's oldest runs, if there are too many. Call it inside a transaction.

    True when there is more to do: the caller decides when, since new runs wait meanwhile.
    """
    count, size = _totals(connection, user)
    surplus, aim = 0, keep.max_megabytes * _MEGABYTE
    # A little further than needed, so that not every new run means that an old one is deleted.
    if count > keep.max_runs:
        surplus = count - keep.max_runs + keep.max_runs // 100
    if size > aim:
        aim *= 0.95
    too_old = _oldest_kept(keep, now)
    removed = 0
    last = -1
    trees = _oldest_trees(connection, user)
    for root, bytes_ in trees:
        if root >= too_old and removed >= surplus and size <= aim:
            break
        size -= bytes_
        removed += 1
        last = root
    _delete_up_to(connection, user, last)
    return removed == _CHUNK


def is_too_much(connection: Connection, user: str, keep: Keep, now: float) -> bool:
    """Whether :func:`prune` would find something to delete. Reads one index."""
    count, size = _totals(connection, user)
    oldest = _oldest_trees(connection, user, 1)
    if not oldest:
        return False
    too_many = count > keep.max_runs or size > keep.max_megabytes * _MEGABYTE
    return too_many or oldest[0][0] < _oldest_kept(keep, now)


def _totals(connection: Connection, user: str) -> tuple[int, int]:
    count, size = connection.execute(
        'SELECT count(*) FILTER (WHERE root = number), sum(bytes) FROM runs WHERE "user" = ?',
        (user,),
    ).fetchone()
    return int(count or 0), int(size or 0)


def _oldest_kept(keep: Keep, now: float) -> int:
    return first_number(now - keep.max_days * _DAY_SECONDS)


_IS_RUNNING: Final = "status = 'running' AND status <> 'succeeded'"
"""Said in the words of the index."""
_RUNNING: Final = f"(SELECT root FROM runs WHERE {_IS_RUNNING})"


def _oldest_trees(connection: Connection, user: str, most: int = _CHUNK) -> list[tuple[int, int]]:
    """Runs that are over, with what they started: number and bytes, the oldest first."""
    found = connection.execute(
        f'SELECT root, sum(bytes) FROM runs WHERE "user" = ? AND root NOT IN {_RUNNING}'
        " GROUP BY root ORDER BY root LIMIT ?",
        (user, most),
    )
    return [(int(root), int(size)) for root, size in found.fetchall()]


def _delete_up_to(connection: Connection, user: str, last: int) -> None:
    """All at once, which costs a fraction of one by one."""
    which = f'"user" = ? AND root <= ? AND root NOT IN {_RUNNING}'
    connection.execute(
        f"DELETE FROM steps WHERE run IN (SELECT number FROM runs WHERE {which} AND steps IS NULL)",
        (user, last),
    )
    connection.execute(f"DELETE FROM runs WHERE {which}", (user, last))


def delete_runs(connection: Connection, numbers: Iterable[int]) -> None:
    """And their steps."""
    each = [(number,) for number in numbers]
    connection.executemany("DELETE FROM steps WHERE run = ?", each)
    connection.executemany("DELETE FROM runs WHERE number = ?", each)


def running_processes(connection: Connection) -> set[str]:
    """Whose runs have not finished, as far as the database knows."""
    found = connection.execute(f"SELECT DISTINCT process FROM runs WHERE {_IS_RUNNING}")
    return {str(process) for (process,) in found.fetchall()}


def close_interrupted(
    connection: Connection, lives: Callable[[str], bool], still_runs: Iterable[str] = ()
) -> int:
    """Mark runs whose process is gone. Call it inside a transaction; how many there were.

    ``lives`` tells it of a process. Of those that live, ``still_runs`` are the ids of the runs of
    this one; what else it seems to run has ended without a record of its end.
    """
    known = set(still_runs)
    open_runs = connection.execute(
        "SELECT number, id, process, context FROM runs WHERE status = 'running'"
    ).fetchall()
    dead = {process: not lives(process) for process in {row[2] for row in open_runs}}
    marked = 0
    for number, run_id, process, context in open_runs:
        if not dead[process] or run_id in known:
            continue
        connection.execute(
            "UPDATE runs SET status = 'interrupted', error = ?"
            " WHERE number = ? AND status = 'running'",
            (_interrupted(context), number),
        )
        marked += 1
    return marked


def _interrupted(context: str) -> str:
    try:
        told: Any = json.loads(context)
        node = str(told["currentStepNodeId"])
    except (ValueError, KeyError, TypeError):
        node = ""
    return f"The server ended while this ran{f', at node {node!r}' if node else ''}."
