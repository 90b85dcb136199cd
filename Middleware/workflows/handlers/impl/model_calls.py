"""Calls of a model by nodes that make several of them: each is one call as Standard makes it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from Middleware.core.errors import WorkflowError
from Middleware.core.events import Reply, Usage, collect, replay
from Middleware.core.messages import Message
from Middleware.core.tokens import estimate_all, estimate_tokens
from Middleware.llm.backend import ModelRequest
from Middleware.workflows.handlers.impl.standard_handler import StandardHandler, StandardOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.step_notes import StepNotes
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.output.cleaning import clean

_STANDARD = StandardHandler()


def plan_of(context: ExecutionContext) -> ModelPlan:
    """The node's model. Raises WorkflowError when it names none."""
    if context.plan is None or context.request_scope is None:
        raise WorkflowError(
            "a model is to be called, but `endpointName` is missing. "
            "Name a file of the Endpoints folder."
        )
    return context.plan


def ask(context: ExecutionContext, **changes: Any) -> Reply:
    """One whole answer, cleaned. ``changes`` are those of this call to the node's context."""
    plan = plan_of(context)
    notes = StepNotes()
    call = replace(context, stream=False, step=notes, **changes)
    result = _STANDARD.handle(call)
    reply = result.reply if isinstance(result, WorkflowPayload) else collect(result)
    return _cleaned(context, plan, notes, reply or Reply())


def ask_with_texts(context: ExecutionContext, system_prompt: str, prompt: str) -> Reply:
    """One whole answer to texts that are complete; an empty one is not sent. Without images, tools
    and conversation."""
    if prompt:
        return ask(
            context,
            config=StandardOptions(),
            system_prompt_override=system_prompt,
            prompt_override=prompt,
        )
    plan, scope = plan_of(context), context.request_scope
    assert scope is not None
    messages = (Message("system", system_prompt),)
    notes = StepNotes(endpoint=plan.endpoint.name, resolved_prompt=messages)
    request = ModelRequest(messages=messages, parameters=plan.parameters, stream=False)
    reply = collect(plan.backend.complete(request, scope.cancel))
    return _cleaned(context, plan, notes, reply)


def payload_of(text: str, replies: Iterable[Reply]) -> WorkflowPayload:
    """The node's output, with what all its calls have used."""
    usage, thoughts = Usage(), list[str]()
    for reply in replies:
        usage += reply.usage or Usage()
        thoughts += [reply.reasoning] if reply.reasoning else []
    reasoning = "\n\n".join(thoughts)
    return WorkflowPayload(
        text, reply=Reply(text=text, reasoning=reasoning, usage=usage), value=text
    )


def _cleaned(context: ExecutionContext, plan: ModelPlan, notes: StepNotes, reply: Reply) -> Reply:
    context.step.endpoint = notes.endpoint
    context.step.resolved_prompt = notes.resolved_prompt
    usage = reply.usage or _estimate(notes, reply)
    cleaned = collect(clean(replay(reply), plan.cleaning))
    return replace(cleaned, usage=usage)


def _estimate(notes: StepNotes, reply: Reply) -> Usage:
    prompt = notes.resolved_prompt or ()
    tokens = (
        estimate_tokens(prompt)
        if isinstance(prompt, str)
        else estimate_all(message.content for message in prompt)
    )
    said = estimate_tokens(reply.text + reply.reasoning)
    return Usage(prompt_tokens=tokens, completion_tokens=said, estimated=True)
