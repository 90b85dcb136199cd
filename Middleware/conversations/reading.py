"""What can be asked about conversations. Nothing here changes anything (STAT-3), or needs a
worker (STAT-4).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, case, func, select

from Middleware.conversations import rules, tables
from Middleware.conversations.database import Database, state_of
from Middleware.conversations.leases import living
from Middleware.conversations.models import Signal, State, reply_reference
from Middleware.conversations.page import MOST_LISTED, Page


class Reader:
    def __init__(self, database: Database, redispatch_after_seconds: float = 3.0) -> None:
        self._database = database
        self._redispatch_after = redispatch_after_seconds

    def state(self, conversation_id: str) -> State | None:
        with self._database.transaction() as connection:
            return _state(connection, conversation_id)

    def status(self, conversation_id: str, run_id: str | None = None) -> dict[str, Any] | None:
        """Section 8; None when there is no such conversation, or it has no such run."""
        with self._database.transaction() as connection:
            state = _state(connection, conversation_id)
            if state is None:
                return None
            if run_id is not None and run_id != state.run_id:
                return _closed_status(connection, state, run_id)
            return {
                "conversation_id": state.id,
                "run_id": state.run_id,
                "generation": state.generation,
                "phase": state.phase,
                "turn_count": state.turn_count,
                "turns_this_run": state.turns_this_run,
                "pending_proposal": _proposal(connection, state),
                "latest_reply_reference": state.latest_reply_reference,
                "closed_reason": state.closed_reason,
                "buffered": {
                    "message": state.buffered_messages,
                    "decision": state.buffered_decisions,
                },
                "updated_at": state.updated_at,
            }

    def describe(self, conversation_id: str) -> dict[str, Any] | None:
        """The operator's view (HIST-2), without the events themselves."""
        with self._database.transaction() as connection:
            state = _state(connection, conversation_id)
            if state is None:
                return None
            alive = living(self._database, connection)
            now = self._database.now(connection)
            shown = _summary(state)
            shown["options"] = state.options.to_dict()
            shown["started_by"] = state.started_by
            shown["summary"] = state.summary
            shown["runs"] = _runs(connection, state)
            shown["result"] = shown["runs"][-1]["result"] if state.closed else None
            shown["wait"] = _wait(state)
            shown["task"] = _task(connection, state)
            shown["liveness"] = rules.liveness(
                state,
                owner_lives=state.task_owner in alive,
                now=now,
                redispatch_after=self._redispatch_after,
            )
            return shown

    def conversations(
        self,
        page: Page,
        *,
        status: str | None = None,
        profile: str | None = None,
        hidden: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Newest first, with how many there are of each kind; none of the ``hidden`` profiles."""
        row = tables.conversations
        seen = row.c.profile.not_in(hidden)
        query = select(row).where(seen).order_by(row.c.created_at.desc(), row.c.id.desc())
        if status is not None:
            query = query.where(_kind() == status)
        if profile is not None:
            query = query.where(row.c.profile == profile)
        with self._database.transaction() as connection:
            before = _state(connection, page.after) if page.after else None
            if before is not None:
                older = (row.c.created_at < before.created_at) | (
                    (row.c.created_at == before.created_at) & (row.c.id < before.id)
                )
                query = query.where(older)
            found = connection.execute(query.limit(page.size)).mappings().all()
            # Not grouped by the expression itself: PostgreSQL takes two with parameters for two.
            kinds = select(_kind().label("kind")).where(seen).subquery()
            counted = select(kinds.c.kind, func.count()).group_by(kinds.c.kind)
            counts = connection.execute(counted).all()
        # Not as states: one that is damaged is in the list all the same.
        shown = [{name: values[column] for name, column in _LISTED.items()} for values in found]
        return {
            "conversations": shown,
            "next": shown[-1]["conversation_id"] if len(shown) == page.size else None,
            "counts": {"running": 0, "completed": 0, "failed": 0} | {k: n for k, n in counts},
        }

    def signals(self, conversation_id: str, page: Page) -> dict[str, Any] | None:
        signal = tables.signals
        query = (
            select(signal)
            .where(signal.c.conversation_id == conversation_id, signal.c.sequence > page.number)
            .order_by(signal.c.sequence)
            .limit(page.size)
        )
        with self._database.transaction() as connection:
            if _state(connection, conversation_id) is None:
                return None
            found = connection.execute(query).mappings().all()
        shown = [_signal(values).to_dict() for values in found]
        more = str(shown[-1]["sequence"]) if len(shown) == page.size else None
        return {"conversation_id": conversation_id, "signals": shown, "next": more}

    def signal(self, conversation_id: str, signal_id: str) -> dict[str, Any] | None:
        signal = tables.signals
        query = select(signal).where(
            signal.c.conversation_id == conversation_id, signal.c.signal_id == signal_id
        )
        with self._database.transaction() as connection:
            found = connection.execute(query).mappings().first()
        return _signal(found).to_dict() if found else None

    def record(self, conversation_id: str, turn: int) -> dict[str, Any] | None:
        """REP-5."""
        return self.record_of(reply_reference(conversation_id, turn))

    def record_of(self, reference: str) -> dict[str, Any] | None:
        record = tables.records
        query = select(record).where(record.c.reference == reference)
        with self._database.transaction() as connection:
            found = connection.execute(query).mappings().first()
        return _plain(found) if found else None

    def transcript(self, conversation_id: str, page: Page) -> dict[str, Any] | None:
        """Applied messages with their replies, in turn order over all runs (HIST-3)."""
        turn, signal, record = tables.turns, tables.signals, tables.records
        of_turn = (record.c.conversation_id == turn.c.conversation_id) & (
            record.c.turn == turn.c.turn
        )
        of_message = (signal.c.conversation_id == turn.c.conversation_id) & (
            signal.c.sequence == turn.c.message_sequence
        )
        query = (
            select(turn, signal.c.arguments, signal.c.sender, record.c.text.label("reply_text"))
            .join_from(turn, signal, of_message)
            .outerjoin(record, of_turn)
            .where(turn.c.conversation_id == conversation_id, turn.c.turn > page.number)
            .order_by(turn.c.turn)
            .limit(page.size)
        )
        with self._database.transaction() as connection:
            if _state(connection, conversation_id) is None:
                return None
            found = connection.execute(query).mappings().all()
        shown = [_transcript_turn(values) for values in found]
        more = str(shown[-1]["turn"]) if len(shown) == page.size else None
        return {"conversation_id": conversation_id, "turns": shown, "next": more}

    def history(
        self, conversation_id: str, page: Page, run_id: str | None = None
    ) -> dict[str, Any] | None:
        """HIST-1."""
        event = tables.history
        query = select(event).where(
            event.c.conversation_id == conversation_id, event.c.number > page.number
        )
        if run_id is not None:
            query = query.where(event.c.run_id == run_id)
        with self._database.transaction() as connection:
            if _state(connection, conversation_id) is None:
                return None
            found = connection.execute(query.order_by(event.c.number).limit(page.size)).mappings()
            shown = [_event(values) for values in found]
        more = str(shown[-1]["number"]) if len(shown) == page.size else None
        return {"conversation_id": conversation_id, "events": shown, "next": more}

    def refusals(self, conversation_id: str, page: Page) -> list[dict[str, Any]]:
        """The command log: sends that were refused (ACC-4)."""
        row = tables.refusals
        query = select(row).where(row.c.conversation_id == conversation_id, row.c.id > page.number)
        with self._database.transaction() as connection:
            found = connection.execute(query.order_by(row.c.id).limit(page.size)).mappings()
            return [_plain(values) for values in found]

    def export(self, conversation_id: str) -> dict[str, Any] | None:
        """Everything about one conversation as one document (HIST-5)."""
        shown = self.describe(conversation_id)
        if shown is None:
            return None
        for name, read in (
            ("signals", self.signals),
            ("turns", self.transcript),
            ("events", self.history),
        ):
            shown[name] = []
            after: str | None = "0"
            while after is not None:
                part = read(conversation_id, Page(limit=MOST_LISTED, after=after))
                assert part is not None
                shown[name] += part[name]
                after = part["next"]
        shown["refusals"] = self.refusals(conversation_id, Page(limit=MOST_LISTED))
        return shown


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row's column names are of a class of their own, which not every JSON writer takes."""
    return {str(name): value for name, value in row.items()}


def _state(connection: Connection, conversation_id: str | None) -> State | None:
    row = tables.conversations
    found = connection.execute(select(row).where(row.c.id == conversation_id)).mappings().first()
    return state_of(found) if found else None


def _kind() -> Any:
    row = tables.conversations.c
    return case(
        (row.phase != "completed", "running"),
        (row.closed_reason == "failed", "failed"),
        else_="completed",
    )


def _closed_status(connection: Connection, state: State, run_id: str) -> dict[str, Any] | None:
    """A run as it closed (STAT-5)."""
    run = tables.runs
    query = select(run).where(run.c.conversation_id == state.id, run.c.run_id == run_id)
    found = connection.execute(query).mappings().first()
    if found is None:
        return None
    result = json.loads(found["result"])
    return {
        "conversation_id": state.id,
        "run_id": run_id,
        "generation": found["generation"],
        "phase": "completed",
        "turn_count": result["turn_count"],
        "turns_this_run": result["turns_this_run"],
        "pending_proposal": None,
        "latest_reply_reference": result["latest_reply_reference"],
        "closed_reason": None,
        "buffered": {"message": 0, "decision": 0},
        "updated_at": found["closed_at"],
    }


def _proposal(connection: Connection, state: State) -> dict[str, Any] | None:
    if state.proposal_id is None:
        return None
    turn = tables.turns
    query = select(turn.c.action_name, turn.c.action_arguments).where(
        turn.c.conversation_id == state.id, turn.c.turn == state.turn
    )
    found = connection.execute(query).one()
    return {
        "id": state.proposal_id,
        "action": found.action_name,
        "arguments": json.loads(found.action_arguments),
        "turn": state.turn,
        "deadline": state.deadline,
    }


_LISTED = {
    "conversation_id": "id",
    "profile": "profile",
    "run_id": "run_id",
    "generation": "generation",
    "phase": "phase",
    "turn_count": "turn_count",
    "latest_reply_reference": "latest_reply_reference",
    "closed_reason": "closed_reason",
    "created_at": "created_at",
    "updated_at": "updated_at",
}
"""What lists tell of a conversation, and in which column it is."""


def _summary(state: State) -> dict[str, Any]:
    return {name: getattr(state, column) for name, column in _LISTED.items()}


def _runs(connection: Connection, state: State) -> list[dict[str, Any]]:
    """The newest runs, oldest first; each names those before and after it (CAN-8)."""
    run = tables.runs
    query = select(run).where(run.c.conversation_id == state.id)
    newest = query.order_by(run.c.generation.desc()).limit(MOST_LISTED)
    found = [_plain(values) for values in connection.execute(newest).mappings()]
    for values in found:
        del values["conversation_id"]
        values["state_in"] = json.loads(values["state_in"])
        values["result"] = json.loads(values["result"]) if values["result"] else None
        ended = values["closed_at"]
        values["duration_seconds"] = ended and ended - values["started_at"]
    return found[::-1]


def _wait(state: State) -> dict[str, Any] | None:
    kind = rules.WAITS.get(state.phase)
    if kind is None:
        return None
    return {"kind": kind, "since": state.wait_since, "until": state.deadline}


def _task(connection: Connection, state: State) -> dict[str, Any] | None:
    if state.task_id is None:
        return None
    executor = tables.executors.c
    query = select(executor.expires_at).where(executor.id == state.task_owner)
    return {
        "id": state.task_id,
        "owner": state.task_owner,
        "lease_expires_at": connection.execute(query).scalar(),
        "enqueued_at": state.task_enqueued_at,
        "repairs": state.task_repairs,
    }


def _signal(values: Mapping[Any, Any]) -> Signal:
    known = {name: values[name] for name in values if name not in ("fingerprint", "asked")}
    return Signal(**{**known, "arguments": json.loads(values["arguments"])})


def _transcript_turn(values: Mapping[Any, Any]) -> dict[str, Any]:
    action = None
    if values["action_name"] is not None:
        action = {
            "name": values["action_name"],
            "arguments": json.loads(values["action_arguments"]),
            "proposal_id": values["proposal_id"],
            "decision": values["decision"],
            "reviewer": values["reviewer"],
            "decided_by": values["decided_by"],
        }
    recorded = values["outcome"] is not None
    return {
        "turn": values["turn"],
        "generation": values["generation"],
        "run_id": values["run_id"],
        "text": json.loads(values["arguments"])["text"],
        "sender": values["sender"],
        "reply": values["reply_text"],
        "reference": reply_reference(values["conversation_id"], values["turn"])
        if recorded
        else None,
        # A reply that was recorded and is not there any more was removed (HIST-4).
        "expired": recorded and values["reply_text"] is None,
        "outcome": values["outcome"],
        "error": values["error"],
        "action": action,
    }


def _event(values: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        "number": values["number"],
        "run_id": values["run_id"],
        "type": values["type"],
        "at": values["at"],
        **json.loads(values["data"]),
    }
