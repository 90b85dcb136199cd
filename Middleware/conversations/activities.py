"""The steps of a turn with effects outside: the model call and the approved action.

Both are at-least-once. What is recorded of them is recorded once (MODEL-3, DEC-2).
"""

import json
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from Middleware.conversations import rules, tables
from Middleware.conversations.closing import close_conversation
from Middleware.conversations.database import Database, Locked
from Middleware.conversations.models import (
    Action,
    ActionCall,
    BadOutcome,
    LostTask,
    ModelCall,
    ModelOutcome,
    action_reference,
)
from Middleware.conversations.past import message_of, recent_turns
from Middleware.conversations.profiles import Profile, Profiles
from Middleware.conversations.stops import STOPPED, Stops
from Middleware.conversations.task import (
    DONE,
    Checkpoint,
    Task,
    change_turn,
    owned,
    turn_in_progress,
)
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError, MiddlewareError

logger = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS = 60.0
LONGEST_ERROR = 1000


class WorkerStopping(BaseException):
    """The process ends: the step is left as it is, for whoever comes next. Not an
    :class:`Exception`, so that nobody records it as the outcome of anything."""


class TurnModel(Protocol):
    """Runs the profile's workflow as the model call of a turn."""

    def answer(
        self, call: ModelCall, profile: Profile, cancel: CancelToken, show: Callable[[str], None]
    ) -> ModelOutcome:
        """``show`` is given the text while it comes. Any exception is a failed attempt."""
        ...


class ActionRunner(Protocol):
    """Carries out an approved action."""

    def carry_out(self, call: ActionCall, profile: Profile, cancel: CancelToken) -> str | None:
        """Text for the reply, if the action gives any. Any exception is a failed attempt."""
        ...


Show = Callable[[ModelCall, str], None]


def _show_nobody(call: ModelCall, text: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What a turn reaches beyond our tables."""

    profiles: Profiles
    model: TurnModel
    actions: ActionRunner
    show: Show = _show_nobody
    changed: Callable[[str], None] = lambda conversation_id: None
    """Told whenever something about a conversation may be new."""
    cancel: CancelToken = field(default_factory=CancelToken)
    """Set when the process ends."""
    stops: Stops = field(default_factory=Stops)
    checkpoint: Checkpoint = lambda place: None
    max_attempts: int = 3
    retry_pause_seconds: float = 1.0


class Activities:
    def __init__(self, database: Database, outside: Outside) -> None:
        self._database = database
        self._out = outside

    def think(self, task: Task) -> str:
        """Call the model until there is an outcome, and record it (MODEL)."""
        while True:
            call = self._begin_model(task)
            if isinstance(call, str):
                return call
            self._out.checkpoint("think:started")
            try:
                profile = self._profile(call.profile)
                with self._out.stops.attempt(call.conversation_id, self._out.cancel) as cancel:
                    outcome = self._ask(call, profile, cancel)
                approval = profile.check(outcome.action) if outcome.action else False
            except Exception as error:  # noqa: BLE001 - a node may raise anything: it failed then
                following = self._failed(task, "model", call.attempt, error)
                if isinstance(following, str):
                    return following
                self._pause(following)
                continue
            self._out.checkpoint("think:answered")
            return self._record_outcome(task, call, outcome, needs_approval=approval)

    def act(self, task: Task) -> str:
        """Carry out the approved action, under a key that every attempt shares (DEC-2, DEC-9)."""
        while True:
            call = self._begin_action(task)
            if isinstance(call, str):
                return call
            self._out.checkpoint("act:started")
            try:
                profile = self._profile(call.profile)
                with self._out.stops.attempt(call.conversation_id, self._out.cancel) as cancel:
                    text = self._out.actions.carry_out(call, profile, cancel)
            except Exception as error:  # noqa: BLE001 - as above
                following = self._failed(task, "action", call.attempt, error)
                if isinstance(following, str):
                    return following
                self._pause(following)
                continue
            self._out.checkpoint("act:effect")
            return self._record_action(task, call, text)

    # The model

    def _begin_model(self, task: Task) -> ModelCall | str:
        with owned(self._database, task) as locked:
            if locked is None:
                return DONE
            state = locked.state
            if state.phase != "thinking":
                return rules.STEPS[state.phase]
            if state.cancel_requested:
                close_conversation(locked, "cancelled")
                return DONE
            turn = turn_in_progress(locked)
            if turn["stop_requested"]:
                return _stopped(locked)
            attempt = turn["attempts"] + 1
            change_turn(locked, attempts=attempt)
            _note(locked, "activity_started", "model", attempt, worker=task.executor)
            text, asked = message_of(locked, turn["message_sequence"])
        return ModelCall(
            conversation_id=state.id,
            run_id=state.run_id,
            generation=state.generation,
            turn=turn["turn"],
            attempt=attempt,
            profile=state.profile,
            text=text,
            summary=state.summary,
            summary_max_chars=state.options.summary_max_chars,
            asked=asked,
        )

    def _ask(self, call: ModelCall, profile: Profile, cancel: CancelToken) -> ModelOutcome:
        recent = recent_turns(self._database, call.conversation_id, call.turn, profile.recent_turns)
        full = replace(call, recent=recent)

        def show(text: str) -> None:
            self._out.show(call, text)

        return self._out.model.answer(full, profile, cancel, show)

    def _record_outcome(
        self, task: Task, call: ModelCall, outcome: ModelOutcome, *, needs_approval: bool
    ) -> str:
        try:
            with owned(self._database, task) as locked:
                if locked is None:
                    raise LostTask(call.conversation_id)
                state = locked.state
                if state.phase != "thinking" or state.turn != call.turn:
                    return rules.STEPS[state.phase]
                if state.cancel_requested:
                    _note(locked, "activity_discarded", "model", call.attempt)
                    close_conversation(locked, "cancelled")
                    return DONE
                if turn_in_progress(locked)["stop_requested"]:
                    _note(locked, "activity_discarded", "model", call.attempt)
                    return _stopped(locked)
                _note(locked, "activity_completed", "model", call.attempt)
                _keep_outcome(locked, outcome)
                _go_on(locked, outcome.action, needs_approval=needs_approval)
                return rules.STEPS[locked.state.phase]
        except LostTask:
            self._discarded(task, "model", call)
            raise

    # The action

    def _begin_action(self, task: Task) -> ActionCall | str:
        with owned(self._database, task) as locked:
            if locked is None:
                return DONE
            state = locked.state
            if state.phase != "applying_action":
                return rules.STEPS[state.phase]
            if state.cancel_requested:
                close_conversation(locked, "cancelled")
                return DONE
            turn = turn_in_progress(locked)
            if turn["stop_requested"]:
                return _stopped(locked)
            attempt = turn["action_attempts"] + 1
            change_turn(locked, action_attempts=attempt)
            _note(locked, "activity_started", "action", attempt, worker=task.executor)
        return ActionCall(
            conversation_id=state.id,
            turn=turn["turn"],
            attempt=attempt,
            profile=state.profile,
            action=Action(name=turn["action_name"], arguments=json.loads(turn["action_arguments"])),
            reviewer=turn["reviewer"],
        )

    def _record_action(self, task: Task, call: ActionCall, text: str | None) -> str:
        try:
            with owned(self._database, task) as locked:
                if locked is None:
                    raise LostTask(call.conversation_id)
                if locked.state.phase != "applying_action" or locked.state.turn != call.turn:
                    return rules.STEPS[locked.state.phase]
                reference = action_reference(call.conversation_id, call.turn)
                row = {
                    "reference": reference,
                    "conversation_id": call.conversation_id,
                    "turn": call.turn,
                    "name": call.action.name,
                    "arguments": json.dumps(dict(call.action.arguments), ensure_ascii=False),
                    "applied_at": locked.now,
                }
                locked.insert_new(tables.actions, row)
                _note(locked, "activity_completed", "action", call.attempt)
                locked.note("action_applied", reference=reference, name=call.action.name)
                change_turn(locked, action_text=text)
                locked.enter("recording_reply")
                return rules.STEPS[locked.state.phase]
        except LostTask:
            self._discarded(task, "action", call)
            raise

    # Both

    def _profile(self, name: str) -> Profile:
        profile = self._out.profiles.find(name)
        if profile is None:
            raise ConfigError(f"There is no conversation profile {name!r}.")
        return profile

    def _failed(self, task: Task, activity: str, attempt: int, error: Exception) -> str | float:
        """The next step when the turn ends with this failure, else seconds until a new attempt."""
        if self._out.cancel.cancelled:
            raise WorkerStopping from error
        if isinstance(error, LostTask):
            raise error
        text = error_text(error)
        logger.warning(
            "attempt %d of the %s failed, conversation=%s: %s",
            attempt,
            activity,
            task.conversation_id,
            text,
            exc_info=None if isinstance(error, MiddlewareError) else error,
        )
        counter = "failures" if activity == "model" else "action_failures"
        expected = "thinking" if activity == "model" else "applying_action"
        with owned(self._database, task) as locked:
            if locked is None:
                return DONE
            if locked.state.phase != expected:
                return rules.STEPS[locked.state.phase]
            turn = turn_in_progress(locked)
            if turn["stop_requested"]:
                _note(locked, "activity_failed", activity, attempt, error=STOPPED)
                return _stopped(locked)
            failures = turn[counter] + 1
            change_turn(locked, **{counter: failures})
            _note(locked, "activity_failed", activity, attempt, error=text)
            if failures < self._out.max_attempts and not isinstance(error, BadOutcome):
                growing = self._out.retry_pause_seconds * 2.0 ** (failures - 1)
                return float(min(growing, LONGEST_PAUSE_SECONDS))
            change_turn(locked, error=text, outcome_recorded=1)
            locked.enter("recording_reply")
            return rules.STEPS[locked.state.phase]

    def _discarded(self, task: Task, activity: str, call: ModelCall | ActionCall) -> None:
        """Tell the history, which is all that a late outcome may change."""
        with self._database.locked(task.conversation_id) as locked:
            if locked is not None:
                told = {"turn": call.turn, "attempt": call.attempt, "worker": task.executor}
                locked.note("activity_discarded", activity=activity, **told)

    def _pause(self, seconds: float) -> None:
        try:
            self._out.cancel.wait(seconds)
        except MiddlewareError as error:
            raise WorkerStopping from error


def _stopped(locked: Locked) -> str:
    """The turn ends as failed, because somebody wished it to end."""
    change_turn(locked, error=STOPPED, outcome_recorded=1)
    locked.enter("recording_reply")
    return rules.STEPS[locked.state.phase]


def _keep_outcome(locked: Locked, outcome: ModelOutcome) -> None:
    action = outcome.action
    limit = locked.state.options.summary_max_chars
    change_turn(
        locked,
        outcome_recorded=1,
        reply=outcome.reply,
        replies=json.dumps(dict(outcome.replies)) if outcome.replies else None,
        next_summary=rules.bounded_summary(locked.state.summary, outcome, limit),
        action_name=action.name if action else None,
        action_arguments=json.dumps(dict(action.arguments), ensure_ascii=False) if action else None,
    )


def _go_on(locked: Locked, action: Action | None, *, needs_approval: bool) -> None:
    """Publish a proposal together with its id, which is made here and nowhere else (PROP-1)."""
    phase = rules.phase_after_model(action, needs_approval=needs_approval)
    if phase == "awaiting_approval" and action is not None:
        proposal = f"prop-{uuid.uuid4().hex}"
        deadline = locked.now + locked.state.options.decision_timeout_seconds
        locked.note("id_recorded", id=proposal)
        change_turn(locked, proposal_id=proposal, proposal_deadline=deadline)
        locked.change(proposal_id=proposal, deadline=deadline, wait_since=locked.now)
        locked.enter(phase)
        locked.note("proposal_published", id=proposal, action=action.name, deadline=deadline)
    else:
        locked.enter(phase)


def _note(locked: Locked, type_: str, activity: str, attempt: int, **more: Any) -> None:
    turn = locked.state.turn
    locked.note(type_, activity=activity, turn=turn, attempt=attempt, **more)


def error_text(error: Exception) -> str:
    """What may be told in a reply: our own messages, and of others their kind alone."""
    if isinstance(error, MiddlewareError):
        return error.message[:LONGEST_ERROR]
    return f"an internal error ({type(error).__name__})"
