"""Standard: one call of a model (nodes §1)."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from Middleware.config.models import LooseBool, Text
from Middleware.core.errors import WorkflowError
from Middleware.core.events import Event, collect
from Middleware.core.messages import Message
from Middleware.llm.backend import ModelRequest
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import IntOrTemplate, NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.message_text import body_start
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.prompts.chat import build_chat

logger = logging.getLogger(__name__)


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
    structured_output_file: Text = ""
    """Not used yet: JSON schema that the answer must follow."""
    merge_consecutive_assistant_messages: LooseBool = False
    """Make one message of assistant messages that follow each other."""
    merge_consecutive_assistant_messages_delimiter: str = "\n"
    """What stands between their texts."""
    insert_user_turn_between_assistant_messages: LooseBool = False
    """Put a user message between assistant messages that follow each other."""
    inserted_user_turn_text: str = "Continue."
    """What it says."""
    add_user_turn_template: LooseBool = False
    """Not used yet: user tokens around prompts for text APIs."""
    add_open_ended_assistant_turn_template: LooseBool = False
    """Not used yet: assistant tokens for text APIs."""
    force_generation_prompt_if_endpoint_allows: LooseBool = False
    """Not used yet: for text APIs."""
    block_generation_prompt: LooseBool = False
    """Not used yet: for text APIs."""


@node_type("Standard", "Conversational", options=StandardOptions)
class StandardHandler(NodeHandler):
    has_side_effects = False

    def handle(self, context: ExecutionContext) -> Iterator[Event] | WorkflowPayload:
        options = options_of(context, StandardOptions)
        plan, scope = context.plan, context.request_scope
        if plan is None or scope is None:
            raise WorkflowError(
                "a model is to be called, but `endpointName` is missing. "
                "Name a file of the Endpoints folder."
            )
        messages = self._messages(context, options, plan)
        context.step.endpoint = plan.endpoint.name
        context.step.resolved_prompt = messages
        request = ModelRequest(
            messages=messages,
            parameters=plan.parameters,
            client_parameters=_client_parameters(context, plan, scope),
            stream=context.stream,
            tools=scope.tools if options.allow_tools else (),
            tool_choice=scope.tool_choice if options.allow_tools else None,
        )
        events = plan.backend.complete(request, scope.cancel)
        return events if context.stream else WorkflowPayload.of_reply(collect(events))

    def _messages(
        self, context: ExecutionContext, options: StandardOptions, plan: ModelPlan
    ) -> tuple[Message, ...]:
        system_prompt = context.prompt(options.system_prompt, context.system_prompt_override)
        # Decided before the variables are filled in: a prompt that resolves to nothing is
        # still a prompt (nodes §1).
        authored = context.prompt_override or options.prompt
        prompt = context.prompt(options.prompt, context.prompt_override) if authored else None
        rules = plan.prompt
        scope = context.request_scope
        if rules.clamp is not None and options.allow_tools and scope is not None and scope.tools:
            rules = replace(rules, tools=scope.tools)
        chat = build_chat(
            context.messages,
            system_prompt=system_prompt,
            prompt=prompt,
            rules=rules,
            instructions=_own_instructions(context, options, plan),
        )
        if chat.dropped and scope is not None:
            scope.totals.dropped_messages += chat.dropped
            logger.info(
                "context clamp: %d messages of the conversation do not fit endpoint %r and are "
                "left out",
                chat.dropped,
                plan.endpoint.name,
            )
        if chat.over_budget:
            logger.warning(
                "the prompt is larger than the window of endpoint %r; it is sent as it is",
                plan.endpoint.name,
            )
        if prompt is None and scope is not None and scope.filler is not None:
            return (*chat.messages, scope.filler)
        return chat.messages


def _own_instructions(
    context: ExecutionContext, options: StandardOptions, plan: ModelPlan
) -> tuple[Message, ...]:
    """The client's instructions as they are, each in its role: when they are the whole system
    prompt, and the model server knows the role ``developer`` (C-27). Empty otherwise.
    """
    if not plan.endpoint.supports_developer_role or context.system_prompt_override is not None:
        return ()
    if options.system_prompt.strip() != "{chat_system_prompt}":
        return ()
    leading = tuple(context.messages[: body_start(context.messages)])
    return leading if any(message.role == "developer" for message in leading) else ()


def _client_parameters(
    context: ExecutionContext, plan: ModelPlan, scope: RequestScope
) -> Mapping[str, Any]:
    """The client's sampling fields, where the workflow's owner lets them through (design §4)."""
    honour = scope.config.user.honour_request_parameters
    if not scope.parameters.values or honour == "none":
        return {}
    if honour == "responder" and not context.answers_client:
        return {}
    taken = {
        name: value
        for name, value in scope.parameters.values.items()
        if name in plan.backend.accepts
    }
    scope.parameters.used.update(taken)
    return taken
