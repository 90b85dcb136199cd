"""The options that every node may carry (nodes §0), and the types that options are made of."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, PrivateAttr

from Middleware.config.models import LooseBool, Settings, Text
from Middleware.workflows.handlers.base.named_files import EndpointName, Names, PresetName


def _number_or_template(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        text = value.strip()
        try:
            return int(float(text)) if text else None
        except (ValueError, OverflowError):
            return text
    return value


IntOrTemplate = Annotated[
    int | str | None,
    BeforeValidator(_number_or_template, json_schema_input_type=int | float | str | None),
]
"""A whole number, also as text, or text with variables that the processor resolves before the
node runs (variables §6). What is neither stays text, is warned about, and gets the default."""


LONGEST_SECONDS = 86_400.0 * 365
"""A year: clocks of the system do not count to what a float can hold."""


class Retry(Settings):
    """Tries after the first one."""

    times: int = Field(0, ge=0, le=100)
    """How many more times."""
    delay_seconds: float = Field(0.0, ge=0, le=LONGEST_SECONDS)
    """How long to wait before each."""


def _retry_of(value: Any) -> Any:
    return {"times": value} if isinstance(value, int) and not isinstance(value, bool) else value


class NodeOptions(Settings):
    """Options of every node. Also readable as a mapping, by the keys of the file."""

    type: Text = "Standard"
    """What the node does. Missing or unknown: ``Standard``, with a warning."""
    title: Text = ""
    """What logs and error messages call the node."""
    agent_name: Text = ""
    """The same, where there is no ``title``."""
    id: Text = ""
    """A name for other nodes to point at. Without it: ``node_1`` and so on, by position."""
    is_responder: LooseBool | None = Field(None, alias="is_responder")
    """Whether this node answers the client. Only one does: the first that says so, else the last
    one."""
    return_to_user: LooseBool = False
    """The older name of ``is_responder``, which wins where both are given."""
    jinja2: LooseBool = False
    """The node's texts are Jinja2 templates in place of texts with ``{name}``."""
    endpoint_name: EndpointName = ""
    """File of the endpoints folder: the model to call. May hold variables, as ``{Model}``."""
    preset: PresetName = ""
    """An endpoint whose ``presetSamplers`` to use, or a file of ``Presets/<presetType>/``. Without
    it: the ``presetSamplers`` of the node's own endpoint."""
    max_response_size_in_tokens: IntOrTemplate = 400
    """The longest answer."""
    max_context_token_size: IntOrTemplate = None
    """A window smaller than the endpoint's, where the prompt is clamped."""
    n_messages_to_include_in_variable: IntOrTemplate = 5
    """How many messages ``{chat_user_prompt_n_messages}`` has."""
    estimated_tokens_to_include_in_variable: IntOrTemplate = 2048
    """How long ``{chat_user_prompt_estimated_token_limit}`` may be."""
    min_messages_in_variable: IntOrTemplate = 5
    """How many messages ``{chat_user_prompt_min_n_max_tokens}`` has at least."""
    max_estimated_tokens_in_variable: IntOrTemplate = 2048
    """How long ``{chat_user_prompt_min_n_max_tokens}`` may become beyond that."""
    add_user_assistant_tags: LooseBool = False
    """Put ``User: `` and ``Assistant: `` in front of messages in variables."""
    include_tool_calls_in_conversation: LooseBool = False
    """Show tool calls and results as text in variables."""
    clamp_prompt_to_context_window: LooseBool | None = None
    """As in the endpoint; absent: as the endpoint says, else the user."""
    add_discussion_id_timestamps_for_llm: LooseBool = Field(
        False, alias="addDiscussionIdTimestampsForLLM"
    )
    """Put the time in front of messages that the model sees. Needs a conversation id."""
    use_relative_timestamps: LooseBool = False
    """That time as a distance from now: ``[Sent 2 days ago]``."""
    use_group_chat_timestamp_logic: LooseBool = False
    """A conversation that ends with a cue like ``Roland:`` asks for this speaker: an answer that
    names nobody gets the cue in front. Its time is kept at once."""
    remove_custom_text_from_response_start: LooseBool = False
    """Cut certain texts from the start of the answer."""
    response_start_text_to_remove: str | tuple[str, ...] | None = None
    """These texts: one, or a list of which the first that fits is cut."""
    lowercase_tool_call_function_names: LooseBool = False
    """Write names of called tools in lower case."""
    inject_liveness_tool_call: LooseBool = False
    """End a streamed answer that calls no tool with the user's ``livenessToolCall``."""
    retry: Annotated[
        Retry | None, BeforeValidator(_retry_of, json_schema_input_type=Retry | int | None)
    ] = None
    """How often to try again when the node fails, and after how long."""
    on_error: Text = "fail"
    """``fail``, ``continue``, ``value`` or ``route``; some node types know words of their own."""
    on_error_value: Any = None
    """What the node gives out when it fails, with ``onError: value``."""
    on_error_route: Text = "error"
    """Where to go on when the node fails, with ``onError: route``."""
    fallback_endpoints: Annotated[tuple[str, ...], Names("endpoint")] = ()
    """Endpoints to try, in order, when the node's own fails."""
    timeout_seconds: float | None = Field(None, gt=0, le=LONGEST_SECONDS)
    """The longest that the node may take, all told; without it there is no limit."""

    _raw: Mapping[str, Any] = PrivateAttr(default_factory=dict)

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> "NodeOptions":
        """Validate a node of a file. Raises pydantic's ValidationError."""
        options = cls.model_validate(raw)
        options._raw = raw
        return options

    def with_values(self, values: Mapping[str, Any]) -> "NodeOptions":
        """A copy with resolved values, by their keys in the file."""
        return self.read({**self._raw, **values})

    @property
    def raw(self) -> Mapping[str, Any]:
        """The node as the file has it."""
        return self._raw

    def get(self, key: str, default: Any = None) -> Any:
        return self._raw.get(key, default)

    def __getitem__(self, key: str) -> Any:
        return self._raw[key]

    def __contains__(self, key: object) -> bool:
        return key in self._raw


@cache
def known_keys(options: type[NodeOptions]) -> tuple[str, ...]:
    """Every key that a file may give nodes with these options, in the order of the class."""
    keys: list[str] = list(_KEYS_FOR_PEOPLE)
    for field in options.model_fields.values():
        alias = field.validation_alias
        if isinstance(alias, AliasChoices):
            keys.extend(str(choice) for choice in alias.choices)
        elif alias is not None:
            keys.append(str(alias))
    return tuple(keys)


# Read by people only; shipped files of the reference carry them (nodes, conventions).
_KEYS_FOR_PEOPLE = ("displayOnlyComment", "isResponder", "description", "$schema")
