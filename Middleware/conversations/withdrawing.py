"""Taking back: one signal, of which a running turn is asked to stop, or a whole conversation."""

import json
from collections.abc import Mapping

from sqlalchemy import select, update

from Middleware.conversations import tables
from Middleware.conversations.database import Database
from Middleware.conversations.models import WITHDRAWN
from Middleware.conversations.retention import forget
from Middleware.conversations.task import change_turn

_STOPPABLE = ("thinking", "applying_action")


def withdraw(database: Database, conversation_id: str, sequence: int) -> bool:
    """False when there is nothing left to stop: the segment is done, or its reply is being
    written. The conversation itself goes on (specification §20, `cancel`).
    """
    with database.locked(conversation_id) as locked:
        if locked is None:
            return False
        signal = tables.signals
        here = (signal.c.conversation_id == conversation_id) & (signal.c.sequence == sequence)
        query = select(signal.c.name, signal.c.status, signal.c.applied_turn).where(here)
        found = locked.connection.execute(query).first()
        if found is None:
            return False
        state = locked.state
        if found.status == "received":
            values = {"status": "rejected", "reason": WITHDRAWN, "closed_at": locked.now}
            locked.connection.execute(update(signal).where(here).values(values))
            counter = f"buffered_{found.name}s"
            locked.change(**{counter: getattr(state, counter) - 1})
            locked.note("signal_rejected", sequence=sequence, reason=WITHDRAWN)
            return True
        mine = found.status == "applied" and found.applied_turn == state.turn
        if not mine or state.turn is None or state.phase not in _STOPPABLE:
            return False
        change_turn(locked, stop_requested=1)
        locked.note("stop_requested", turn=state.turn)
        return True


def remove(database: Database, conversation_id: str) -> bool:
    """Forget a conversation; False while it is open."""
    with database.transaction() as connection:
        locked = database.lock(connection, conversation_id)
        if locked is not None and not locked.state.closed:
            return False
        forget(connection, [conversation_id])
    return True


def label(database: Database, conversation_id: str, labels: Mapping[str, str]) -> None:
    """Keep a client's labels in the place of those before."""
    row = tables.conversations
    text = json.dumps(dict(labels), ensure_ascii=False)
    with database.transaction() as connection:
        connection.execute(update(row).where(row.c.id == conversation_id).values(metadata=text))
