"""Standard: one call of a model (nodes §1)."""

from collections.abc import Iterator
from dataclasses import replace

from Middleware.config.models import LooseBool, Text
from Middleware.core.errors import WorkflowError
from Middleware.core.events import Event, Reply, collect, replay
from Middleware.llm.backend import ModelRequest
from Middleware.workflows.handlers.base.named_files import SchemaName
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import IntOrTemplate, NodeOptions
from Middleware.workflows.handlers.impl.constrained_calls import (
    answer_in_json,
    answer_with_call,
    constrained,
    wanted_json,
)
from Middleware.workflows.handlers.impl.model_prompt import (
    Asking,
    client_parameters,
    parameters_of,
    prompt_of,
)
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.request_scope import TOOLS
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.prompts.tool_enforcement import Enforcement, enforcement


class StandardOptions(NodeOptions):
    """Call a model with the conversation, or with a prompt of your own."""

    system_prompt: Text = ""
    """The system prompt. The client's own is not sent: ``{chat_system_prompt}`` puts it in."""
    prompt: Text = ""
    """Sent as the only user message. Empty: the conversation itself is sent."""
    last_messages_to_send_instead_of_prompt: IntOrTemplate = 5
    """How many messages of the conversation are sent where there is no ``prompt``."""
    last_messages_to_send_instead_of_prompt_max_token_size: IntOrTemplate = None
    """The longest that these messages may be together, estimated in tokens; the newest count
    first."""
    accept_images: LooseBool = False
    """Send images too. Otherwise they are left out."""
    max_images_to_send: IntOrTemplate = 0
    """Only the newest ones; 0: all."""
    allow_tools: LooseBool = False
    """Let the model call the tools that the client has sent."""
    append_native_tool_exchange: LooseBool = False
    """With a ``prompt``: a tool call at the end of the conversation and its results are sent behind
    it as messages."""
    structured_output_file: SchemaName = ""
    """File of ``StructuredOutputs/``: a JSON Schema that the answer must follow. It is checked, and
    asked for once more where it does not fit."""
    merge_consecutive_assistant_messages: LooseBool = False
    """Make one message of assistant messages that follow each other."""
    merge_consecutive_assistant_messages_delimiter: str = "\n"
    """What stands between their texts."""
    insert_user_turn_between_assistant_messages: LooseBool = False
    """Put a user message between assistant messages that follow each other."""
    inserted_user_turn_text: str = "Continue."
    """What it says."""
    add_user_turn_template: LooseBool = False
    """Text APIs: put the template's user tokens around the prompt."""
    add_open_ended_assistant_turn_template: LooseBool = False
    """Text APIs: end the prompt with the template's assistant prefix."""
    force_generation_prompt_if_endpoint_allows: LooseBool = False
    """Text APIs: let the prompt end with the beginning of an answer wherever the endpoint has
    ``addGenerationPrompt``, not only in nodes that answer another workflow."""
    block_generation_prompt: LooseBool = False
    """Text APIs: never let it end so."""


@node_type("Standard", "Conversational", options=StandardOptions)
class StandardHandler(NodeHandler):
    has_side_effects = False

    def handle(self, context: ExecutionContext) -> Iterator[Event] | WorkflowPayload:
        options = options_of(context, StandardOptions)
        asking = _asking(context, options)
        must_call = _must_call(asking)
        wanted = None if must_call else wanted_json(asking, options.structured_output_file)
        request = _request(asking, must_call)
        if must_call is not None:
            if options.structured_output_file:
                raise WorkflowError(
                    "the client demands a tool call, and `structuredOutputFile` demands JSON. "
                    "Only one of them can be had."
                )
            return _given(context, answer_with_call(asking, request, must_call))
        if wanted is not None:
            return _given(context, answer_in_json(asking, constrained(request, wanted), wanted))
        events = asking.plan.backend.complete(request, asking.scope.cancel)
        return events if context.stream else WorkflowPayload.of_reply(collect(events))


def _asking(context: ExecutionContext, options: StandardOptions) -> Asking:
    plan, scope = context.plan, context.request_scope
    if plan is None or scope is None:
        raise WorkflowError(
            "a model is to be called, but `endpointName` is missing. "
            "Name a file of the Endpoints folder."
        )
    if options.allow_tools:
        scope.parameters.used.add(TOOLS)
    # Text endpoints have no way to call tools.
    tools = scope.tools if options.allow_tools and plan.text is None else ()
    return Asking(context=context, options=options, plan=plan, scope=scope, tools=tools)


def _must_call(asking: Asking) -> Enforcement | None:
    """The round in which a tool has to be called, on back ends that can be held to a schema;
    others are told by the client's own ``tool_choice``."""
    if not asking.tools or asking.plan.structured_output is None:
        return None
    return enforcement(asking.tools, asking.scope.tool_choice)


def _request(asking: Asking, must_call: Enforcement | None) -> ModelRequest:
    context = asking.context
    if must_call is not None:
        asking = replace(asking, more_system=must_call.instructions, tools=())
    prompt = prompt_of(asking)
    context.step.endpoint = asking.plan.endpoint.name
    context.step.resolved_prompt = prompt.shown
    return ModelRequest(
        messages=prompt.messages,
        prompt=prompt.text,
        images=prompt.images,
        parameters=parameters_of(asking.plan, prompt),
        client_parameters=client_parameters(asking),
        stream=context.stream,
        tools=tuple(asking.tools),
        tool_choice=asking.scope.tool_choice if asking.tools else None,
    )


def _given(context: ExecutionContext, reply: Reply) -> Iterator[Event] | WorkflowPayload:
    return replay(reply) if context.stream else WorkflowPayload.of_reply(reply)
