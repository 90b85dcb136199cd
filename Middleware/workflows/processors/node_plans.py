"""Works out how a node calls its model, once for as long as the files behind it stay the same."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from Middleware.config.files import ChosenPreset, Snapshot
from Middleware.config.models import ApiType, Endpoint, User
from Middleware.llm.presets import generation_parameters, preset_fields
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.output.cleaning import cleaning_rules
from Middleware.workflows.prompts.chat import PromptRules
from Middleware.workflows.prompts.clamp import (
    DEFAULT_RESPONSE_TOKENS,
    ClampSettings,
    resolve_clamp,
)
from Middleware.workflows.prompts.images import image_rules
from Middleware.workflows.prompts.templates import named_template
from Middleware.workflows.prompts.text import TextRules, text_rules
from Middleware.workflows.variables.conversation import ConversationRules


@dataclass(frozen=True, slots=True)
class _Model:
    """What a node calls, in this request's versions of the files."""

    endpoint: Endpoint
    api_type: ApiType
    backend: Any
    chosen: ChosenPreset


def plan_node(
    scope: RequestScope, workflow: Workflow, node: Node, options: Any
) -> ModelPlan | None:
    """The plan of a node; None when it names no endpoint.

    An endpoint is loaded for every node that names one, whatever its type (nodes §0).
    """
    if not options.endpoint_name:
        return None
    config = scope.config
    endpoint = config.endpoint(options.endpoint_name)
    api_type = config.api_type(endpoint.api_type_config_file_name)
    backend = scope.backends.get(config, endpoint, (workflow, node))
    chosen = config.preset(endpoint, api_type, options.preset or None)

    def build() -> ModelPlan:
        model = _Model(endpoint, api_type, backend, chosen)
        return _build(config, workflow, model, options)

    key = ("plan", *node_key(config, workflow, node))
    sources = (options, endpoint, api_type, backend, chosen, config.user, config.prices())
    return config.derived(key, sources, build)


def conversation_of(plan: ModelPlan, config: Snapshot) -> ConversationRules:
    """The plan's rules; a text endpoint's with its templates, in this request's version."""
    rules = plan.conversation
    if rules.chat_endpoint:
        return rules
    of_user = config.user.chat_prompt_template_name
    of_endpoint = plan.endpoint.prompt_template or of_user
    return replace(
        rules,
        endpoint_template=lambda: named_template(config, of_endpoint),
        user_template=lambda: named_template(config, of_user or of_endpoint),
    )


def default_conversation(
    scope: RequestScope, workflow: Workflow, node: Node, options: Any
) -> ConversationRules:
    """The rules of a node without endpoint, which counts as a chat endpoint (variables §2.3)."""
    config = scope.config

    def build() -> ConversationRules:
        return _conversation_rules(config.user, options, True, None)

    key = ("conversation", *node_key(config, workflow, node))
    return config.derived(key, (options, config.user), build)


def node_key(config: Snapshot, workflow: Workflow, node: Node) -> tuple[Hashable, ...]:
    """What tells a node of a user apart from all others."""
    return (config.user.name, workflow.folder, workflow.name, node.position)


def _build(config: Snapshot, workflow: Workflow, model: _Model, options: Any) -> ModelPlan:
    user, endpoint, backend = config.user, model.endpoint, model.backend
    clamp = resolve_clamp(options, endpoint, user)
    response = options.max_response_size_in_tokens
    if isinstance(response, str) or response is None:
        response = DEFAULT_RESPONSE_TOKENS
    splits = bool(
        getattr(options, "append_native_tool_exchange", False)
        and backend.kind == "chat"
        and endpoint.backend_supports_tool_turns
    )
    parameters = _parameters(config, model, response)
    takes_addresses = getattr(backend, "takes_image_addresses", True)
    return ModelPlan(
        endpoint=endpoint,
        backend=backend,
        parameters=parameters,
        text=_text_rules(options, endpoint) if backend.kind == "text" else None,
        images=image_rules(user, takes_addresses=takes_addresses),
        structured_output=model.api_type.structured_output,
        length_key=_length_to_fit(model, parameters),
        shows_thinking=workflow.switch("showThinking", user.show_thinking),
        conversation=_conversation_rules(user, options, backend.kind == "chat", clamp),
        prompt=_prompt_rules(options, clamp, splits),
        # Thinking is kept for the run's record, whether or not the client sees it.
        cleaning=cleaning_rules(
            options, endpoint, assistant_label=_has_filler(user), keep_thinking=True
        ),
        price=config.prices().price(endpoint.model_name_to_send_to_api),
        splits_tool_exchange=splits,
    )


def _parameters(config: Snapshot, model: _Model, max_tokens: int) -> dict[str, Any]:
    """What the preset asks for is worked out, and what it cannot have is told, once for all
    nodes: their sizes may differ from request to request.
    """
    endpoint, api_type, chosen = model.endpoint, model.api_type, model.chosen
    fields = config.derived(
        "preset fields",
        (endpoint, api_type, chosen),
        lambda: preset_fields(endpoint, api_type, chosen),
    )
    return generation_parameters(endpoint, api_type, fields, max_tokens)


def _text_rules(options: Any, endpoint: Endpoint) -> TextRules:
    return text_rules(
        endpoint,
        user_turn=getattr(options, "add_user_turn_template", False),
        open_assistant_turn=getattr(options, "add_open_ended_assistant_turn_template", False),
        force=getattr(options, "force_generation_prompt_if_endpoint_allows", False),
        block=getattr(options, "block_generation_prompt", False),
    )


def _length_to_fit(model: _Model, parameters: Mapping[str, Any]) -> str | None:
    """The name of the longest answer's field when it is as long as the window, or longer."""
    key = model.api_type.max_new_tokens_property_name
    window = model.endpoint.max_context_token_size
    length = parameters.get(key) if key else None
    return key if isinstance(length, int) and window and length >= window else None


def _has_filler(user: User) -> bool:
    """Whether a conversation may end with an ``Assistant:`` that this server put there."""
    return (
        user.chat_complete_add_user_assistant
        and user.chat_completion_add_missing_assistant_generator
    )


def _conversation_rules(
    user: User, options: Any, is_chat: bool, clamp: ClampSettings | None
) -> ConversationRules:
    return ConversationRules(
        chat_endpoint=is_chat,
        separator=user.conversation_separation_delimiter
        if user.separate_conversation_in_variables
        else "\n",
        tags=options.add_user_assistant_tags,
        n_messages=_whole(options.n_messages_to_include_in_variable, 5),
        estimated_tokens=_whole(options.estimated_tokens_to_include_in_variable, 2048),
        min_messages=_whole(options.min_messages_in_variable, 5),
        max_tokens=_whole(options.max_estimated_tokens_in_variable, 2048),
        include_tool_calls=options.include_tool_calls_in_conversation,
        window_budget=clamp.window_budget if clamp else None,
        level=clamp.level if clamp else 1.0,
    )


def _prompt_rules(options: Any, clamp: ClampSettings | None, splits: bool) -> PromptRules:
    value = options.get
    limit = getattr(options, "last_messages_to_send_instead_of_prompt_max_token_size", None)
    return PromptRules(
        last_messages=_whole(getattr(options, "last_messages_to_send_instead_of_prompt", 5), 5),
        last_messages_tokens=limit if isinstance(limit, int) else None,
        accept_images=getattr(options, "accept_images", False),
        max_images=_whole(getattr(options, "max_images_to_send", 0), 0),
        merge_assistant=getattr(options, "merge_consecutive_assistant_messages", False),
        merge_delimiter=value("mergeConsecutiveAssistantMessagesDelimiter", "\n"),
        insert_user_turn=getattr(options, "insert_user_turn_between_assistant_messages", False),
        inserted_user_turn=value("insertedUserTurnText", "Continue."),
        append_tool_exchange=splits,
        clamp=clamp,
    )


def _whole(value: Any, instead: int) -> int:
    """What is no number by now is not one that a variable could still fill (variables §6)."""
    return value if isinstance(value, int) else instead
