"""Settings of one user: ``Users/<name>.json`` (config-files §4, decisions §2 and §8)."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from Middleware.config.loose import AtLeastOne, LooseBool, LooseInt, Settings, Text, Whole


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


class ApiKey(Settings):
    """A key that a client may show. ``sha256`` is the hex digest of one that is not written
    down."""

    name: Text = ""
    key: Text = Field("", repr=False)
    sha256: Annotated[str, BeforeValidator(_lower)] = Field("", repr=False)

    @model_validator(mode="after")
    def _one_of_both(self) -> "ApiKey":
        if bool(self.key) == bool(self.sha256):
            raise ValueError("needs either `key` or `sha256`")
        if self.sha256 and not re.fullmatch("[0-9a-f]{64}", self.sha256):
            raise ValueError("has a `sha256` that is not 64 hex digits")
        return self


def _plain_keys(value: Any) -> Any:
    """A plain key gets its place in the list as its name."""
    if not isinstance(value, list | tuple):
        return value
    return [
        {"name": f"key {place}", "key": key} if isinstance(key, str) else key
        for place, key in enumerate(value, start=1)
    ]


class RunLog(Settings):
    """How much of past runs is kept."""

    enabled: LooseBool = True
    max_runs: Whole = Field(10_000, ge=1)
    max_days: float = Field(30, gt=0)
    max_megabytes: float = Field(500, gt=0)


Honour = Literal["none", "responder", "all"]


class User(Settings):
    """All that one user file may say. Every key has a default."""

    name: str = ""
    """As typed on the command line or in ``_current-user.json``; names folders and databases."""

    port: LooseInt = Field(None, ge=0, le=65535)
    custom_workflow_override: LooseBool = False
    custom_workflow: Text = ""
    routing_config: Text = ""
    """Empty, with the override off: ``_DefaultWorkflow`` runs (config-files, Surprise 5)."""
    categorization_workflow: Text = ""
    max_categorization_attempts: AtLeastOne = 1
    chat_complete_add_user_assistant: LooseBool = False
    chat_completion_add_missing_assistant_generator: LooseBool = False
    chat_prompt_template_name: Text = ""

    endpoint_configs_sub_directory: Text = ""
    preset_configs_sub_directory_override: Text = ""
    workflow_configs_sub_directory_override: Text = ""
    shared_workflows_sub_directory_override: Text = ""
    structured_output_configs_sub_directory: Text = ""
    allow_shared_workflows: LooseBool = False
    discussion_directory: Text = ""
    sql_lite_directory: Text = ""

    discussion_id_memory_file_workflow_settings: Text = ""
    file_memory_tool_workflow: Text = ""
    chat_summary_tool_workflow: Text = ""
    conversation_memory_tool_workflow: Text = ""
    recent_memory_tool_workflow: Text = ""
    context_compactor_settings_file: Text = ""

    separate_conversation_in_variables: LooseBool = False
    conversation_separation_delimiter: str = "\n"
    user_wide_workflow_variables: Mapping[str, Any] = Field(default_factory=dict)
    clamp_prompt_to_context_window: LooseBool = False
    connect_timeout_in_seconds: AtLeastOne = 30
    read_timeout_in_seconds: Whole = Field(14400, ge=1)
    """Silence of a back end after which it counts as gone."""
    use_file_logging: LooseBool = False
    redact_log_output: LooseBool = False
    encrypt_using_api_key: LooseBool = False
    intercept_open_web_ui_tool_requests: LooseBool = Field(
        False, alias="interceptOpenWebUIToolRequests"
    )
    liveness_tool_call: Any = None
    """As written; a malformed one means off (front-doors §11.2)."""
    use_offline_wiki_api: LooseBool = False
    offline_wiki_api_host: Text = "127.0.0.1"
    offline_wiki_api_port: Whole = 5728
    use_offline_researcher_api: LooseBool = False
    offline_researcher_api_host: Text = "127.0.0.1"
    offline_researcher_api_port: Whole = 8890
    mcpo_url: Text = Field("", alias="MCPO_URL", repr=False)

    dialect: Annotated[Literal["headrace", "reference"], BeforeValidator(_lower)] = "reference"
    api_keys: Annotated[tuple[ApiKey, ...], BeforeValidator(_plain_keys)] = Field((), repr=False)
    model_aliases: Mapping[str, str] = Field(default_factory=dict)
    """Pattern of a model name -> what it stands for; ``*`` and ``?`` are wildcards."""
    honour_request_parameters: Annotated[Honour, BeforeValidator(_lower)] = "none"
    """Resolved: when the file says nothing, the dialect decides."""
    chore_workflow: Text = ""
    show_progress: LooseBool = False
    heartbeat_seconds: float = Field(1.0, gt=0)
    max_workflow_depth: Whole = Field(16, ge=1)
    max_steps: Whole = Field(200, ge=1)
    route_overrides_lookup: Literal["capitalized", "caseInsensitive"] = "capitalized"
    completions_stream_by_default: LooseBool = False
    conversation_id_from_front_end: LooseBool = False
    """Resolved: when the file says nothing, the dialect decides."""
    run_log: RunLog = RunLog()

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_dialect(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping):
            return raw
        ours = _lower(raw.get("dialect")) == "headrace"
        said = {key for key, value in raw.items() if value is not None}
        filled = dict(raw)
        if not said & {"honourRequestParameters", "honour_request_parameters"}:
            filled["honourRequestParameters"] = "responder" if ours else "none"
        if not said & {"conversationIdFromFrontEnd", "conversation_id_from_front_end"}:
            filled["conversationIdFromFrontEnd"] = ours
        return filled

    @property
    def workflow_folder(self) -> str:
        """Where this user's own workflows are, below ``Workflows/``."""
        return self.workflow_configs_sub_directory_override or self.name

    @property
    def shared_folder(self) -> str:
        """Where the workflows are that a client may name, below ``Workflows/``."""
        return self.shared_workflows_sub_directory_override or "_shared"

    @property
    def preset_folder(self) -> str:
        """Looked in first, below ``Presets/<presetType>/``."""
        return self.preset_configs_sub_directory_override or self.name

    @property
    def structured_output_folder(self) -> str:
        """Looked in first, below ``StructuredOutputs/``."""
        return self.structured_output_configs_sub_directory or self.name
