"""Agent (design §5): a model call that remembers its user, may have tools, and may have to answer
in JSON.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, field_validator

from Middleware.config.models import Text
from Middleware.core.errors import WorkflowError
from Middleware.core.events import (
    Event,
    Finish,
    ReasoningDelta,
    Reply,
    ReplyBuilder,
    TextDelta,
    ToolCallDelta,
    Usage,
    collect,
    replay,
)
from Middleware.core.messages import Message
from Middleware.core.tokens import estimate_all, estimate_tokens
from Middleware.llm.backend import ModelRequest
from Middleware.memory.agents import AgentMemoryError, AgentThreads, Thread
from Middleware.workflows.handlers.base.named_files import Names
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.handlers.base.option_types import Seconds
from Middleware.workflows.handlers.impl.agent_tools import Toolbox
from Middleware.workflows.handlers.impl.model_prompt import prompt_of_messages
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.output.cleaning import clean
from Middleware.workflows.output.json_schema import NoSchema, SchemaCheck, complaint

logger = logging.getLogger(__name__)

_HELD_CHARACTERS = 400
"""Models with tools like to say what they are about to do before they call one. An answer is only
shown from this length on, or when it is complete without a call."""


class AgentOptions(NodeOptions):
    """Call a model that remembers its last conversation with the user.

    Only users who come with a key are remembered. `clearConversation` of a run starts a new
    conversation.
    """

    system_prompt: Text = ""
    """What the model is told before everything else; text with variables."""
    prompt: Text = ""
    """What is asked; text with variables. Empty: the text of the step before, or the question."""
    output_schema: dict[str, Any] | None = None
    """A JSON Schema that the answer has to fit; the answer becomes the step's data."""
    mcp_servers: Annotated[list[Text], Names("mcp_server")] = Field(default_factory=list)
    """Names of files in ``MCPServers/``, without suffix. The model may call all their tools; a
    tool's errors go back to the model. Where two servers have a tool of the same name, it is
    offered as ``server__tool``. Needs a chat endpoint. Texts that come with a call of a tool are
    not part of the answer."""
    max_tool_rounds: int = Field(default=8, ge=1, le=50)
    """How often the model may call tools, several at once counting as one, before it has to
    answer. Once more is a failure."""
    tool_timeout_seconds: Seconds = 30.0
    """Seconds for connecting to a server, and for each call."""

    @field_validator("output_schema")
    @classmethod
    def _is_a_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None:
            try:
                SchemaCheck(schema)
            except NoSchema as error:
                raise ValueError(f"is no valid JSON Schema: {error}") from error
        return schema

    @cached_property
    def check(self) -> SchemaCheck:
        """What looks at answers where there is a schema."""
        return SchemaCheck(self.output_schema or {})


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
    tools: Toolbox

    def answer(self, messages: list[Message], *, stream: bool, schema: Any) -> Iterator[Event]:
        """The model's answer, once it calls no more tools. Its calls and their results are added
        to ``messages``; the usage is that of all rounds.
        """
        earlier: Usage | None = None
        while True:
            said = ReplyBuilder()
            events = self._call(messages, stream=stream, schema=schema)
            if self.tools.definitions:
                events = _held(events, said, stream=stream)
            shown = False
            for event in events:
                shown = True
                if earlier is not None and isinstance(event, Finish):
                    reply = said.build()
                    usage = reply.usage or _estimated(messages, reply)
                    event = replace(event, usage=earlier + usage)
                yield event
            reply = said.build()
            if not reply.tool_calls:
                return
            cleaned = collect(clean(replay(reply), self.plan.cleaning))
            if shown:
                yield TextDelta("\n\n")
            elif cleaned.reasoning:
                # What was thought before a call is thought; only what was said there is dropped.
                yield ReasoningDelta(f"{cleaned.reasoning}\n\n")
            usage = reply.usage or _estimated(messages, reply)
            earlier = usage if earlier is None else earlier + usage
            text = cleaned.text
            results = self.tools.run(reply.tool_calls)
            messages += [Message("assistant", text, tool_calls=reply.tool_calls), *results]

    def _call(self, messages: Sequence[Message], *, stream: bool, schema: Any) -> Iterator[Event]:
        self.context.step.endpoint = self.plan.endpoint.name
        prompt = prompt_of_messages(self.plan, self.scope, messages)
        self.context.step.resolved_prompt = prompt.shown
        request = ModelRequest(
            messages=prompt.messages,
            prompt=prompt.text,
            parameters=self.plan.parameters,
            client_parameters=_schema_parameter(self.plan, schema),
            stream=stream,
            tools=self.tools.definitions,
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
    def reads_step_before(self, options: Any) -> bool:
        return not options.prompt

    def handle(self, context: ExecutionContext) -> Iterator[Event] | WorkflowPayload:
        options = options_of(context, AgentOptions)
        talk = _talk(context, options)
        if options.output_schema is not None:
            with talk.tools:
                return _answer_in_json(talk, options.output_schema, options.check)
        events = _remembered(talk, stream=context.stream)
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
    if options.mcp_servers and plan.backend.kind != "chat":
        raise WorkflowError("`mcpServers` needs a chat endpoint; a text endpoint calls no tools.")
    tools = Toolbox(
        context, options.mcp_servers, options.max_tool_rounds, options.tool_timeout_seconds
    )
    return _Talk(context, plan, scope, messages, asked, threads, thread, tools)


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
    agent = f"{record.get('folder', '')}/{record.get('name', '')}#{context.node_id}"
    threads = scope.server.agent_threads(scope.config)
    try:
        thread = threads.new(caller, agent) if clear else threads.last(caller, agent)
    except AgentMemoryError as error:
        raise WorkflowError("its memory cannot be read just now.", detail=str(error)) from error
    return threads, thread


def _remembered(talk: _Talk, *, stream: bool) -> Iterator[Event]:
    """The events as they are; the turn is kept when the answer is complete, before its Finish
    goes out."""
    said = ReplyBuilder()
    with talk.tools:
        for event in talk.answer(list(talk.messages), stream=stream, schema=None):
            said.add(event)
            if isinstance(event, Finish):
                talk.remember(said.build().text)
                # Who takes no more than the Finish leaves no servers running.
                talk.tools.close()
            yield event


def _held(events: Iterator[Event], said: ReplyBuilder, *, stream: bool) -> Iterator[Event]:
    """The events of an answer, none of one that calls tools: it is held back as long as it may
    still turn out to be one."""
    held: list[Event] = []
    length, shown, calls = 0, False, False
    for event in events:
        said.add(event)
        if shown and isinstance(event, TextDelta | ReasoningDelta):
            yield event
            continue
        held.append(event)
        calls = calls or isinstance(event, ToolCallDelta)
        if isinstance(event, TextDelta):
            length += len(event.text)
            if stream and not calls and length > _HELD_CHARACTERS:
                shown = True
                yield from held
                held.clear()
    if not calls:
        yield from held


def _estimated(messages: Sequence[Message], reply: Reply) -> Usage:
    said = reply.text + reply.reasoning + "".join(call.arguments for call in reply.tool_calls)
    return Usage(
        prompt_tokens=estimate_all(message.content for message in messages),
        completion_tokens=estimate_tokens(said),
        estimated=True,
    )


def _answer_in_json(talk: _Talk, schema: Mapping[str, Any], check: SchemaCheck) -> WorkflowPayload:
    """The answer, checked; asked for once more with the mistakes, then given up."""
    messages = list(talk.messages)
    usage: Usage | None = None
    problems: tuple[str, ...] = ()
    for _ in range(2):
        said = talk.answer(messages, stream=False, schema=schema)
        # Thoughts between tags are no part of the JSON, and are kept beside it.
        reply = collect(clean(said, talk.plan.cleaning))
        usage = reply.usage if usage is None or reply.usage is None else usage + reply.usage
        try:
            checked = check.check(reply.text)
        except NoSchema as error:
            raise WorkflowError(f"outputSchema cannot be used: {error}.") from error
        if not checked.problems:
            talk.remember(reply.text)
            return _payload(replace(reply, text=checked.text, usage=usage), checked.value)
        problems = checked.problems
        messages += [Message("assistant", reply.text), Message("user", complaint(problems))]
    raise WorkflowError(f"the answer does not fit outputSchema: {'; '.join(problems)}.")


def _payload(reply: Reply, data: Any) -> WorkflowPayload:
    shaped = WorkflowPayload.of(data)
    return WorkflowPayload(shaped.content, shaped.data, reply=reply, value=shaped.value)


def _schema_parameter(plan: ModelPlan, schema: Any) -> Mapping[str, Any]:
    """Back ends that can be told the schema are told."""
    if schema is None or "response_format" not in plan.backend.accepts:
        return {}
    described = {"name": "answer", "schema": schema, "strict": False}
    return {"response_format": {"type": "json_schema", "json_schema": described}}
