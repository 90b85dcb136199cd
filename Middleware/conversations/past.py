"""What has been said: the message of a turn, and the turns before it."""

import json
from typing import Any

from sqlalchemy import select

from Middleware.conversations import tables
from Middleware.conversations.database import Database, Locked
from Middleware.conversations.models import PastTurn


def message_of(locked: Locked, sequence: int) -> tuple[str, dict[str, Any]]:
    """A message's text, and what its door kept with it."""
    signal = tables.signals.c
    query = select(signal.arguments, signal.asked).where(
        signal.conversation_id == locked.state.id, signal.sequence == sequence
    )
    found = locked.connection.execute(query).one()
    return json.loads(found.arguments)["text"], json.loads(found.asked) if found.asked else {}


def recent_turns(
    database: Database, conversation_id: str, before: int, count: int
) -> tuple[PastTurn, ...]:
    """The last turns, read by reference, oldest first. A reply that retention removed is left
    out together with its message."""
    if count <= 0 or before <= 1:
        return ()
    turn, signal, record = tables.turns.c, tables.signals.c, tables.records.c
    query = (
        select(signal.arguments, record.text)
        .join_from(
            tables.turns,
            tables.signals,
            (signal.conversation_id == turn.conversation_id)
            & (signal.sequence == turn.message_sequence),
        )
        .join(
            tables.records,
            (record.conversation_id == turn.conversation_id) & (record.turn == turn.turn),
        )
        .where(
            turn.conversation_id == conversation_id,
            turn.turn < before,
            turn.turn >= before - count,
        )
        .order_by(turn.turn)
    )
    with database.transaction() as connection:
        rows = connection.execute(query).all()
    return tuple(PastTurn(text=json.loads(row[0])["text"], reply=row[1]) for row in rows)
