"""Settings of one user: ``Users/<name>.json`` (config-files §4, decisions §2 and §8)."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from Middleware.config.durable import Durable
from Middleware.config.loose import AtLeastOne, LooseBool, LooseInt, Settings, Text, Texts, Whole


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


class ApiKey(Settings):
    """A key that a client may show. ``sha256`` is the hex digest of one that is not written
    down."""

    name: Text = ""
    """Free text for logs."""
    key: Text = Field("", repr=False)
    """The key itself, or ``${VARIABLE}``."""
    sha256: Annotated[str, BeforeValidator(_lower)] = Field("", repr=False)
    """In place of ``key``: the SHA-256 of the key as hexadecimal digits."""

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
    """Whether finished runs are kept."""
    max_runs: Whole = Field(10_000, ge=1)
    """The oldest go first."""
    max_days: float = Field(30, gt=0)
    """Older runs are deleted."""
    max_megabytes: float = Field(500, gt=0)
    """Of all runs together."""


Honour = Literal["none", "responder", "all"]


class User(Settings):
    """All that one user file may say. Every key has a default."""

    name: str = ""
    """As typed on the command line or in ``_current-user.json``; names folders and databases."""

    port: LooseInt = Field(None, ge=0, le=65535)
    """Where the server listens when this is its only user and no ``--port`` is given. Without both:
    5050."""
    custom_workflow_override: LooseBool = False
    """``true``: ``customWorkflow`` answers every request that names no workflow."""
    custom_workflow: Text = ""
    """Workflow in the user's folder."""
    routing_config: Text = ""
    """File of ``Routing/`` with the categories. Empty, with the override off: ``_DefaultWorkflow``
    runs."""
    categorization_workflow: Text = ""
    """Workflow whose answer names the category."""
    max_categorization_attempts: AtLeastOne = 1
    """How often it is asked when its answer names no category; then ``_DefaultWorkflow`` runs."""
    chat_complete_add_user_assistant: LooseBool = False
    """Put ``User: `` and ``Assistant: `` in front of the messages."""
    chat_completion_add_missing_assistant_generator: LooseBool = False
    """With ``chatCompleteAddUserAssistant``: end the conversation with ``Assistant:`` when the last
    message is not the assistant's."""
    chat_prompt_template_name: Text = ""
    """File of ``PromptTemplates/`` for text endpoints that name none."""

    endpoint_configs_sub_directory: Text = ""
    """Folder below ``Endpoints/`` where the user's endpoints are. Nowhere else is looked."""
    preset_configs_sub_directory_override: Text = ""
    """Folder below ``Presets/<presetType>/`` that is looked in first; empty: the user's name."""
    workflow_configs_sub_directory_override: Text = ""
    """Folder below ``Workflows/`` with the user's own workflows; empty: the user's name."""
    shared_workflows_sub_directory_override: Text = ""
    """Folder below ``Workflows/`` whose folders are workflows that clients may name; empty:
    ``_shared``."""
    structured_output_configs_sub_directory: Text = ""
    """Folder below ``StructuredOutputs/`` that is looked in first; empty: the user's name."""
    allow_shared_workflows: LooseBool = False
    """Whether the shared workflows are listed as models. They can be named in any case."""
    discussion_directory: Text = ""
    """Folder for what is remembered of conversations; empty: ``DiscussionIds`` in the public
    folder."""
    sql_lite_directory: Text = ""
    """Folder for SQLite files; empty: ``SqlLiteDBs`` in the public folder."""

    discussion_id_memory_file_workflow_settings: Text = ""
    """Not used yet: settings of memories."""
    file_memory_tool_workflow: Text = ""
    """Not used yet: workflow of memory nodes."""
    chat_summary_tool_workflow: Text = ""
    """Not used yet: workflow of memory nodes."""
    conversation_memory_tool_workflow: Text = ""
    """Not used yet: workflow of memory nodes."""
    recent_memory_tool_workflow: Text = ""
    """Not used yet: workflow of memory nodes."""
    context_compactor_settings_file: Text = ""
    """File among the user's own workflows: settings of ContextCompactor nodes."""

    separate_conversation_in_variables: LooseBool = False
    """Join messages in ``{chat_user_prompt_…}`` with ``conversationSeparationDelimiter`` in place
    of a line break."""
    conversation_separation_delimiter: str = "\n"
    """The text for ``separateConversationInVariables``."""
    user_wide_workflow_variables: Mapping[str, Any] = Field(default_factory=dict)
    """Variables for all workflows of the user: ``{name}``. A value may hold variables once more."""
    clamp_prompt_to_context_window: LooseBool = False
    """Leave out the oldest messages that do not fit into the endpoint's ``maxContextTokenSize``.
    Endpoint and node may say otherwise."""
    connect_timeout_in_seconds: AtLeastOne = 30
    """How long connecting to a model server may take."""
    read_timeout_in_seconds: Whole = Field(14400, ge=1)
    """How long a model server may be silent before it counts as gone."""
    use_file_logging: LooseBool = False
    """Write log files too, when this is the only user."""
    redact_log_output: LooseBool = False
    """Keep what people and models say out of the log and the record of runs."""
    encrypt_using_api_key: LooseBool = False
    """Encrypt what is remembered of conversations with the client's key."""
    intercept_open_web_ui_tool_requests: LooseBool = Field(
        False, alias="interceptOpenWebUIToolRequests"
    )
    """Answer Open WebUI's question which tools to call with "none", without a model."""
    liveness_tool_call: Any = None
    """``{"toolName", "arguments"}``: a harmless tool of an agent. A streamed answer that is empty,
    or whose node has ``injectLivenessToolCall``, ends with a call of it, so that the agent asks
    again. Such calls are taken out of conversations that come back."""
    use_offline_wiki_api: LooseBool = False
    """Whether OfflineWikiApi nodes ask their service."""
    offline_wiki_api_host: Text = "127.0.0.1"
    """Host of that service."""
    offline_wiki_api_port: Whole = 5728
    """Port of that service."""
    use_offline_researcher_api: LooseBool = False
    """Whether OfflineResearcherApi nodes ask their service."""
    offline_researcher_api_host: Text = "127.0.0.1"
    """Host of that service."""
    offline_researcher_api_port: Whole = 8890
    """Port of that service."""
    mcpo_url: Text = Field("", alias="MCPO_URL", repr=False)
    """Not used yet: address for Python scripts."""

    dialect: Annotated[Literal["headrace", "reference"], BeforeValidator(_lower)] = "reference"
    """What happens where the two programs differ: ``headrace``, or ``reference`` as WilmerAI
    does."""
    api_keys: Annotated[
        tuple[ApiKey, ...],
        BeforeValidator(_plain_keys, json_schema_input_type=tuple[ApiKey | str, ...]),
    ] = Field((), repr=False)
    """Keys that clients must show, each as text or ``{"name", "key" or "sha256"}``. If any user has
    some, they are demanded everywhere."""
    model_aliases: Mapping[str, str] = Field(default_factory=dict)
    """Pattern of a model name -> shared workflow; ``*`` and ``?`` are wildcards. Names that clients
    may use though they are not listed."""
    honour_request_parameters: Annotated[Honour, BeforeValidator(_lower)] = "none"
    """Whose model gets ``temperature``, ``max_tokens`` and the like of a request: ``none``,
    ``responder`` (the node that answers) or ``all``. Default: ``responder`` in the dialect
    ``headrace``, ``none`` in ``reference``."""
    embeddings_endpoint: Text = ""
    """Endpoint that answers ``/v1/embeddings``, ``/api/embed`` and ``/api/embeddings``; its API
    type must be one for embeddings. Empty: these routes answer 404."""
    chore_workflow: Text = ""
    """Workflow for titles, tags and other chores of front ends: one in the user's folder, or a
    shared one. Without it the usual workflow gets them, without a conversation id."""
    show_progress: LooseBool = False
    """While a streamed answer is not there yet, tell the client the names of the nodes that run, as
    reasoning. A workflow may say otherwise for itself (``showProgress``)."""
    show_thinking: LooseBool = False
    """Give the client what models think, apart from the answer and as its interface has it; a
    workflow may say otherwise for itself (``showThinking``). Default: true in the dialect
    ``headrace``."""
    allowed_image_hosts: Texts | None = None
    """Hosts whose images clients may name by their web address, as ``pics.example.com``,
    ``*.example.com`` or ``*``; all other addresses are refused. Absent: none in the dialect
    ``headrace``; in ``reference`` back ends get addresses that they can fetch themselves."""
    max_image_megabytes: float = Field(20.0, gt=0)
    """Larger images are refused."""
    heartbeat_seconds: float = Field(1.0, gt=0)
    """After how much silence a stream gets a sign of life."""
    max_workflow_depth: Whole = Field(16, ge=1)
    """How deep sub-workflows may be nested."""
    max_steps: Whole = Field(200, ge=1)
    """How many nodes one run of a workflow may go through."""
    route_overrides_lookup: Literal["capitalized", "caseInsensitive"] = "capitalized"
    """How keys of ``routeOverrides`` are found: ``capitalized`` (``python`` finds ``Python`` alone)
    or ``caseInsensitive``."""
    completions_stream_by_default: LooseBool = False
    """Whether ``/v1/completions`` streams when it is not told to."""
    conversation_id_from_front_end: LooseBool = False
    """Whether ids that front ends send in headers of their own name the conversation. Default: true
    in the dialect ``headrace``."""
    run_log: RunLog = RunLog()
    """How much of past runs is kept."""
    durable: Durable = Durable()
    """Limits and retention of durable conversations."""

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
        if not said & {"showThinking", "show_thinking"}:
            filled["showThinking"] = ours
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
