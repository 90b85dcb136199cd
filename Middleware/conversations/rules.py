"""What a signal, a timeout or a result does to a conversation: pure functions, no engine."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from Middleware.conversations.models import (
    Action,
    ClosedReason,
    Decision,
    ModelOutcome,
    Phase,
    Refusal,
    State,
    TurnOutcome,
)

SIGNALS: Mapping[str, Mapping[str, type]] = {
    "message": {"text": str},
    "decision": {"proposalId": str, "approved": bool, "reviewer": str},
}
"""The declared signals; fields in declared order, all required, none nullable (SIG)."""

WAITS: Mapping[Phase, str] = {"waiting_for_input": "message", "awaiting_approval": "decision"}
"""Which signal a waiting conversation takes."""

STEPS: Mapping[Phase, str] = {
    "waiting_for_input": "take",
    "thinking": "think",
    "awaiting_approval": "take",
    "applying_action": "act",
    "recording_reply": "reply",
    "continuing_as_new": "hand_over",
    "completed": "done",
}
"""What is to be done next. The phase is all that an engine needs to know to go on."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TYPES = {str: "must be a string", bool: "must be true or false"}


def is_conversation_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def is_request_id(text: str) -> bool:
    return 1 <= len(text) <= 200 and text.isprintable()


def signal_arguments(name: str, given: Any) -> dict[str, Any] | Refusal:
    """The arguments as named fields, or why they are refused (SIG-1 to SIG-3)."""
    declared = SIGNALS.get(name)
    if declared is None:
        return Refusal(outcome="rejected_unknown_signal", reason=f"there is no signal {name!r}")
    if isinstance(given, list):
        if len(given) > len(declared):
            return _invalid({f"[{len(declared)}]": "is one argument too many"})
        given = dict(zip(declared, given, strict=False))
    if not isinstance(given, Mapping):
        return _invalid({"arguments": "must be an object or a list"})
    errors = {key: "is not a field of this signal" for key in given if key not in declared}
    for key, kind in declared.items():
        if key not in given:
            errors[key] = "is missing"
        # `True` is an `int` and `1` equals `True`: only the exact type will do.
        elif type(given[key]) is not kind:
            errors[key] = _TYPES[kind]
        elif kind is str and not _is_text(given[key]):
            errors[key] = "has characters that no text can hold"
    return _invalid(errors) if errors else {key: given[key] for key in declared}


def _is_text(value: str) -> bool:
    """Lone surrogates cannot be stored anywhere, and PostgreSQL has no NUL."""
    return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)


def _invalid(errors: Mapping[str, str]) -> Refusal:
    return Refusal(outcome="rejected_invalid_arguments", errors=errors)


def fingerprint(name: str, arguments: Any, target: str | None) -> str:
    """Two sends under one request id are the same send when this is equal (IDEM-1, IDEM-2)."""
    declared = SIGNALS.get(name)
    if isinstance(arguments, list) and declared and len(arguments) <= len(declared):
        arguments = dict(zip(declared, arguments, strict=False))
    text = json.dumps([name, arguments, target], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check_target(state: State | None, target: str | None, *, target_exists: bool) -> Refusal | None:
    """The checks of ACC-2 that concern the conversation and its runs (TGT)."""
    if state is None:
        return Refusal(outcome="rejected_not_started")
    if target is not None and not target_exists:
        return Refusal(outcome="rejected_unknown_run")
    if target is not None and target != state.run_id:
        return Refusal(outcome="rejected_not_current")
    if state.closed:
        return Refusal(outcome="rejected_not_active")
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """SIG-4."""

    payload_bytes: int = 256 * 1024
    unapplied_signals: int = 1000


def check_limits(state: State, payload_bytes: int, limits: Limits) -> Refusal | None:
    too_large = payload_too_large(payload_bytes, limits)
    if too_large is not None:
        return too_large
    unapplied = state.buffered_messages + state.buffered_decisions
    if unapplied >= limits.unapplied_signals:
        told = f"{unapplied} wait to be applied, {limits.unapplied_signals} may"
        return _over_limit("signals", told)
    return None


def payload_too_large(payload_bytes: int, limits: Limits) -> Refusal | None:
    if payload_bytes <= limits.payload_bytes:
        return None
    return _over_limit("payload", f"{payload_bytes} bytes, {limits.payload_bytes} are allowed")


def _over_limit(place: str, told: str) -> Refusal:
    return Refusal(
        outcome="rejected_structural_limit",
        reason="structural_limit_exceeded",
        errors={place: told},
    )


def is_waited_for(state: State, name: str) -> bool:
    """Whether accepting this signal must make a task runnable (ACC-1)."""
    return WAITS.get(state.phase) == name and state.task_id is None


# What comes next


@dataclass(frozen=True, slots=True)
class Buffered:
    """An accepted signal that waits to be applied, as far as a choice depends on it."""

    sequence: int
    text: str = ""
    proposal_id: str = ""
    approved: bool = False


@dataclass(frozen=True, slots=True)
class StartTurn:
    message: Buffered


@dataclass(frozen=True, slots=True)
class Close:
    reason: ClosedReason
    message: Buffered | None = None


@dataclass(frozen=True, slots=True)
class Decide:
    decision: Decision
    by: Buffered | None
    ignored: tuple[Buffered, ...] = ()


@dataclass(frozen=True, slots=True)
class Park:
    """Nothing to do before ``deadline``, or a signal that is waited for."""

    deadline: float
    ignored: tuple[Buffered, ...] = ()


Move: TypeAlias = StartTurn | Close | Decide | Park

IS_END = "/end"


def next_input(state: State, message: Buffered | None, now: float) -> StartTurn | Close | Park:
    """Steps 2 and 3 of the turn loop; a buffered message goes before any deadline (LOOP-4)."""
    if message is not None:
        if message.text.strip() == IS_END:
            return Close("ended", message)
        return StartTurn(message)
    deadline = state.deadline
    if deadline is None:
        deadline = now + state.options.inactivity_seconds
    return Close("inactivity") if now >= deadline else Park(deadline)


def next_decision(state: State, decisions: Iterable[Buffered], now: float) -> Decide | Park:
    """The first decision that names the pending proposal counts, all before it are ignored; one
    that was accepted goes before the timeout (DEC-1, DEC-5, DEC-6).
    """
    ignored: list[Buffered] = []
    for decision in decisions:
        if decision.proposal_id == state.proposal_id:
            answer: Decision = "approved" if decision.approved else "declined"
            return Decide(answer, decision, tuple(ignored))
        ignored.append(decision)
    if state.deadline is not None and now >= state.deadline:
        return Decide("timed_out", None, tuple(ignored))
    return Park(state.deadline or now, tuple(ignored))


def phase_after_decision(decision: Decision) -> Phase:
    return "applying_action" if decision == "approved" else "recording_reply"


def phase_after_model(action: Action | None, *, needs_approval: bool) -> Phase:
    """PROP-1, MAP-4."""
    if action is None:
        return "recording_reply"
    return "awaiting_approval" if needs_approval else "applying_action"


def run_is_full(state: State) -> bool:
    """Step 1 of the turn loop: it comes before the wait (LOOP-2)."""
    return state.turns_this_run >= state.options.turns_per_run


def must_have_task(state: State) -> bool:
    """Whether a task must exist for the conversation to go on (REPAIR-1)."""
    if state.closed:
        return False
    if state.phase == "waiting_for_input":
        return state.buffered_messages > 0
    return state.phase != "awaiting_approval" or state.buffered_decisions > 0


# Texts


def bounded_summary(summary: str, outcome: ModelOutcome, limit: int) -> str:
    """The oldest text falls out first, whatever a model returns (CAN-3, FAKE-4)."""
    if outcome.summary is not None:
        summary = outcome.summary
    elif outcome.summary_note:
        summary = f"{summary}\n{outcome.summary_note}" if summary else outcome.summary_note
    return summary[-limit:] if limit else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a turn came out, as far as its reply depends on it."""

    turn: int
    reply: str = ""
    action: str | None = None
    decision: Decision | None = None
    replies: Mapping[str, str] | None = None
    action_text: str | None = None
    error: str | None = None


def turn_outcome(ending: Ending) -> TurnOutcome:
    if ending.error is not None:
        return "action_failed" if ending.action else "failed"
    if ending.action is None:
        return "replied"
    return ending.decision or "approved"


_FIXED_TEXTS: Mapping[TurnOutcome, str] = {
    "approved": "Turn {turn}: {action} was approved and carried out.",
    "declined": "Turn {turn}: {action} was declined and not carried out.",
    "timed_out": "Turn {turn}: nobody decided in time, {action} was not carried out.",
    "action_failed": "Turn {turn}: {action} was approved but failed: {error}",
    "failed": "Turn {turn} failed: {error}",
}


def reply_text(ending: Ending) -> str:
    """The final words of a turn: the model's own where it has some, else a fixed text."""
    outcome = turn_outcome(ending)
    if outcome == "replied":
        return ending.reply
    own = (ending.replies or {}).get(outcome)
    if own is not None:
        return own
    if outcome == "approved" and ending.action_text:
        return ending.action_text
    return _FIXED_TEXTS[outcome].format(turn=ending.turn, action=ending.action, error=ending.error)


RepairOutcome: TypeAlias = Literal[
    "repair_not_needed", "repair_dispatched", "rejected_not_active", "rejected_not_current"
]


def repair_backoff(repairs: int, longest: float) -> float:
    """Seconds until a task that keeps failing is handed on again (REPAIR-3)."""
    return float(min(longest, 2.0 ** min(repairs, 30)))


def liveness(state: State, *, owner_lives: bool, now: float, redispatch_after: float) -> str:
    """The state of a conversation in words (HIST-2)."""
    if state.closed:
        return "closed"
    if state.task_id is None:
        return "needs repair" if must_have_task(state) else "healthy waiting"
    if state.task_owner is not None:
        return "leased" if owner_lives else "needs repair"
    waited = now - (state.task_enqueued_at or now)
    return "needs repair" if waited > redispatch_after else "ready"
