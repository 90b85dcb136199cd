"""The tables of ``runs.sqlite``: forward only, one function each, applied in order.

A run's ``number`` says when it began and is its place in every listing, so that no index has to
hold the time: microseconds since 1970, times 1024, made unique. ``root`` is the number of the run
that no other has started. Rows are added at the end of their table, and texts that may be long
stand behind all columns that are looked at.

``steps`` of a run that was over when it was first written holds all of them: a list of start, model
and step. Steps of longer runs have rows of their own, which are added while the run goes on.
"""

import sqlite3
from collections.abc import Sequence

from Middleware.storage.sqlite import Migration

_M0001 = (
    """
    CREATE TABLE runs (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        parent_id TEXT,
        root INTEGER NOT NULL,
        owner TEXT NOT NULL,
        user TEXT NOT NULL,
        name TEXT NOT NULL,
        workflow TEXT NOT NULL,
        folder TEXT NOT NULL,
        status TEXT NOT NULL,
        door TEXT NOT NULL,
        request_id TEXT NOT NULL,
        started_at REAL NOT NULL,
        duration_ms REAL,
        first_token_ms REAL,
        prompt_tokens INTEGER,
        completion_tokens INTEGER,
        estimated INTEGER,
        cost REAL,
        process TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        error TEXT,
        partial_text TEXT NOT NULL,
        context TEXT NOT NULL,
        steps TEXT
    )
    """,
    "CREATE INDEX runs_by_user ON runs (user, root, bytes)",
    "CREATE INDEX runs_by_owner ON runs (owner)",
    "CREATE INDEX runs_by_name ON runs (name)",
    # Most runs succeed: those are found without one.
    "CREATE INDEX runs_by_status ON runs (status) WHERE status <> 'succeeded'",
    """
    CREATE TABLE steps (
        run INTEGER NOT NULL,
        position INTEGER NOT NULL,
        started_at REAL,
        model TEXT,
        body TEXT NOT NULL,
        UNIQUE (run, position)
    )
    """,
)


def m0001_initial(connection: sqlite3.Connection) -> None:
    """The tables of the first release."""
    for statement in _M0001:
        connection.execute(statement)


def m0002_sessions(connection: sqlite3.Connection) -> None:
    """Coding agents name their sessions."""
    connection.execute("ALTER TABLE runs ADD COLUMN session TEXT")
    # Most runs have none.
    connection.execute("CREATE INDEX runs_by_session ON runs (session) WHERE session IS NOT NULL")


MIGRATIONS: Sequence[Migration] = (m0001_initial, m0002_sessions)
