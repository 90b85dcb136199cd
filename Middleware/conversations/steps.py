"""The steps of a turn that only change our own tables. Each is one transaction, may be repeated
at any time, and says which step comes next.
"""

import json
import logging
from collections.abc import Iterator

from sqlalchemy import insert, select, update

from Middleware.conversations import rules, tables
from Middleware.conversations.closing import (
    BLANK,
    close_conversation,
    close_run,
    forget_live_text,
    reject_signals,
)
from Middleware.conversations.database import Database, Locked
from Middleware.conversations.inbox import Queue, crossing, new_run_id, wake
from Middleware.conversations.models import (
    PROPOSAL_MISMATCH,
    action_reference,
    reply_reference,
)
from Middleware.conversations.rules import Buffered, Close, Decide, Park, StartTurn
from Middleware.conversations.task import (
    DONE,
    Task,
    change_turn,
    owned,
    release,
    turn_in_progress,
)

logger = logging.getLogger(__name__)


class Steps:
    def __init__(self, database: Database, queue: Queue) -> None:
        self._database = database
        self._queue = queue

    def take(self, task: Task) -> str:
        """Apply the next signal, or the end of the wait; else give the task back."""
        with owned(self._database, task) as locked:
            if locked is None:
                return DONE
            state = locked.state
            if state.cancel_requested:
                close_conversation(locked, "cancelled")
            elif state.phase == "waiting_for_input":
                message = next(_buffered(locked, "message", limit=1), None)
                _apply(locked, rules.next_input(state, message, locked.now))
            elif state.phase == "awaiting_approval":
                decisions = _buffered(locked, "decision")
                _apply(locked, rules.next_decision(state, decisions, locked.now))
            if locked.state.task_id is None:
                return DONE
            return rules.STEPS[locked.state.phase]

    def reply(self, task: Task) -> str:
        """Write the reply under its reference; the first one stays (REP-1, REP-3)."""
        with owned(self._database, task) as locked:
            if locked is None:
                return DONE
            state = locked.state
            if state.phase != "recording_reply" or state.turn is None:
                return rules.STEPS[state.phase]
            reference = reply_reference(state.id, state.turn)
            written = _record_text(locked, reference)
            if written is None and state.cancel_requested:
                close_conversation(locked, "cancelled")
                return DONE
            text = _write_record(locked, reference)
            if written is not None and written != text:
                logger.error("second reply with other words refused, reference=%s", reference)
                locked.note("anomaly", reference=reference, problem="a second reply differs")
        return "finish"

    def finish(self, task: Task) -> str:
        """The turn is done: count it, and forget what was kept for repetitions."""
        with owned(self._database, task) as locked:
            if locked is None:
                return DONE
            state = locked.state
            if state.phase != "recording_reply" or state.turn is None:
                return rules.STEPS[state.phase]
            turn = turn_in_progress(locked)
            change_turn(locked, **BLANK, ended_at=locked.now)
            forget_live_text(locked)
            locked.change(
                turn_count=state.turn,
                turns_this_run=state.turns_this_run + 1,
                turn=None,
                latest_reply_reference=reply_reference(state.id, state.turn),
                summary=turn["next_summary"] if turn["next_summary"] is not None else state.summary,
                deadline=None,
                wait_since=None,
            )
            full = rules.run_is_full(locked.state)
            locked.enter("continuing_as_new" if full else "waiting_for_input")
            return rules.STEPS[locked.state.phase]

    def hand_over(self, task: Task) -> str:
        """Close the run and open the next, in one transaction (CAN)."""
        with owned(self._database, task) as locked:
            if locked is None:
                return DONE
            state = locked.state
            if state.phase != "continuing_as_new":
                return rules.STEPS[state.phase]
            if state.cancel_requested:
                close_conversation(locked, "cancelled")
                return DONE
            _continue_as_new(locked)
            release(locked)
            if rules.must_have_task(locked.state):
                wake(locked, self._queue)
        return DONE


def _buffered(locked: Locked, name: str, limit: int | None = None) -> Iterator[Buffered]:
    """Unapplied signals of this name, lowest number first (ORD-3)."""
    signal = tables.signals.c
    query = (
        select(signal.sequence, signal.arguments)
        .where(
            signal.conversation_id == locked.state.id,
            signal.name == name,
            signal.status == "received",
        )
        .order_by(signal.sequence)
        .limit(limit)
    )
    for row in locked.connection.execute(query).all():
        arguments = json.loads(row.arguments)
        yield Buffered(
            row.sequence,
            text=arguments.get("text", ""),
            proposal_id=arguments.get("proposalId", ""),
            approved=arguments.get("approved", False),
        )


def _apply(locked: Locked, move: rules.Move) -> None:
    match move:
        case StartTurn(message):
            _start_turn(locked, message)
        case Close(reason, message):
            if message is not None:
                _mark_applied(locked, message, "message", turn=None)
            else:
                locked.note("timeout_fired", wait="message")
            close_conversation(locked, reason)
        case Decide():
            _decide(locked, move)
        case Park(deadline, ignored):
            _ignore(locked, ignored)
            since = locked.state.wait_since
            locked.change(deadline=deadline, wait_since=locked.now if since is None else since)
            release(locked)


def _start_turn(locked: Locked, message: Buffered) -> None:
    state = locked.state
    turn = state.turn_count + 1
    row = {
        "conversation_id": state.id,
        "turn": turn,
        "run_id": state.run_id,
        "generation": state.generation,
        "message_sequence": message.sequence,
        "attempts": 0,
        "failures": 0,
        "outcome_recorded": 0,
        "action_attempts": 0,
        "action_failures": 0,
        "started_at": locked.now,
    }
    locked.connection.execute(insert(tables.turns).values(row))
    _mark_applied(locked, message, "message", turn=turn)
    locked.change(turn=turn, deadline=None, wait_since=None)
    locked.enter("thinking")


def _decide(locked: Locked, move: Decide) -> None:
    _ignore(locked, move.ignored)
    turn = locked.state.turn
    if move.by is None:
        locked.note("timeout_fired", wait="decision", proposal=locked.state.proposal_id)
        change_turn(locked, decision=move.decision)
    else:
        signal = tables.signals.c
        query = select(signal.arguments, signal.sender).where(
            signal.conversation_id == locked.state.id, signal.sequence == move.by.sequence
        )
        sent = locked.connection.execute(query).one()
        _mark_applied(locked, move.by, "decision", turn=turn)
        change_turn(
            locked,
            decision=move.decision,
            decision_sequence=move.by.sequence,
            reviewer=json.loads(sent.arguments)["reviewer"],
            decided_by=sent.sender,
        )
    locked.change(proposal_id=None, deadline=None, wait_since=None)
    locked.enter(rules.phase_after_decision(move.decision))


def _mark_applied(locked: Locked, taken: Buffered, name: str, turn: int | None) -> None:
    state = locked.state
    signal = tables.signals
    here = (signal.c.conversation_id == state.id) & (signal.c.sequence == taken.sequence)
    values = {
        "status": "applied",
        "applied_run": state.run_id,
        "applied_turn": turn,
        "closed_at": locked.now,
    }
    locked.connection.execute(update(signal).where(here).values(values))
    locked.note("signal_applied", sequence=taken.sequence, name=name, turn=turn)
    counter = f"buffered_{name}s"
    locked.change(**{counter: getattr(state, counter) - 1})


def _ignore(locked: Locked, decisions: tuple[Buffered, ...]) -> None:
    """DEC-1, LIFE-1."""
    if not decisions:
        return
    state = locked.state
    signal = tables.signals
    sequences = [decision.sequence for decision in decisions]
    here = (signal.c.conversation_id == state.id) & signal.c.sequence.in_(sequences)
    values = {
        "status": "ignored",
        "reason": PROPOSAL_MISMATCH,
        "applied_run": state.run_id,
        "applied_turn": state.turn,
        "closed_at": locked.now,
    }
    locked.connection.execute(update(signal).where(here).values(values))
    for sequence in sequences:
        locked.note("signal_ignored", sequence=sequence, reason=PROPOSAL_MISMATCH)
    locked.change(buffered_decisions=state.buffered_decisions - len(sequences))


def _record_text(locked: Locked, reference: str) -> str | None:
    query = select(tables.records.c.text).where(tables.records.c.reference == reference)
    text: str | None = locked.connection.execute(query).scalar()
    return text


def _write_record(locked: Locked, reference: str) -> str:
    """The reply's text, which was written unless there was one already."""
    state = locked.state
    turn = turn_in_progress(locked)
    ending = rules.Ending(
        turn=turn["turn"],
        reply=turn["reply"] or "",
        action=turn["action_name"],
        decision=turn["decision"],
        replies=json.loads(turn["replies"]) if turn["replies"] else None,
        action_text=turn["action_text"],
        error=turn["error"],
    )
    text, outcome = rules.reply_text(ending), rules.turn_outcome(ending)
    acted = outcome in ("approved", "action_failed")
    row = {
        "reference": reference,
        "conversation_id": state.id,
        "run_id": state.run_id,
        "turn": ending.turn,
        "outcome": outcome,
        "text": text,
        "action": ending.action,
        "action_reference": action_reference(state.id, ending.turn) if acted else None,
        "created_at": locked.now,
    }
    if locked.insert_new(tables.records, row):
        change_turn(locked, outcome=outcome)
        locked.note("reply_recorded", reference=reference, turn=ending.turn, outcome=outcome)
    return text


def _continue_as_new(locked: Locked) -> None:
    old = locked.state
    successor = new_run_id()
    reject_signals(locked, targeted_only=True)
    close_run(locked, "continued", next_run=successor)
    locked.note("run_continued", next_run=successor)
    inactivity = old.options.inactivity_seconds
    locked.change(
        generation=old.generation + 1,
        run_id=successor,
        turns_this_run=0,
        wait_since=locked.now,
        deadline=locked.now + inactivity,
    )
    came_in = crossing(locked.state)
    row = {
        "conversation_id": old.id,
        "generation": locked.state.generation,
        "run_id": successor,
        "status": "open",
        "state_in": json.dumps({**came_in, "options": old.options.to_dict()}),
        "previous_run": old.run_id,
        "started_at": locked.now,
    }
    locked.connection.execute(insert(tables.runs).values(row))
    locked.note("run_started", previous_run=old.run_id, **came_in)
    locked.enter("waiting_for_input")
