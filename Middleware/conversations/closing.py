"""Ends of runs: of the whole conversation, or with a successor (sections 9 and 10)."""

import json
from typing import Any

from sqlalchemy import select, update

from Middleware.conversations import tables
from Middleware.conversations.database import Locked
from Middleware.conversations.models import RUN_CLOSED, ClosedReason


def close_conversation(locked: Locked, reason: ClosedReason) -> None:
    """END-1, END-2."""
    state = locked.state
    if state.turn is not None:
        _abandon_turn(locked, state.turn, reason)
    reject_signals(locked, targeted_only=False)
    result = close_run(locked, reason)
    locked.enter("completed")
    locked.note("run_completed", **result)
    locked.change(
        closed_reason=reason,
        turn=None,
        proposal_id=None,
        wait_since=None,
        deadline=None,
        cancel_requested=False,
        task_id=None,
        task_claim=None,
        task_owner=None,
    )


def close_run(locked: Locked, reason: str, next_run: str | None = None) -> dict[str, Any]:
    """Keep how the run came out, and return it."""
    run = tables.runs
    state = locked.state
    here = (run.c.conversation_id == state.id) & (run.c.generation == state.generation)
    result = {
        "generation": state.generation,
        "turn_count": state.turn_count,
        "turns_this_run": state.turns_this_run,
        "latest_reply_reference": state.latest_reply_reference,
        "reason": reason,
    }
    values = {
        "status": "completed",
        "reason": reason,
        "result": json.dumps(result),
        "next_run": next_run,
        "closed_at": locked.now,
    }
    locked.connection.execute(update(run).where(here).values(values))
    return result


def reject_signals(locked: Locked, *, targeted_only: bool) -> None:
    """Signals that no run will apply any more (TGT-4, CAN-6, END-2)."""
    state = locked.state
    if not state.buffered_messages + state.buffered_decisions:
        return
    signal = tables.signals.c
    left = (signal.conversation_id == state.id) & (signal.status == "received")
    if targeted_only:
        left &= signal.target_run.is_not(None)
    query = select(signal.sequence, signal.name).where(left).order_by(signal.sequence)
    rejected = locked.connection.execute(query).all()
    if not rejected:
        return
    values = {"status": "rejected", "reason": RUN_CLOSED, "closed_at": locked.now}
    locked.connection.execute(update(tables.signals).where(left).values(values))
    for row in rejected:
        locked.note("signal_rejected", sequence=row.sequence, reason=RUN_CLOSED)
    gone = [row.name for row in rejected]
    locked.change(
        buffered_messages=state.buffered_messages - gone.count("message"),
        buffered_decisions=state.buffered_decisions - gone.count("decision"),
    )


def _abandon_turn(locked: Locked, turn: int, reason: ClosedReason) -> None:
    """A turn that a cancellation ends is no recorded turn; what its model said goes."""
    here = (tables.turns.c.conversation_id == locked.state.id) & (tables.turns.c.turn == turn)
    values = {**BLANK, "error": f"the conversation was {reason}", "ended_at": locked.now}
    locked.connection.execute(update(tables.turns).where(here).values(values))
    forget_live_text(locked)


def forget_live_text(locked: Locked) -> None:
    """The turn is over: what was shown of it is in its record, or nowhere (REP-2)."""
    live = tables.live.c
    shown = (live.conversation_id == locked.state.id) & live.text.is_not(None)
    nothing = {"turn": None, "attempt": None, "text": None}
    locked.connection.execute(update(tables.live).where(shown).values(nothing))


BLANK = {"reply": None, "replies": None, "next_summary": None, "action_text": None}
"""Reply text that a turn kept for repeated steps (REP-2)."""
