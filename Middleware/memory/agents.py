"""What an Agent node remembers of a user: their last conversation with it (design §5).

One row a turn, in SQLite or PostgreSQL. A turn is written when it is complete, both its messages
at once, so that two requests of one user never mix theirs.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from Middleware.core.messages import Message
from Middleware.storage.places import Connection, Place, PostgresTables, Tables, transaction
from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable

_TABLES = Tables(
    sqlite="""
    CREATE TABLE IF NOT EXISTS agent_turns (
        caller TEXT NOT NULL,
        agent TEXT NOT NULL,
        thread INTEGER NOT NULL,
        turn INTEGER NOT NULL,
        asked TEXT NOT NULL,
        answered TEXT NOT NULL,
        at REAL NOT NULL,
        PRIMARY KEY (caller, agent, thread, turn)
    ) WITHOUT ROWID
    """,
    postgres=PostgresTables(
        "agents",
        (
            (
                """
                CREATE TABLE agent_turns (
                    caller TEXT NOT NULL,
                    agent TEXT NOT NULL,
                    thread BIGINT NOT NULL,
                    turn BIGINT NOT NULL,
                    asked TEXT NOT NULL,
                    answered TEXT NOT NULL,
                    at DOUBLE PRECISION NOT NULL,
                    PRIMARY KEY (caller, agent, thread, turn)
                )
                """,
            ),
        ),
    ),
)


class AgentMemoryError(Exception):
    """The memory of agents cannot be read or written just now."""


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation of a user with an agent."""

    caller: str
    """User file and name of the key."""
    agent: str
    """Folder, workflow and id of the node."""
    number: int
    messages: tuple[Message, ...] = ()


class AgentThreads:
    """All conversations of all users with agents; one a database, used by any thread."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()

    def last(self, caller: str, agent: str) -> Thread:
        """The conversation that goes on; an empty first one when there is none."""
        with self._open() as database:
            rows = database.execute(
                "SELECT thread, asked, answered FROM agent_turns WHERE caller = ? AND agent = ?"
                " AND thread = (SELECT MAX(thread) FROM agent_turns"
                " WHERE caller = ? AND agent = ?) ORDER BY turn",
                (caller, agent, caller, agent),
            ).fetchall()
        messages = [
            message
            for _, asked, answered in rows
            for message in (Message("user", asked), Message("assistant", answered))
        ]
        return Thread(caller, agent, rows[0][0] if rows else 1, tuple(messages))

    def new(self, caller: str, agent: str) -> Thread:
        """An empty conversation after all that there are."""
        with self._open() as database:
            (last,) = database.execute(
                "SELECT COALESCE(MAX(thread), 0) FROM agent_turns WHERE caller = ? AND agent = ?",
                (caller, agent),
            ).fetchone()
        return Thread(caller, agent, last + 1)

    def add(self, thread: Thread, asked: str, answered: str, at: float) -> None:
        """A complete turn, behind those that others have added meanwhile."""
        with self._open() as database:
            (turn,) = database.execute(
                "SELECT COALESCE(MAX(turn), 0) + 1 FROM agent_turns"
                " WHERE caller = ? AND agent = ? AND thread = ?",
                (thread.caller, thread.agent, thread.number),
            ).fetchone()
            database.execute(
                "INSERT INTO agent_turns VALUES (?, ?, ?, ?, ?, ?, ?)",
                (thread.caller, thread.agent, thread.number, turn, asked, answered, at),
            )

    @contextmanager
    def _open(self) -> Iterator[Connection]:
        try:
            with self._lock, transaction(self._place, _TABLES) as database:
                yield database
        except (DatabaseBusy, DatabaseUnavailable) as error:
            raise AgentMemoryError(str(error)) from error
