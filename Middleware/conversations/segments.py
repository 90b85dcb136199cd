"""Segments: from one accepted signal to the reply or to the proposal (specification §20).

A segment is nothing that is stored. It is read off the signal, its turn and its record, so that
every process, and every start of one, says the same of it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from sqlalchemy import Select, select

from Middleware.conversations import rules, tables
from Middleware.conversations.database import Database
from Middleware.conversations.models import PROPOSAL_MISMATCH, WITHDRAWN, reply_reference

SegmentStatus: TypeAlias = Literal[
    "queued", "in_progress", "completed", "failed", "cancelled", "incomplete"
]

_FAILED = ("failed", "action_failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What was proposed, whatever has become of it since."""

    id: str
    action: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """How one accepted signal has fared."""

    signal_id: str
    conversation_id: str
    profile: str
    name: str
    arguments: Mapping[str, Any]
    sequence: int
    received_at: float
    status: SegmentStatus
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What the door kept with the signal."""
    turn: int | None = None
    phase: str = ""
    """Of the conversation, now."""
    text: str | None = None
    """The recorded reply; null while there is none, and when retention has removed it."""
    proposal: Proposal | None = None
    late_text: str | None = None
    """The reply after a proposal that nobody decided in time."""
    error: str | None = None
    decided: bool = False
    """Whether a decision is on its way to be taken."""
    mismatched: bool = False
    """A decision that named no pending proposal (DEC-1)."""

    @property
    def done(self) -> bool:
        return self.status not in ("queued", "in_progress")

    @property
    def is_end(self) -> bool:
        """Whether it ended the conversation, which gives no reply."""
        text = self.arguments.get("text")
        return isinstance(text, str) and text.strip() == rules.IS_END


class Segments:
    """Reads only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, signal_id: str) -> Segment | None:
        return self._first(_query().where(tables.signals.c.signal_id == signal_id))

    def by_request(self, conversation_id: str, request_id: str) -> Segment | None:
        """The signal that was accepted under this request id (IDEM-3)."""
        signal = tables.signals.c
        here = (signal.conversation_id == conversation_id) & (signal.request_id == request_id)
        return self._first(_query().where(here))

    def latest(self, conversation_id: str) -> Segment | None:
        """That of the signal with the highest number."""
        signal = tables.signals.c
        query = _query().where(signal.conversation_id == conversation_id)
        return self._first(query.order_by(signal.sequence.desc()).limit(1))

    def proposed_in(self, proposal_id: str) -> str | None:
        """The conversation that a proposal was ever made in."""
        turn = tables.turns.c
        query = select(turn.conversation_id).where(turn.proposal_id == proposal_id)
        with self._database.transaction() as connection:
            found: str | None = connection.execute(query).scalar()
        return found

    def texts(self, conversation_id: str, door: str) -> list[tuple[int, str]]:
        """Sequence and text of the messages that came through one door and were not refused
        since."""
        signal = tables.signals.c
        query = select(signal.sequence, signal.arguments, signal.asked).where(
            signal.conversation_id == conversation_id,
            signal.name == "message",
            signal.asked.is_not(None),
            signal.status != "rejected",
        )
        with self._database.transaction() as connection:
            rows = connection.execute(query.order_by(signal.sequence)).all()
        return [
            (row.sequence, json.loads(row.arguments)["text"])
            for row in rows
            if json.loads(row.asked).get("door") == door
        ]

    def of_conversation(self, conversation_id: str) -> list[Segment]:
        """All that belong to turns, in their order: that of the message, then that of the
        decision where there was one."""
        signal = tables.signals.c
        query = _query().where(
            signal.conversation_id == conversation_id,
            signal.status == "applied",
            signal.applied_turn.is_not(None),
        )
        with self._database.transaction() as connection:
            rows = connection.execute(query.order_by(signal.applied_turn, signal.sequence))
            return [segment_of(row) for row in rows.mappings()]

    def labels(self, conversation_id: str) -> dict[str, Any]:
        """What a client has put on it."""
        talk = tables.conversations.c
        query = select(talk.metadata).where(talk.id == conversation_id)
        with self._database.transaction() as connection:
            found = connection.execute(query).scalar()
        labels: dict[str, Any] = json.loads(found) if found else {}
        return labels

    def _first(self, query: Select[Any]) -> Segment | None:
        with self._database.transaction() as connection:
            row = connection.execute(query).mappings().first()
        return segment_of(row) if row else None


def _query() -> Select[Any]:
    signal, turn, record = tables.signals, tables.turns, tables.records
    talk = tables.conversations
    columns: Sequence[Any] = (
        *(signal.c.signal_id, signal.c.conversation_id, signal.c.name, signal.c.arguments),
        *(signal.c.sequence, signal.c.received_at, signal.c.status, signal.c.reason),
        *(signal.c.asked, signal.c.applied_turn, talk.c.profile, talk.c.phase),
        talk.c.buffered_decisions,
        *(turn.c.proposal_id, turn.c.action_name, turn.c.action_arguments, turn.c.outcome),
        *(turn.c.error, turn.c.ended_at, turn.c.stop_requested),
        record.c.text.label("reply_text"),
    )
    of_turn = (turn.c.conversation_id == signal.c.conversation_id) & (
        turn.c.turn == signal.c.applied_turn
    )
    of_record = (record.c.conversation_id == signal.c.conversation_id) & (
        record.c.turn == signal.c.applied_turn
    )
    return (
        select(*columns)
        .join_from(signal, talk, talk.c.id == signal.c.conversation_id)
        .outerjoin(turn, of_turn)
        .outerjoin(record, of_record)
    )


def segment_of(row: Mapping[Any, Any]) -> Segment:
    """One row of the joined tables as a segment."""
    status = _status(row)
    ends = status in ("completed", "failed", "cancelled") and not _proposes(row)
    return Segment(
        signal_id=row["signal_id"],
        conversation_id=row["conversation_id"],
        profile=row["profile"],
        name=row["name"],
        arguments=json.loads(row["arguments"]),
        sequence=row["sequence"],
        received_at=row["received_at"],
        status=status,
        asked=json.loads(row["asked"]) if row["asked"] else {},
        turn=row["applied_turn"],
        phase=row["phase"],
        text=row["reply_text"] if ends else None,
        proposal=_proposal(row),
        late_text=row["reply_text"] if row["outcome"] == "timed_out" else None,
        error=row["error"] if ends else None,
        decided=row["buffered_decisions"] > 0,
        mismatched=row["reason"] == PROPOSAL_MISMATCH,
    )


def _status(row: Mapping[Any, Any]) -> SegmentStatus:
    if row["status"] == "received":
        return "queued"
    if row["status"] == "ignored":
        return "failed"
    if row["status"] == "rejected":
        return "cancelled" if row["reason"] == WITHDRAWN else "incomplete"
    if row["applied_turn"] is None or _proposes(row):
        return "completed"
    if row["outcome"] in _FAILED:
        return "cancelled" if row["stop_requested"] else "failed"
    if row["outcome"] is not None:
        return "completed"
    # A turn that ended without an outcome went with its conversation (END-5).
    return "in_progress" if row["ended_at"] is None else "cancelled"


def _proposes(row: Mapping[Any, Any]) -> bool:
    """What a message leads to is the proposal; the reply belongs to the decision (RESP-4)."""
    return row["name"] == "message" and row["proposal_id"] is not None


def _proposal(row: Mapping[Any, Any]) -> Proposal | None:
    if not _proposes(row):
        return None
    return Proposal(
        id=row["proposal_id"],
        action=row["action_name"],
        arguments=json.loads(row["action_arguments"]),
    )


def reference_of(segment: Segment) -> str | None:
    """Where the reply of its turn is kept."""
    if segment.turn is None:
        return None
    return reply_reference(segment.conversation_id, segment.turn)
