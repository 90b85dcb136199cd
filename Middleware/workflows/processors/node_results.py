"""What becomes of a node's result: its output, or the events that the client sees."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from Middleware.core.cancellation import CancelToken
from Middleware.core.events import Event, Reply, Usage, collect, replay
from Middleware.core.messages import Message
from Middleware.core.tokens import estimate_all, estimate_tokens
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.output.cleaning import CleaningRules, clean
from Middleware.workflows.output.pacing import paced


def whole(plan: ModelPlan | None, result: Any) -> WorkflowPayload:
    """The result of a node that does not answer, cleaned if a model made it."""
    payload = (
        result if isinstance(result, WorkflowPayload) else WorkflowPayload.of_reply(collect(result))
    )
    if plan is None or not plan.cleaning.active:
        return payload
    if payload.data or (payload.reply is None and not isinstance(payload.value, str)):
        return payload
    reply = payload.reply or Reply(text=str(payload))
    cleaned = WorkflowPayload.of_reply(collect(clean(replay(reply), plan.cleaning)))
    return replace(cleaned, inserted=payload.inserted)


def events_of(result: Any, context: ExecutionContext, speaker: str | None) -> Iterator[Event]:
    """The responder's result as cleaned events, framed whatever the node returned.

    ``speaker`` is the name that a model may begin its words with.
    """
    plan = context.plan
    rules = plan.cleaning if plan else None
    if speaker:
        rules = replace(rules or CleaningRules(), speaker_cue=speaker)
    if not isinstance(result, WorkflowPayload):
        return clean(iter(result), rules) if rules else iter(result)
    reply = result.reply or Reply(text=str(result), usage=Usage())
    if rules:
        reply = collect(clean(replay(reply), rules))
    if context.stream and not reply.tool_calls:
        scope = context.request_scope
        return paced(reply, scope.cancel if scope else CancelToken())
    return replay(reply)


def answered(result: Any, reply: Reply) -> WorkflowPayload:
    """The output of the responder, which said ``reply``. What is more than words is kept."""
    if not isinstance(result, WorkflowPayload):
        return WorkflowPayload.of_reply(reply)
    if result.reply is None or result.data:
        return result
    return replace(WorkflowPayload.of_reply(reply), inserted=result.inserted)


def rest_of(payload: WorkflowPayload) -> Iterator[Event]:
    """Runs what a sub-workflow has left to do, when it is read."""
    if payload.rest is not None:
        payload.rest()
    yield from ()


def estimated(prompt: Sequence[Message] | str | None, reply: Reply) -> Usage:
    """Tokens of a call whose back end did not count them."""
    if prompt is None:
        tokens = 0
    elif isinstance(prompt, str):
        tokens = estimate_tokens(prompt)
    else:
        tokens = estimate_all(message.content for message in prompt)
    said = reply.text + reply.reasoning + "".join(call.arguments for call in reply.tool_calls)
    return Usage(prompt_tokens=tokens, completion_tokens=estimate_tokens(said), estimated=True)
