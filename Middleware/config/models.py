"""Configuration files as frozen values. Field names are snake_case, keys on disk camelCase.

``name`` of a value, and ``file`` of an endpoint, are not in the file: the loader adds them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from Middleware.config.loose import FileModel as FileModel
from Middleware.config.loose import LooseBool as LooseBool
from Middleware.config.loose import LooseInt as LooseInt
from Middleware.config.loose import Settings as Settings
from Middleware.config.loose import Text as Text
from Middleware.config.loose import TextOrNone as TextOrNone
from Middleware.config.loose import Texts as Texts
from Middleware.config.loose import Whole as Whole
from Middleware.config.user import ApiKey as ApiKey
from Middleware.config.user import RunLog as RunLog
from Middleware.config.user import User as User


class Endpoint(Settings):
    """One model server: ``Endpoints/[<sub>/]<name>.json`` (config-files §5, decisions §8)."""

    name: str = ""
    """The file's name without its suffix."""
    file: str = ""
    """Folder and file, as messages tell it. The loader adds it too."""
    endpoint: Text = Field("", repr=False)
    """Address of the model server: ``http://127.0.0.1:8080``, with or without ``/v1``."""
    api_type_config_file_name: Text = ""
    """File of ``ApiTypes/``: what kind of server it is. Must be there."""
    prompt_template: Text = ""
    """File of ``PromptTemplates/``, for text APIs; empty: the user's ``chatPromptTemplateName``."""
    model_name_to_send_to_api: Text = Field("", alias="modelNameToSendToAPI")
    """What the server calls the model."""
    dont_include_model: LooseBool = False
    """Send no ``model`` field."""
    api_key: Text = Field("", repr=False)
    """Sent as ``Authorization: Bearer …``. Write ``${VARIABLE}`` to take it from the environment;
    empty: no key is sent."""
    max_context_token_size: LooseInt = None
    """The model's context window in tokens. Sent where the API type has a name for it."""
    wilmer_context_estimation_level: Text = "conservative"
    """How far to trust the token estimate when the prompt is clamped: ``conservative``,
    ``balanced``, ``aggressive`` or ``xaggressive``."""
    clamp_prompt_to_context_window: LooseBool | None = None
    """Leave out the oldest messages that do not fit into ``maxContextTokenSize``; absent: as the
    user says."""
    add_generation_prompt: LooseBool = False
    """End prompts of text APIs with the assistant's prefix, unless the node says otherwise."""
    preset_samplers: Mapping[str, Any] | None = None
    """Sampling parameters by their common names (``temperature``, ``top_p``, ``repeat_penalty`` …),
    translated for the API type. Used when a node names no preset, or names this endpoint as its
    preset."""
    append_preset_name: Text = ""
    """File of ``Presets/<presetType>/`` whose fields are laid over the others as they are."""
    add_text_to_start_of_system: LooseBool = False
    """Put a text in front of the system prompt."""
    text_to_add_to_start_of_system: Text = ""
    """The text for ``addTextToStartOfSystem``."""
    add_text_to_start_of_prompt: LooseBool = False
    """Put a text in front of the last user message."""
    text_to_add_to_start_of_prompt: Text = ""
    """The text for ``addTextToStartOfPrompt``."""
    add_text_to_start_of_completion: LooseBool = False
    """Put a text at the end of the conversation, for the model to go on from."""
    text_to_add_to_start_of_completion: Text = ""
    """The text for ``addTextToStartOfCompletion``."""
    ensure_text_added_to_assistant_when_chat_completion: LooseBool = False
    """The text for the completion always stands in an assistant message, a new one if need be."""
    backend_supports_tool_turns: LooseBool = True
    """``false``: nodes do not append tool calls and results as messages of their own."""
    remove_thinking: LooseBool = False
    """Take the thinking block out of answers. Needs both tags."""
    start_think_tag: Text = ""
    """As ``<think>``."""
    end_think_tag: Text = ""
    """As ``</think>``."""
    opening_tag_grace_period: Whole = 100
    """How many characters may stand before the opening tag."""
    expect_only_closing_think_tag: LooseBool = False
    """The answer begins inside the thinking block, without an opening tag."""
    remove_custom_text_from_response_start_endpoint_wide: LooseBool = False
    """Cut certain texts from the start of answers."""
    response_start_text_to_remove_endpoint_wide: Texts = ()
    """These texts: one, or a list of which the first that fits is cut."""
    trim_beginning_and_end_line_breaks: LooseBool = False
    """Cut white space around answers."""
    backup_endpoint_name: Text = ""
    """Endpoint to ask when this one fails and nothing of its answer has been passed on. It may have
    a backup too."""
    backup_preset_name: Text = ""
    """Preset for the backup; empty: the one that the node names."""
    allow_remote_backup: LooseBool = False
    """Whether this endpoint may stand in for another one although it lies outside the local
    network."""
    retries: Whole = Field(2, ge=0, le=10)
    """How often a call is repeated that failed in a way that may pass (no connection, 429, 5xx),
    after short pauses and only while nothing has been passed on. Not with a backup."""
    max_concurrent_requests: LooseInt = Field(None, ge=0)
    """Calls that the server gets at once; others wait. Absent: as ``--concurrency`` says at the
    level ``endpoint``, else no limit."""
    supports_developer_role: LooseBool = False
    """Messages with the role ``developer`` are sent as they are; otherwise as ``system``."""
    strict_content: LooseBool = False
    """Send empty text, not null, as the content of a message that consists of tool calls."""
    connect_timeout_in_seconds: LooseInt = Field(None, ge=1)
    """How long connecting may take; absent: as the user says."""
    read_timeout_in_seconds: LooseInt = Field(None, ge=1)
    """How long the server may be silent; absent: as the user says."""
    script: TextOrNone = None
    """Of scripted endpoints: a built-in script that answers where no rule does. ``echo`` repeats
    the last user text."""
    rules: tuple[Mapping[str, Any], ...] = ()
    """Of scripted endpoints: the first that matches answers."""
    default: Mapping[str, Any] | None = None
    """Of scripted endpoints: what is said when no rule matches."""


class ThinkingRule(Settings):
    """How a back end is told to think, or not to (config-files §7.2)."""

    mode: Literal["bool", "effort", "unsupported"] = "unsupported"
    """``bool``: true or false in the field. ``effort``: low, medium or high. ``unsupported``: it
    cannot be told."""
    field: Text = ""
    """Name of the field; at the top, dots nest."""
    location: Literal["top", "chat_template_kwargs"] = "top"
    """Where the field stands."""


class StructuredOutputRule(Settings):
    """Where a JSON schema goes in the payload (config-files §10). Dots in ``field`` nest."""

    field: str = Field(min_length=1)
    """Where the schema goes; dots nest."""
    style: Literal["openaiJsonSchema", "raw", "openaiResponses"]
    """``openaiJsonSchema``: wrapped as OpenAI's chats want it. ``openaiResponses``: as its
    Responses interface does. ``raw``: the schema itself."""
    strict: LooseBool = True
    """The ``strict`` of OpenAI's wrapping."""


def _named_only(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: name for key, name in value.items() if name not in (None, "")}


class ApiType(Settings):
    """How one kind of model server is spoken to: ``ApiTypes/<name>.json`` (config-files §6)."""

    name: str = ""
    type: str = Field(min_length=1)
    """Which back end speaks to the server. Must be there."""
    preset_type: Text = ""
    """Folder below ``Presets/``."""
    max_new_tokens_property_name: TextOrNone = None
    """What the server calls the longest answer, as ``max_tokens``. Without it the length is not
    sent."""
    truncate_length_property_name: TextOrNone = None
    """What the server calls the context window. Without it the window is not sent."""
    stream_property_name: TextOrNone = None
    """What the server calls the switch for streaming, as ``stream``. Without it the server is not
    asked to stream."""
    sampler_field_map: Annotated[
        Mapping[str, str],
        BeforeValidator(_named_only, json_schema_input_type=Mapping[str, str | None]),
    ] = Field(default_factory=dict)
    """Common name of a sampling parameter -> the server's name. Parameters that are not listed are
    left out."""
    supports_chat_template_kwargs: LooseBool = False
    """Whether ``chat_template_kwargs`` of ``presetSamplers`` is sent."""
    thinking: ThinkingRule = ThinkingRule()
    """How ``thinkingMode`` of ``presetSamplers`` is said."""
    structured_output: StructuredOutputRule | None = None
    """How a JSON schema for the answer is sent. Without it, the server is not told of it."""
    always_stream: LooseBool = False
    """Ask for a stream even where nobody reads along. Some servers notice in a stream alone that
    the answer is not wanted any more, and go on working otherwise."""
    stream_usage: LooseBool = True
    """Ask for token counts in streams (``stream_options``). Turn it off for servers that refuse the
    field."""


class PromptTemplate(Settings):
    """The tokens around messages on text APIs: ``PromptTemplates/<name>.json``."""

    name: str = ""
    prompt_template_system_prefix: Text = ""
    """Before the system prompt."""
    prompt_template_system_suffix: Text = ""
    """After the system prompt."""
    prompt_template_user_prefix: Text = ""
    """Before a user message."""
    prompt_template_user_suffix: Text = ""
    """After a user message."""
    prompt_template_assistant_prefix: Text = ""
    """Before an assistant message."""
    prompt_template_assistant_suffix: Text = ""
    """After an assistant message, unless it is the last one."""
    prompt_template_systemmes_prefix: Text = ""
    """Before a system message inside the conversation."""
    prompt_template_systemmes_suffix: Text = ""
    """After a system message inside the conversation."""
    prompt_template_end_token: Text = ""
    """After the assistant's prefix that an answer begins with."""

    def around(self, role: str) -> tuple[str, str]:
        """Prefix and suffix of a message of ``role``; empty where the file has none.

        The key is made of the role with only its first letter upper case (config-files §8),
        so roles that have no field of their own work too.
        """
        known = _AFFIXES.get(role)
        if known:
            return getattr(self, known[0]), getattr(self, known[1])
        extra = self.model_extra or {}
        key = f"promptTemplate{role.capitalize()}"
        return str(extra.get(f"{key}Prefix") or ""), str(extra.get(f"{key}Suffix") or "")


_AFFIXES = {
    role: (f"prompt_template_{role.lower()}_prefix", f"prompt_template_{role.lower()}_suffix")
    for role in ("system", "user", "assistant", "systemMes")
}


class Route(Settings):
    """One category of a routing file."""

    description: Text
    """What belongs here; the categorization workflow shows it to the model."""
    workflow: str = Field(min_length=1)
    """Workflow in the user's folder."""


class RoutingFile(Settings):
    """``Routing/<name>.json``: categories in the order of the file (config-files §9)."""

    name: str = ""
    categories: Mapping[str, Route] = Field(default_factory=dict)


class McpServer(Settings):
    """``MCPServers/<name>.json`` (config-files §16)."""

    name: str = ""
    transport: Literal["stdio", "sse", "streamable_http"]
    """How the server is spoken to."""
    command: Text = ""
    """``stdio``: the program."""
    args: tuple[Text, ...] = ()
    """``stdio``: its arguments."""
    env: Mapping[str, Text] | None = Field(None, repr=False)
    """``stdio``: its environment; absent: the least that is needed."""
    cwd: TextOrNone = None
    """``stdio``: the folder it runs in."""
    url: Text = Field("", repr=False)
    """The other two: the server's address."""
    headers: Mapping[str, Text] | None = Field(None, repr=False)
    """The other two: headers of every request."""
