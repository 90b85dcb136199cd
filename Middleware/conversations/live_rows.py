"""Live text for readers in other processes than the one that runs the turn (MAP-6).

A reader leaves a row that says until when it watches; the process that runs the turn writes what
is said into such rows, and into no others. So nothing is written where nobody reads, which is the
rule with a single process. The row is emptied when the turn ends, and removed when nobody watches.
"""

import logging
import threading
from collections.abc import Iterable

from sqlalchemy import delete, or_, select, update

from Middleware.conversations import tables
from Middleware.conversations.database import Database, upsert
from Middleware.conversations.live import Live, LiveText
from Middleware.conversations.models import StorageUnavailable

logger = logging.getLogger(__name__)

WATCHED_SECONDS = 10.0
"""How long a reader counts as there after it has looked."""
WRITTEN_EVERY_SECONDS = 0.25
CHARACTERS_A_SECOND = 200_000
"""The whole text is written each time: long ones are written less often."""


class LiveRows:
    """Reads and writes the rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, conversation_id: str, turn: int) -> tuple[int, str] | None:
        """The attempt that speaks elsewhere, and what it has said; from now on somebody watches."""
        row = tables.live
        with self._database.transaction() as connection:
            now = self._database.now(connection)
            query = select(row).where(row.c.conversation_id == conversation_id)
            found = connection.execute(query).first()
            if found is None or found.watched_until < now + WATCHED_SECONDS / 2:
                until = {"watched_until": now + WATCHED_SECONDS}
                values = {"conversation_id": conversation_id, **until}
                statement = upsert(connection, row).values(values)
                connection.execute(
                    statement.on_conflict_do_update(index_elements=["conversation_id"], set_=until)
                )
        if found is None or found.turn != turn or found.text is None:
            return None
        return found.attempt, found.text

    def thinking(self, conversation_ids: Iterable[str]) -> dict[str, bool]:
        """Those whose model still speaks, and whether somebody watches it elsewhere."""
        row, live = tables.conversations.c, tables.live.c
        query = (
            select(row.id, live.watched_until)
            .join_from(
                tables.conversations, tables.live, live.conversation_id == row.id, isouter=True
            )
            .where(row.id.in_(sorted(conversation_ids)), row.phase == "thinking")
        )
        with self._database.transaction() as connection:
            now = self._database.now(connection)
            return {
                found.id: found.watched_until is not None and found.watched_until > now
                for found in connection.execute(query)
            }

    def write(self, conversation_id: str, said: LiveText) -> int:
        """How many characters were written. None for a turn that is over, whose words may be in
        no table but that of the records, and none over those of a later attempt.
        """
        text = "".join(said.pieces)
        live = tables.live.c
        later = or_(
            live.turn.is_(None),
            live.turn < said.turn,
            (live.turn == said.turn) & (live.attempt <= said.attempt),
        )
        mine = (live.conversation_id == conversation_id) & later
        with self._database.locked(conversation_id) as locked:
            if locked is None:
                return 0
            if locked.state.phase != "thinking" or locked.state.turn != said.turn:
                return 0
            values = {"turn": said.turn, "attempt": said.attempt, "text": text}
            locked.connection.execute(update(tables.live).where(mine).values(values))
        return len(text)


def forget_unwatched(database: Database) -> None:
    with database.transaction() as connection:
        old = tables.live.c.watched_until < database.now(connection) - WATCHED_SECONDS
        connection.execute(delete(tables.live).where(old))


class LiveWriter:
    """The thread that carries what is said in this process into the rows."""

    def __init__(self, database: Database, live: Live) -> None:
        self._rows = LiveRows(database)
        self._live = live
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-text", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        unwritten: set[str] = set()
        while not self._stopping.is_set():
            unwritten |= self._live.spoken(0 if unwritten else 1.0)
            if not unwritten:
                continue
            written = 0
            try:
                written = self._write(unwritten)
            except StorageUnavailable as error:
                logger.debug("live text is not shown elsewhere: %s", error.detail)
            # The outermost guard of a background thread: the next words may fare better.
            except Exception:
                logger.exception("live text could not be shown elsewhere")
                unwritten.clear()
            self._stopping.wait(max(WRITTEN_EVERY_SECONDS, written / CHARACTERS_A_SECOND))

    def _write(self, unwritten: set[str]) -> int:
        """What nobody watches yet is kept, for a reader who comes in the middle of a turn."""
        thinking = self._rows.thinking(unwritten)
        written = 0
        for conversation_id in sorted(unwritten):
            said = self._live.last(conversation_id)
            if thinking.get(conversation_id) and said is not None:
                written += self._rows.write(conversation_id, said)
            if said is None or thinking.get(conversation_id) is not False:
                unwritten.discard(conversation_id)
        return written
