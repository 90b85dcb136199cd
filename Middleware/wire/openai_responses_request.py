"""What a client posts to ``/v1/responses`` -> our request (clients §4, durable §20)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import ChatRequest, Message
from Middleware.wire.fields import flag_in, list_in, object_in, parameters_in, text_in
from Middleware.wire.openai_responses_items import Approval, Conversation, messages_of
from Middleware.wire.openai_responses_tools import ToolNames, parse_choice, parse_tools

_OWN_FIELDS: Final = frozenset(
    (
        *("model", "input", "instructions", "stream", "stream_options", "tools", "tool_choice"),
        *("metadata", "text", "reasoning", "max_output_tokens", "temperature", "top_p", "user"),
        *("parallel_tool_calls", "previous_response_id", "conversation", "store", "background"),
    )
)
_PARAMETER_NAMES: Final = {
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "user": "user",
    "parallel_tool_calls": "parallel_tool_calls",
}
_THEIR_NAMES: Final = {
    "max_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
}
_REPEATED: Final = (
    *("instructions", "max_output_tokens", "temperature", "top_p", "tools", "tool_choice"),
    *("parallel_tool_calls", "reasoning", "text", "truncation", "user", "metadata"),
    *("previous_response_id", "store", "background", "safety_identifier"),
)
"""Fields that the response object tells again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesRequest:
    """A request of the Responses interface: a chat, and what is kept of it."""

    chat: ChatRequest
    """Its messages are the instructions and this request's input, without any history."""
    items: tuple[Mapping[str, Any], ...] = ()
    """The input as it came; a text is one message item."""
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | None = None
    """The id of a kept conversation; never beside ``previous_response_id``."""
    store: bool = True
    background: bool = False
    approvals: tuple[Approval, ...] = ()
    names: ToolNames = field(default_factory=ToolNames)
    repeated: Mapping[str, Any] = field(default_factory=dict)
    """What the response object tells again, as it came."""


def parse_request(body: Mapping[str, Any]) -> ResponsesRequest:
    """Raises MalformedRequest naming the first field that is wrong.

    Tools and items of kinds that only OpenAI's own servers know are skipped, and named among the
    unknown fields.
    """
    tools = parse_tools(list_in(body, "tools"))
    items = _items(body.get("input"))
    said = Conversation(tools.names)
    for index, item in enumerate(items):
        said.add(item, f"input.{index}")
    messages = said.close()
    instructions = text_in(body, "instructions")
    previous, conversation = _continues(body)
    if not messages and not said.approvals and not previous and not conversation:
        raise MalformedRequest("input", "holds no message")
    unknown = [name for name in body if name not in _OWN_FIELDS]
    return ResponsesRequest(
        chat=ChatRequest(
            model=text_in(body, "model") or "",
            messages=(*_leading(instructions), *messages),
            stream=flag_in(body, "stream"),
            tools=tools.tools,
            tool_choice=parse_choice(body.get("tool_choice"), tools),
            parameters=_parameters(body),
            field_names=_THEIR_NAMES,
            metadata=object_in(body, "metadata"),
            unknown_fields=(*unknown, *dict.fromkeys((*tools.skipped, *said.skipped))),
        ),
        items=items,
        instructions=instructions,
        previous_response_id=previous,
        conversation=conversation,
        **_keeping(body),
        approvals=tuple(said.approvals),
        names=tools.names,
        repeated={name: body[name] for name in _REPEATED if body.get(name) is not None},
    )


def with_history(asked: ResponsesRequest, earlier: Iterable[Mapping[str, Any]]) -> ChatRequest:
    """The chat behind a kept conversation: ``earlier`` are its items, input and output, oldest
    first. Instructions of earlier requests do not count any more.
    """
    messages = messages_of((*earlier, *asked.items), asked.names)
    return replace(asked.chat, messages=(*_leading(asked.instructions), *messages))


def _leading(instructions: str | None) -> tuple[Message, ...]:
    return (Message("system", instructions),) if instructions else ()


def _items(value: Any) -> tuple[Mapping[str, Any], ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return ({"type": "message", "role": "user", "content": value},)
    if isinstance(value, list):
        return tuple(value)
    raise MalformedRequest("input", "must be a text or a list of items")


def _continues(body: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """What the request goes on from: a response, or a conversation."""
    previous = text_in(body, "previous_response_id") or None
    value = body.get("conversation")
    if isinstance(value, dict):
        conversation = text_in(value, "id", "conversation.") or None
    else:
        conversation = text_in(body, "conversation") or None
    if previous and conversation:
        raise MalformedRequest("previous_response_id", "cannot stand beside `conversation`")
    return previous, conversation


def _keeping(body: Mapping[str, Any]) -> dict[str, bool]:
    keeping = {
        "store": flag_in(body, "store", default=True),
        "background": flag_in(body, "background"),
    }
    if keeping["background"] and not keeping["store"]:
        raise MalformedRequest("background", "needs `store`: the answer is fetched later")
    return keeping


def _parameters(body: Mapping[str, Any]) -> dict[str, Any]:
    parameters = parameters_in(body, _PARAMETER_NAMES)
    if parameters.get("parallel_tool_calls") is True:
        # That is the rule anyway, and some servers refuse the field beside no tools.
        del parameters["parallel_tool_calls"]
    effort = text_in(object_in(body, "reasoning"), "effort", "reasoning.")
    if effort:
        parameters["reasoning_effort"] = effort
    text = object_in(body, "text")
    if text_in(text, "verbosity", "text."):
        parameters["verbosity"] = text["verbosity"]
    wanted = object_in(text, "format", "text.")
    response_format = _response_format(wanted) if wanted else None
    if response_format is not None:
        parameters["response_format"] = response_format
    return parameters


def _response_format(wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """As chats have it; plain text is what one gets anyway."""
    kind = wanted.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    if kind != "json_schema" or not isinstance(wanted.get("schema"), dict):
        raise MalformedRequest("text.format", "must be `text`, `json_object` or hold a JSON Schema")
    named = {"name": text_in(wanted, "name", "text.format.") or "response"}
    kept = {key: wanted[key] for key in ("schema", "strict", "description") if key in wanted}
    return {"type": "json_schema", "json_schema": {**named, **kept}}
