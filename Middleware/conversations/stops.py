"""Running attempts of this process, so that one turn can be stopped without its conversation."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import select

from Middleware.conversations import tables
from Middleware.conversations.database import Database
from Middleware.core.cancellation import CancelToken

STOPPED = "It was cancelled."
"""The error of a turn that somebody stopped."""


class Stops:
    """One a process. A wish to stop is a mark on the turn; here it reaches who runs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, CancelToken] = {}

    @contextmanager
    def attempt(self, conversation_id: str, process: CancelToken) -> Iterator[CancelToken]:
        """The token of one attempt, which ends with the process too."""
        with process.child() as token:
            with self._lock:
                self._running[conversation_id] = token
            try:
                yield token
            finally:
                with self._lock:
                    if self._running.get(conversation_id) is token:
                        del self._running[conversation_id]

    def stop(self, conversation_id: str) -> None:
        with self._lock:
            token = self._running.get(conversation_id)
        if token is not None:
            token.cancel()

    def look(self, database: Database) -> None:
        """Stop what other processes have marked."""
        with self._lock:
            running = list(self._running)
        if not running:
            return
        turn = tables.turns.c
        query = select(turn.conversation_id).where(
            turn.conversation_id.in_(running), turn.stop_requested == 1, turn.ended_at.is_(None)
        )
        with database.transaction() as connection:
            marked = list(connection.execute(query).scalars())
        for conversation_id in marked:
            self.stop(conversation_id)
