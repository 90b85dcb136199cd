"""The values of durable conversations. Numbers of rules are those of the specification."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from Middleware.core.errors import MalformedRequest, MiddlewareError

Phase: TypeAlias = Literal[
    "waiting_for_input",
    "thinking",
    "awaiting_approval",
    "applying_action",
    "recording_reply",
    "continuing_as_new",
    "completed",
]
ClosedReason: TypeAlias = Literal["ended", "inactivity", "cancelled", "failed"]
Decision: TypeAlias = Literal["approved", "declined", "timed_out"]
TurnOutcome: TypeAlias = Literal[
    "replied", "approved", "declined", "timed_out", "failed", "action_failed"
]

RUN_CLOSED = "run_closed_before_signal_applied"
PROPOSAL_MISMATCH = "proposal_mismatch"
WITHDRAWN = "withdrawn_by_sender"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Fixed at the start, and carried from one generation to the next (START-4)."""

    turns_per_run: int = 3
    inactivity_seconds: float = 3600
    decision_timeout_seconds: float = 3600
    summary_max_chars: int = 2000

    @classmethod
    def parse(cls, given: Mapping[str, Any], defaults: "Options | None" = None) -> "Options":
        """Raises MalformedRequest naming the option."""
        known = {item.name for item in fields(cls)}
        for name, value in given.items():
            if name not in known:
                raise MalformedRequest(f"options.{name}", "is not an option")
            _check_number(name, value)
        base = defaults or cls()
        chosen = {name: getattr(base, name) for name in known} | dict(given)
        if "inactivity_seconds" in given and "decision_timeout_seconds" not in given:
            chosen["decision_timeout_seconds"] = given["inactivity_seconds"]
        return cls(**chosen)

    def to_dict(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}


_WHOLE = {"turns_per_run": 1, "summary_max_chars": 0}
_LONGEST_SECONDS = 10 * 365 * 86400


def _check_number(name: str, value: Any) -> None:
    smallest = _WHOLE.get(name)
    if smallest is not None:
        fits = type(value) is int and value >= smallest
        expected = f"must be a whole number of at least {smallest}"
    else:
        fits = type(value) in (int, float) and 0 <= value <= _LONGEST_SECONDS
        expected = "must be a number of seconds, zero or more"
    if not fits:
        raise MalformedRequest(f"options.{name}", expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One conversation: the row that is locked while anything about it changes."""

    id: str
    profile: str
    options: Options
    generation: int
    run_id: str
    phase: Phase
    closed_reason: ClosedReason | None
    turn_count: int
    turns_this_run: int
    turn: int | None
    """The turn in progress."""
    proposal_id: str | None
    wait_since: float | None
    deadline: float | None
    """When the open wait ends; null while nobody waits. Seconds since 1970, like all times."""
    summary: str
    latest_reply_reference: str | None
    buffered_messages: int
    buffered_decisions: int
    cancel_requested: bool
    next_sequence: int
    next_event: int
    task_id: str | None
    task_number: int
    task_claim: str | None
    """Names the one execution of the task that may write; a later execution displaces it."""
    task_owner: str | None
    task_enqueued_at: float | None
    task_repairs: int
    task_retry_at: float
    started_by: str | None
    created_at: float
    updated_at: float

    @property
    def closed(self) -> bool:
        return self.phase == "completed"


SignalStatus: TypeAlias = Literal["received", "applied", "ignored", "rejected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One accepted input (LIFE)."""

    conversation_id: str
    sequence: int
    signal_id: str
    name: str
    arguments: Mapping[str, Any]
    target_run: str | None
    sender: str | None
    request_id: str | None
    accepted_run: str
    received_at: float
    status: SignalStatus = "received"
    reason: str | None = None
    applied_run: str | None = None
    applied_turn: int | None = None
    closed_at: float | None = None

    def to_dict(self) -> dict[str, Any]:
        shown = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**shown, "arguments": dict(self.arguments)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The answer to a send that was accepted (ACC-3)."""

    signal_id: str
    sequence: int
    conversation_id: str
    run_id: str
    request_id: str | None
    duplicate: bool = False

    accepted: Literal[True] = True

    def to_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "accepted": True,
            "outcome": "signal_received",
            "signal_id": self.signal_id,
            "sequence": self.sequence,
            "conversation_id": self.conversation_id,
            "run_id": self.run_id,
            "duplicate": self.duplicate,
        }
        return shown | ({"request_id": self.request_id} if self.request_id else {})


RefusalOutcome: TypeAlias = Literal[
    "request_id_conflict",
    "rejected_not_started",
    "rejected_not_current",
    "rejected_not_active",
    "rejected_unknown_run",
    "rejected_unknown_signal",
    "rejected_invalid_arguments",
    "rejected_structural_limit",
    "rejected_duplicate",
    "rejected_not_allowed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A normal answer, never an exception (ACC-4)."""

    outcome: RefusalOutcome
    reason: str | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    """What is wrong, by field."""

    accepted: Literal[False] = False

    def to_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"accepted": False, "outcome": self.outcome}
        if self.reason:
            shown["reason"] = self.reason
        return shown | ({"errors": dict(self.errors)} if self.errors else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a model proposes to do."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutcome:
    """What one model call of a turn gave (MODEL-5)."""

    reply: str
    action: Action | None = None
    summary: str | None = None
    """A whole new summary; it is cut to the conversation's limit whatever its length."""
    summary_note: str | None = None
    """Added to the summary when ``summary`` is null."""
    replies: Mapping[str, str] = field(default_factory=dict)
    """Reply texts by decision (``approved``, ``declined``, ``timed_out``), where the model
    has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTurn:
    """One earlier turn, read by reference."""

    text: str
    reply: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """Input of the model call of a turn (MODEL-1); the same for each attempt but ``attempt``."""

    conversation_id: str
    run_id: str
    generation: int
    turn: int
    attempt: int
    profile: str
    text: str
    summary: str
    summary_max_chars: int
    recent: tuple[PastTurn, ...] = ()
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What the door kept with the message; ``variables`` in it are for the workflow."""

    @property
    def idempotency_key(self) -> str:
        return f"{self.conversation_id}:{self.turn}:model"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCall:
    """Input of an approved action; ``reference`` is the key for any outside system (DEC-2)."""

    conversation_id: str
    turn: int
    attempt: int
    profile: str
    action: Action
    reviewer: str | None

    @property
    def reference(self) -> str:
        return action_reference(self.conversation_id, self.turn)


def reply_reference(conversation_id: str, turn: int) -> str:
    return f"{conversation_id}:{turn}"


def action_reference(conversation_id: str, turn: int) -> str:
    return f"{conversation_id}:{turn}:action"


class LostTask(MiddlewareError):
    """This execution no longer owns its task: another one goes on from here (MODEL-4)."""

    status = 503
    code = "task_lost"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"Conversation {conversation_id!r} is worked on elsewhere by now.")


class BadOutcome(MiddlewareError):
    """A model's answer that cannot be used; asking again is no remedy (MAP-3)."""

    status = 502
    code = "outcome_unusable"
    should_retry = False


class UnreadableConversation(MiddlewareError):
    """A row that was damaged, or changed by hand, into something that is no conversation."""

    status = 500
    code = "conversation_unreadable"
    should_retry = False

    def __init__(self, conversation_id: str, problem: str) -> None:
        super().__init__(
            f"Conversation {conversation_id!r} cannot be read, its row in the table"
            f" `conversations` is damaged: {problem}. Mend the row, or bring it back from a backup;"
            " it then goes on within a minute."
        )


class StorageUnavailable(MiddlewareError):
    """The database of the conversations cannot be reached just now (FAIL-9)."""

    status = 503
    code = "storage_unavailable"

    def __init__(self, *, detail: str | None = None) -> None:
        super().__init__("The store of conversations cannot be reached.", detail=detail)
        self.retry_after = "2"
