"""A turn's model call: an ordinary workflow, or the fake model (MAP-2, MAP-3)."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from Middleware.conversations.models import Action, BadOutcome, ModelCall, ModelOutcome
from Middleware.conversations.profiles import Profile
from Middleware.core.cancellation import CancelToken
from Middleware.core.events import Event, Reply, ReplyBuilder, TextDelta
from Middleware.core.messages import Message
from Middleware.llm.backends.refund_desk import refund_desk


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRun:
    """One run of a workflow for a turn."""

    workflow: str
    conversation_id: str
    request_id: str
    """The idempotency key: the same for every attempt."""
    messages: tuple[Message, ...]
    inputs: tuple[str, ...]
    """``agent1Input`` and so on."""
    variables: Mapping[str, Any]
    tools: tuple[Mapping[str, Any], ...] = ()
    """The profile's actions, for models that propose by calling one."""


class RunWorkflow(Protocol):
    """Runs a workflow to its end; the responder's events come out while it runs."""

    def __call__(self, run: TurnRun, cancel: CancelToken) -> Iterator[Event]: ...


class ProfileModel:
    """The fake model where a profile names no workflow."""

    def __init__(self, run: RunWorkflow | None = None) -> None:
        self._run = run

    def answer(
        self, call: ModelCall, profile: Profile, cancel: CancelToken, show: Callable[[str], None]
    ) -> ModelOutcome:
        """See :class:`Middleware.conversations.activities.TurnModel`."""
        if not profile.workflow:
            return fake_outcome(call, show)
        if self._run is None:
            raise BadOutcome(f"There is nothing here that could run {profile.workflow!r}.")
        builder = ReplyBuilder()
        for event in self._run(_turn_run(profile, call), cancel):
            builder.add(event)
            if isinstance(event, TextDelta):
                show(event.text)
        outcome = parse_outcome(builder.build())
        if profile.summary_workflow and outcome.summary is None:
            outcome = self._summarized(outcome, call, profile, cancel)
        return outcome

    def _summarized(
        self, outcome: ModelOutcome, call: ModelCall, profile: Profile, cancel: CancelToken
    ) -> ModelOutcome:
        assert self._run is not None
        run = TurnRun(
            workflow=profile.summary_workflow,
            conversation_id=call.conversation_id,
            request_id=f"{call.idempotency_key}:summary",
            messages=(Message("user", call.text), Message("assistant", outcome.reply)),
            inputs=(call.summary, call.text, outcome.reply),
            variables=_variables(call),
        )
        builder = ReplyBuilder()
        for event in self._run(run, cancel):
            builder.add(event)
        return replace(outcome, summary=builder.build().text)


def fake_outcome(call: ModelCall, show: Callable[[str], None]) -> ModelOutcome:
    """What the fake model makes of a call: the same for the same input, always (FAKE-1)."""
    said = refund_desk(call.text, call.turn, call.summary)
    show(said.reply)
    action = Action(name=said.action, arguments=said.arguments) if said.action else None
    return ModelOutcome(reply=said.reply, action=action, summary=said.summary, replies=said.replies)


def _turn_run(profile: Profile, call: ModelCall) -> TurnRun:
    past = (
        message
        for turn in call.recent
        for message in (Message("user", turn.text), Message("assistant", turn.reply))
    )
    return TurnRun(
        workflow=profile.workflow,
        conversation_id=call.conversation_id,
        request_id=call.idempotency_key,
        messages=(*past, Message("user", call.text)),
        inputs=(call.summary, str(call.turn), str(call.generation), call.idempotency_key),
        variables=_variables(call),
        tools=tuple(
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": action.description,
                    "parameters": dict(action.arguments_schema or {"type": "object"}),
                },
            }
            for name, action in profile.actions.items()
        ),
    )


def _variables(call: ModelCall) -> dict[str, Any]:
    """What a node may use beside the messages (MAP-2, MAP-5)."""
    return {
        **call.asked.get("variables", {}),
        "conversation_id": call.conversation_id,
        "turn": call.turn,
        "generation": call.generation,
        "attempt": call.attempt,
        "summary": call.summary,
        "idempotency_key": call.idempotency_key,
    }


def parse_outcome(reply: Reply) -> ModelOutcome:
    """A workflow's final output: a tool call is a proposed action, JSON with ``reply`` is taken
    apart, all other text is the reply. Raises BadOutcome.
    """
    if len(reply.tool_calls) > 1:
        raise BadOutcome("The model proposed several actions at once; a turn has room for one.")
    structured = _object_with_reply(reply.text)
    if reply.tool_calls:
        call = reply.tool_calls[0]
        action = Action(name=call.name, arguments=_arguments(call.name, call.arguments))
        if structured is None:
            return ModelOutcome(reply=reply.text, action=action)
        return _outcome({**structured, "action": None}, action)
    if structured is None:
        return ModelOutcome(reply=reply.text)
    return _outcome(structured, _structured_action(structured.get("action")))


def _object_with_reply(text: str) -> dict[str, Any] | None:
    stripped = text.strip()
    if not stripped.startswith("{"):
        return None
    try:
        value = json.loads(stripped)
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("reply"), str) else None


def _outcome(value: Mapping[str, Any], action: Action | None) -> ModelOutcome:
    replies = value.get("replies")
    texts = replies.items() if isinstance(replies, Mapping) else ()
    return ModelOutcome(
        reply=value["reply"],
        action=action,
        summary=_text_or_none(value.get("summary")),
        summary_note=_text_or_none(value.get("summary_note")),
        replies={str(key): text for key, text in texts if isinstance(text, str)},
    )


def _structured_action(value: Any) -> Action | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise BadOutcome("The model's `action` has no `name`.")
    return Action(
        name=value["name"], arguments=_arguments(value["name"], value.get("arguments") or {})
    )


def _arguments(name: str, given: Any) -> Mapping[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError:
            raise BadOutcome(f"The model's arguments for {name!r} are not JSON.") from None
    if not isinstance(given, Mapping):
        raise BadOutcome(f"The model's arguments for {name!r} are no object.")
    return given


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
