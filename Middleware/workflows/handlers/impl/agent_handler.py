"""Agent (design §5): a model call that remembers its user, and may have to answer in JSON."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import field_validator

from Middleware.config.models import Text
from Middleware.core.errors import WorkflowError
from Middleware.core.events import Event, Finish, Reply, ReplyBuilder, Usage, collect
from Middleware.core.messages import Message
from Middleware.llm.backend import ModelRequest
from Middleware.memory.agents import AgentMemoryError, AgentThreads, Thread
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.workflow_context import WorkflowPayload

logger = logging.getLogger(__name__)

_ERRORS_SHOWN = 5


class AgentOptions(NodeOptions):
    """Call a model that remembers its last conversation with the user.

    Only users who come with a key are remembered. `clearConversation` of a run starts a new
    conversation.
    """

    system_prompt: Text = ""
    prompt: Text = ""
    """Empty: the text of the step before, or the question."""
    output_schema: dict[str, Any] | None = None
    """A JSON Schema that the answer has to fit; the answer becomes the step's data."""

    @field_validator("output_schema")
    @classmethod
    def _is_a_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None:
            try:
                Draft202012Validator.check_schema(schema)
            except SchemaError as error:
                raise ValueError(f"is no valid JSON Schema: {error.message}") from error
        return schema


@dataclass(frozen=True, slots=True)
class _Talk:
    """What one execution of an agent says, and where it is remembered."""

    context: ExecutionContext
    plan: ModelPlan
    scope: RequestScope
    messages: tuple[Message, ...]
    asked: str
    threads: AgentThreads | None
    thread: Thread | None

    def call(self, messages: Sequence[Message], *, stream: bool, schema: Any) -> Iterator[Event]:
        self.context.step.endpoint = self.plan.endpoint.name
        self.context.step.resolved_prompt = tuple(messages)
        request = ModelRequest(
            messages=tuple(messages),
            parameters=self.plan.parameters,
            client_parameters=_schema_parameter(self.plan, schema),
            stream=stream,
        )
        return self.plan.backend.complete(request, self.scope.cancel)

    def remember(self, answered: str) -> None:
        if self.thread is None or self.threads is None:
            return
        try:
            self.threads.add(self.thread, self.asked, answered, self.scope.clock.timestamp())
        except AgentMemoryError as error:
            # The answer is there; a full disk must not take it away.
            logger.error("a turn could not be remembered: %s", error)


@node_type("Agent", options=AgentOptions)
class AgentHandler(NodeHandler):
    def handle(self, context: ExecutionContext) -> Iterator[Event] | WorkflowPayload:
        options = options_of(context, AgentOptions)
        talk = _talk(context, options)
        if options.output_schema is not None:
            return _answer_in_json(talk, options.output_schema)
        events = _remembered(talk, talk.call(talk.messages, stream=context.stream, schema=None))
        return events if context.stream else WorkflowPayload.of_reply(collect(events))


def _talk(context: ExecutionContext, options: AgentOptions) -> _Talk:
    plan, scope = context.plan, context.request_scope
    if plan is None or scope is None:
        raise WorkflowError(
            "a model is to be called, but `endpointName` is missing. "
            "Name a file of the Endpoints folder."
        )
    if options.prompt or context.prompt_override:
        asked = context.prompt(options.prompt, context.prompt_override)
    else:
        asked = _text_before(context)
    system_prompt = context.prompt(options.system_prompt, context.system_prompt_override)
    threads, thread = _thread_of(context, scope)
    messages = (
        *((Message("system", system_prompt),) if system_prompt else ()),
        *(thread.messages if thread else ()),
        Message("user", asked),
    )
    return _Talk(context, plan, scope, messages, asked, threads, thread)


def _text_before(context: ExecutionContext) -> str:
    before = context.workflow_context.get_previous_step_output()
    if before is not None:
        return str(before)
    return str(context.workflow_context.global_variables.get("question", ""))


def _thread_of(
    context: ExecutionContext, scope: RequestScope
) -> tuple[AgentThreads | None, Thread | None]:
    """The user's conversation with this agent; none for a user who showed no key.

    A run that clears conversations does it once: the agent takes the mark away, so that later
    agents of the run go on with the new conversation.
    """
    run = context.workflow_context
    clear, run.clear_conversation = run.clear_conversation, False
    if scope.caller is None:
        return None, None
    caller = f"{scope.caller.user}/{scope.caller.key_name}"
    record = run.workflow_record or {}
    agent = f"{record.get('folder', '')}/{record.get('name', '')}#{run.current_step_node_id}"
    threads = scope.server.agent_threads(scope.config)
    try:
        thread = threads.new(caller, agent) if clear else threads.last(caller, agent)
    except AgentMemoryError as error:
        raise WorkflowError("its memory cannot be read just now.", detail=str(error)) from error
    return threads, thread


def _remembered(talk: _Talk, events: Iterator[Event]) -> Iterator[Event]:
    """The events as they are; the turn is kept when the answer is complete, before its Finish
    goes out."""
    said = ReplyBuilder()
    for event in events:
        said.add(event)
        if isinstance(event, Finish):
            talk.remember(said.build().text)
        yield event


def _answer_in_json(talk: _Talk, schema: Mapping[str, Any]) -> WorkflowPayload:
    """The answer, checked; asked for once more with the mistakes, then given up."""
    messages = list(talk.messages)
    usage: Usage | None = None
    problems: list[str] = []
    for _ in range(2):
        reply = collect(talk.call(messages, stream=False, schema=schema))
        usage = reply.usage if usage is None or reply.usage is None else usage + reply.usage
        data, problems = _checked(reply.text, schema)
        if not problems:
            talk.remember(reply.text)
            return _payload(reply, data, usage)
        messages += [
            Message("assistant", reply.text),
            Message(
                "user",
                "That does not fit the required JSON Schema:\n- "
                + "\n- ".join(problems)
                + "\nAnswer again with the corrected JSON and nothing else.",
            ),
        ]
    raise WorkflowError(f"the answer does not fit outputSchema: {'; '.join(problems)}.")


def _payload(reply: Reply, data: Any, usage: Usage | None) -> WorkflowPayload:
    whole = replace(reply, usage=usage)
    shaped = WorkflowPayload.of(data)
    return WorkflowPayload(shaped.content, shaped.data, reply=whole, value=shaped.value)


def _checked(text: str, schema: Mapping[str, Any]) -> tuple[Any, list[str]]:
    try:
        data = json.loads(_without_fence(text))
    except ValueError as error:
        return None, [f"it is no JSON ({error})"]
    errors = sorted(Draft202012Validator(schema).iter_errors(data), key=lambda e: list(e.path))
    return data, [
        f"{'.'.join(map(str, error.path)) or 'the whole'}: {error.message}"
        for error in errors[:_ERRORS_SHOWN]
    ]


def _without_fence(text: str) -> str:
    """Models like to put JSON into a Markdown block."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```"):
        return stripped[3:-3].removeprefix("json").removeprefix("JSON")
    return stripped


def _schema_parameter(plan: ModelPlan, schema: Any) -> Mapping[str, Any]:
    """Back ends that can be told the schema are told."""
    if schema is None or "response_format" not in plan.backend.accepts:
        return {}
    described = {"name": "answer", "schema": schema, "strict": False}
    return {"response_format": {"type": "json_schema", "json_schema": described}}
