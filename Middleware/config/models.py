"""Configuration files as frozen values. Field names are snake_case, keys on disk camelCase.

``name`` of a value is not in the file: the loader adds it.
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
    endpoint: Text = Field("", repr=False)
    """Base URL as written: with or without a trailing slash or ``/v1``. Never in a message."""
    api_type_config_file_name: Text = ""
    prompt_template: Text = ""
    """Empty: the user's ``chat_prompt_template_name``."""
    model_name_to_send_to_api: Text = Field("", alias="modelNameToSendToAPI")
    dont_include_model: LooseBool = False
    api_key: Text = Field("", repr=False)
    """``${VARIABLE}`` is filled in when the file is loaded."""
    max_context_token_size: LooseInt = None
    wilmer_context_estimation_level: Text = "conservative"
    clamp_prompt_to_context_window: LooseBool | None = None
    """None: as the user says."""
    add_generation_prompt: LooseBool = False
    preset_samplers: Mapping[str, Any] | None = None
    append_preset_name: Text = ""
    add_text_to_start_of_system: LooseBool = False
    text_to_add_to_start_of_system: Text = ""
    add_text_to_start_of_prompt: LooseBool = False
    text_to_add_to_start_of_prompt: Text = ""
    add_text_to_start_of_completion: LooseBool = False
    text_to_add_to_start_of_completion: Text = ""
    ensure_text_added_to_assistant_when_chat_completion: LooseBool = False
    backend_supports_tool_turns: LooseBool = True
    remove_thinking: LooseBool = False
    start_think_tag: Text = ""
    end_think_tag: Text = ""
    opening_tag_grace_period: Whole = 100
    """Characters."""
    expect_only_closing_think_tag: LooseBool = False
    remove_custom_text_from_response_start_endpoint_wide: LooseBool = False
    response_start_text_to_remove_endpoint_wide: Texts = ()
    trim_beginning_and_end_line_breaks: LooseBool = False
    backup_endpoint_name: Text = ""
    backup_preset_name: Text = ""
    allow_remote_backup: LooseBool = False
    supports_developer_role: LooseBool = False
    strict_content: LooseBool = False
    connect_timeout_in_seconds: LooseInt = Field(None, ge=1)
    """None: the user's."""
    read_timeout_in_seconds: LooseInt = Field(None, ge=1)
    """Silence; None: the user's."""
    script: TextOrNone = None
    """Scripted endpoints only (decisions §7), like the next two."""
    rules: tuple[Mapping[str, Any], ...] = ()
    default: Mapping[str, Any] | None = None


class ThinkingRule(Settings):
    """How a back end is told to think, or not to (config-files §7.2)."""

    mode: Literal["bool", "effort", "unsupported"] = "unsupported"
    field: Text = ""
    location: Literal["top", "chat_template_kwargs"] = "top"


class StructuredOutputRule(Settings):
    """Where a JSON schema goes in the payload (config-files §10). Dots in ``field`` nest."""

    field: str = Field(min_length=1)
    style: Literal["openaiJsonSchema", "raw"]
    strict: LooseBool = True


def _named_only(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: name for key, name in value.items() if name not in (None, "")}


class ApiType(Settings):
    """How one kind of model server is spoken to: ``ApiTypes/<name>.json`` (config-files §6)."""

    name: str = ""
    type: str = Field(min_length=1)
    preset_type: Text = ""
    max_new_tokens_property_name: TextOrNone = None
    truncate_length_property_name: TextOrNone = None
    stream_property_name: TextOrNone = None
    sampler_field_map: Annotated[Mapping[str, str], BeforeValidator(_named_only)] = Field(
        default_factory=dict
    )
    supports_chat_template_kwargs: LooseBool = False
    thinking: ThinkingRule = ThinkingRule()
    structured_output: StructuredOutputRule | None = None
    stream_usage: LooseBool = True
    """Ours: whether streamed calls may ask for the token counts (decisions §6)."""


class PromptTemplate(Settings):
    """The tokens around messages on text APIs: ``PromptTemplates/<name>.json``."""

    name: str = ""
    prompt_template_system_prefix: Text = ""
    prompt_template_system_suffix: Text = ""
    prompt_template_user_prefix: Text = ""
    prompt_template_user_suffix: Text = ""
    prompt_template_assistant_prefix: Text = ""
    prompt_template_assistant_suffix: Text = ""
    prompt_template_systemmes_prefix: Text = ""
    prompt_template_systemmes_suffix: Text = ""
    prompt_template_end_token: Text = ""

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
    workflow: str = Field(min_length=1)


class RoutingFile(Settings):
    """``Routing/<name>.json``: categories in the order of the file (config-files §9)."""

    name: str = ""
    categories: Mapping[str, Route] = Field(default_factory=dict)


class McpServer(Settings):
    """``MCPServers/<name>.json`` (config-files §16)."""

    name: str = ""
    transport: Literal["stdio", "sse", "streamable_http"]
    command: Text = ""
    args: tuple[Text, ...] = ()
    env: Mapping[str, Text] | None = Field(None, repr=False)
    """None: the minimal environment of the client library."""
    cwd: TextOrNone = None
    url: Text = Field("", repr=False)
    headers: Mapping[str, Text] | None = Field(None, repr=False)
