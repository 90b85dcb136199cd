"""What comes in from outside: starts, signals, cancellation. Each is one transaction."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection, insert, select

from Middleware.conversations import rules, tables
from Middleware.conversations.closing import close_conversation
from Middleware.conversations.database import Database, Locked, insert_new
from Middleware.conversations.models import Options, Receipt, Refusal, State
from Middleware.core.errors import MalformedRequest


class Queue(Protocol):
    """Where tasks wait for a worker."""

    def enqueue(self, connection: Connection, conversation_id: str, task_id: str) -> None:
        """Make the task runnable when the transaction of ``connection`` commits."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One signal on its way in."""

    name: str
    arguments: Any
    """As the sender wrote them."""
    request_id: str | None = None
    target_run: str | None = None
    sender: str | None = None
    asked: Mapping[str, Any] | None = None
    """What the door wants to know again of this signal, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    profile: str
    options: Options
    conversation_id: str | None = None
    message: str | None = None
    request_id: str | None = None
    return_existing_active: bool = False
    sender: str | None = None
    asked: Mapping[str, Any] | None = None
    """Kept with the message."""
    metadata: Mapping[str, Any] | None = None
    summary: str = ""
    """What the first turn is told of a conversation before this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """``new`` is False when it had been started before."""

    state: State
    new: bool
    signal: Receipt | None


class Inbox:
    """Accepts. Nothing here waits for a worker, or needs one to be alive (ORD-4)."""

    def __init__(self, database: Database, queue: Queue, limits: rules.Limits) -> None:
        self._database = database
        self._queue = queue
        self._limits = limits

    def start(self, start: Start) -> Started | Refusal:
        """START-1 to START-3. Raises MalformedRequest for an id that cannot be one."""
        conversation_id = start.conversation_id or _new_id(start)
        if not rules.is_conversation_id(conversation_id):
            raise MalformedRequest(
                "conversation_id", "must be 1 to 128 letters, digits, dots, dashes or underscores"
            )
        first = None
        if start.message is not None:
            first = Send(
                name="message",
                arguments={"text": start.message},
                request_id=start.request_id,
                sender=start.sender,
                asked=start.asked,
            )
            refused = _check_alone(first, self._limits)
            if refused is not None:
                return refused
        with self._database.transaction() as connection:
            new = self._create(connection, conversation_id, start)
            locked = self._database.lock(connection, conversation_id)
            assert locked is not None
            answer = self._first(locked, start, first, new=new)
            locked.write()
            return answer

    def _first(
        self, locked: Locked, start: Start, first: Send | None, *, new: bool
    ) -> Started | Refusal:
        if new:
            locked.note("run_started", **crossing(locked.state))
            signal = self._accept(locked, first) if first else None
        else:
            if locked.state.profile != start.profile:
                # Whoever may send to the one profile need not be allowed to send to the other.
                return Refusal(outcome="rejected_duplicate")
            known = self._duplicate(locked, first) if first and first.request_id else None
            if isinstance(known, Receipt):
                return Started(state=locked.state, new=False, signal=known)
            if locked.state.closed or not start.return_existing_active:
                return Refusal(outcome="rejected_duplicate")
            signal = self._accept(locked, first) if first else None
        if isinstance(signal, Refusal):
            return signal
        return Started(state=locked.state, new=new, signal=signal)

    def _create(self, connection: Connection, conversation_id: str, start: Start) -> bool:
        now = self._database.now(connection)
        run_id = new_run_id()
        row = _fresh_row(start, conversation_id, run_id, now)
        if not insert_new(connection, tables.conversations, row):
            return False
        state_in = {
            "generation": 1,
            "turn_count": 0,
            "summary": row["summary"],
            "latest_reply_reference": None,
        }
        run = {
            "conversation_id": conversation_id,
            "generation": 1,
            "run_id": run_id,
            "status": "open",
            "state_in": json.dumps({**state_in, "options": start.options.to_dict()}),
            "started_at": now,
        }
        connection.execute(insert(tables.runs).values(run))
        return True

    def send(self, conversation_id: str, send: Send) -> Receipt | Refusal:
        """ACC-1 to ACC-5. A refusal is kept in the command log."""
        with self._database.locked(conversation_id) as locked:
            if locked is None:
                return Refusal(outcome="rejected_not_started")
            answer = self._accept(locked, send)
            if isinstance(answer, Refusal):
                _log_refusal(locked, send, answer)
            return answer

    def _accept(self, locked: Locked, send: Send) -> Receipt | Refusal:
        if send.request_id is not None:
            if not rules.is_request_id(send.request_id):
                return Refusal(
                    outcome="rejected_invalid_arguments",
                    errors={"request_id": "must be 1 to 200 printable characters"},
                )
            known = self._duplicate(locked, send)
            if known is not None:
                return known
        state = locked.state
        exists = send.target_run is None or _run_exists(locked, send.target_run)
        refused = rules.check_target(state, send.target_run, target_exists=exists)
        if refused is not None:
            return refused
        arguments = rules.signal_arguments(send.name, send.arguments)
        if isinstance(arguments, Refusal):
            return arguments
        text = json.dumps(arguments, ensure_ascii=False)
        refused = rules.check_limits(state, len(text.encode()), self._limits)
        return refused or self._record(locked, send, text)

    def _record(self, locked: Locked, send: Send, arguments: str) -> Receipt:
        state = locked.state
        receipt = Receipt(
            signal_id=f"sig-{uuid.uuid4().hex}",
            sequence=state.next_sequence,
            conversation_id=state.id,
            run_id=state.run_id,
            request_id=send.request_id,
        )
        row = {
            "conversation_id": state.id,
            "sequence": receipt.sequence,
            "signal_id": receipt.signal_id,
            "name": send.name,
            "arguments": arguments,
            "target_run": send.target_run,
            "sender": send.sender,
            "request_id": send.request_id,
            "fingerprint": rules.fingerprint(send.name, send.arguments, send.target_run),
            "accepted_run": state.run_id,
            "received_at": locked.now,
            "status": "received",
            "asked": _json(send.asked),
        }
        locked.connection.execute(insert(tables.signals).values(row))
        locked.note("signal_received", sequence=receipt.sequence, name=send.name)
        counter = f"buffered_{send.name}s"
        buffered = getattr(state, counter) + 1
        must_wake = rules.is_waited_for(state, send.name)
        locked.change(next_sequence=state.next_sequence + 1, **{counter: buffered})
        if must_wake:
            wake(locked, self._queue)
        return receipt

    def _duplicate(self, locked: Locked, send: Send) -> Receipt | Refusal | None:
        """IDEM-1, IDEM-2."""
        signal = tables.signals.c
        query = select(
            signal.signal_id, signal.sequence, signal.accepted_run, signal.fingerprint
        ).where(signal.conversation_id == locked.state.id, signal.request_id == send.request_id)
        found = locked.connection.execute(query).first()
        if found is None:
            return None
        if found.fingerprint != rules.fingerprint(send.name, send.arguments, send.target_run):
            return Refusal(outcome="request_id_conflict")
        return Receipt(
            signal_id=found.signal_id,
            sequence=found.sequence,
            conversation_id=locked.state.id,
            run_id=found.accepted_run,
            request_id=send.request_id,
            duplicate=True,
        )

    def cancel(self, conversation_id: str) -> Refusal | State:
        """END-5: at once while nothing is being done, else at the next safe point."""
        with self._database.locked(conversation_id) as locked:
            if locked is None:
                return Refusal(outcome="rejected_not_started")
            if locked.state.closed:
                return Refusal(outcome="rejected_not_active")
            if locked.state.task_id is None:
                close_conversation(locked, "cancelled")
            elif not locked.state.cancel_requested:
                locked.note("cancel_requested")
                locked.change(cancel_requested=True)
            return locked.state


def wake(locked: Locked, queue: Queue) -> None:
    """Make sure that a task exists. The caller has seen that none does."""
    state = locked.state
    task_id = f"{state.id}/t{state.task_number + 1}"
    queue.enqueue(locked.connection, state.id, task_id)
    locked.change(
        task_id=task_id,
        task_number=state.task_number + 1,
        task_claim=None,
        task_owner=None,
        task_enqueued_at=locked.now,
        task_repairs=0,
        task_retry_at=0.0,
    )


def crossing(state: State) -> dict[str, Any]:
    """All that a generation is given by the one before (CAN-2)."""
    return {
        "generation": state.generation,
        "turn_count": state.turn_count,
        "summary": state.summary,
        "latest_reply_reference": state.latest_reply_reference,
    }


def new_run_id() -> str:
    return f"run-{uuid.uuid4().hex}"


def _new_id(start: Start) -> str:
    """A start that is repeated with its request id finds the conversation that it made."""
    if start.request_id is None:
        return f"conv-{uuid.uuid4().hex}"
    named = json.dumps([start.sender, start.profile, start.request_id])
    return f"conv-{hashlib.sha256(named.encode()).hexdigest()[:32]}"


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(dict(value), ensure_ascii=False)


def _fresh_row(start: Start, conversation_id: str, run_id: str, now: float) -> Mapping[str, Any]:
    limit = start.options.summary_max_chars
    return {
        "id": conversation_id,
        "profile": start.profile,
        "options": json.dumps(start.options.to_dict()),
        "generation": 1,
        "run_id": run_id,
        "phase": "waiting_for_input",
        "turn_count": 0,
        "turns_this_run": 0,
        "wait_since": now,
        "deadline": now + start.options.inactivity_seconds,
        "summary": start.summary[-limit:] if limit else "",
        "metadata": _json(start.metadata),
        "buffered_messages": 0,
        "buffered_decisions": 0,
        "cancel_requested": 0,
        "next_sequence": 1,
        "next_event": 1,
        "task_number": 0,
        "task_repairs": 0,
        "task_retry_at": 0.0,
        "started_by": start.sender,
        "created_at": now,
        "updated_at": now,
    }


def _check_alone(send: Send, limits: rules.Limits) -> Refusal | None:
    """What can be refused before there is a conversation: all or nothing (START-3)."""
    if send.request_id is not None and not rules.is_request_id(send.request_id):
        return Refusal(
            outcome="rejected_invalid_arguments",
            errors={"request_id": "must be 1 to 200 printable characters"},
        )
    arguments = rules.signal_arguments(send.name, send.arguments)
    if isinstance(arguments, Refusal):
        return arguments
    size = len(json.dumps(arguments, ensure_ascii=False).encode())
    return rules.payload_too_large(size, limits)


def _run_exists(locked: Locked, run_id: str) -> bool:
    run = tables.runs.c
    query = select(run.generation).where(
        run.run_id == run_id, run.conversation_id == locked.state.id
    )
    return locked.connection.execute(query).first() is not None


def _log_refusal(locked: Locked, send: Send, refusal: Refusal) -> None:
    row = {
        "conversation_id": locked.state.id,
        "name": send.name[:200],
        "outcome": refusal.outcome,
        "reason": refusal.reason or "; ".join(f"{k} {v}" for k, v in refusal.errors.items()),
        "sender": send.sender,
        "request_id": send.request_id if rules.is_request_id(send.request_id or "") else None,
        "at": locked.now,
    }
    locked.connection.execute(insert(tables.refusals).values(row))
