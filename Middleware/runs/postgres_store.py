"""Runs in PostgreSQL: those of all servers that share the database."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from Middleware.runs.store import Store
from Middleware.storage.places import Connection, PostgresTables

if TYPE_CHECKING:
    from Middleware.storage.postgres import Postgres

TABLES: Final = PostgresTables(
    "runs",
    (
        (
            # What stands in migrations.py counts here too. Ids are found by their beginning,
            # which needs the order of bytes.
            """
            CREATE TABLE runs (
                number BIGINT PRIMARY KEY,
                id TEXT COLLATE "C" NOT NULL UNIQUE,
                parent_id TEXT,
                root BIGINT NOT NULL,
                owner TEXT NOT NULL,
                "user" TEXT NOT NULL,
                name TEXT NOT NULL,
                workflow TEXT NOT NULL,
                folder TEXT NOT NULL,
                status TEXT NOT NULL,
                door TEXT NOT NULL,
                request_id TEXT NOT NULL,
                started_at DOUBLE PRECISION NOT NULL,
                duration_ms DOUBLE PRECISION,
                first_token_ms DOUBLE PRECISION,
                prompt_tokens BIGINT,
                completion_tokens BIGINT,
                estimated INTEGER,
                cost DOUBLE PRECISION,
                process TEXT NOT NULL,
                bytes BIGINT NOT NULL,
                error TEXT,
                partial_text TEXT NOT NULL,
                context TEXT NOT NULL,
                steps TEXT,
                session TEXT
            )
            """,
            'CREATE INDEX runs_by_user ON runs ("user", root, bytes)',
            "CREATE INDEX runs_by_owner ON runs (owner, number)",
            "CREATE INDEX runs_by_name ON runs (name, number)",
            "CREATE INDEX runs_by_status ON runs (status, number) WHERE status <> 'succeeded'",
            "CREATE INDEX runs_by_session ON runs (session, number) WHERE session IS NOT NULL",
            # Lists show what no other run has started.
            "CREATE INDEX runs_started_by_none ON runs (number) WHERE parent_id IS NULL",
            """
            CREATE TABLE steps (
                run BIGINT NOT NULL,
                position BIGINT NOT NULL,
                started_at DOUBLE PRECISION,
                model TEXT,
                body TEXT NOT NULL,
                PRIMARY KEY (run, position)
            )
            """,
        ),
    ),
)


class PostgresStore(Store):
    """Connections are the database's own affair: it has a pool."""

    def __init__(self, place: "Postgres") -> None:
        self.place: Postgres = place

    def transaction(self) -> AbstractContextManager[Connection]:
        return self.place.transaction(TABLES)

    def looking(self) -> AbstractContextManager[Connection]:
        return self.place.transaction(TABLES)

    def give_back(self) -> None:
        """PostgreSQL does so by itself."""

    def close(self) -> None:
        """Nothing is kept open."""
