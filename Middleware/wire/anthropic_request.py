"""What a client posts to ``/v1/messages`` -> our request (clients §1, §2.5)."""

from collections.abc import Mapping
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import ChatRequest, Message, ToolCall
from Middleware.core.tokens import estimate_all, estimate_tokens
from Middleware.wire.bodies import write_json
from Middleware.wire.content_parts import Content
from Middleware.wire.fields import (
    flag_in,
    list_in,
    needed_text_in,
    object_in,
    parameters_in,
    schema_format,
    text_in,
)
from Middleware.wire.openai_chat_request import parse_tool_choice

_OWN_FIELDS: Final = frozenset(
    (
        *("model", "messages", "system", "max_tokens", "stop_sequences", "stream"),
        *("temperature", "top_p", "top_k", "metadata", "thinking", "output_config"),
        *("tools", "tool_choice"),
    )
)
_PARAMETER_NAMES: Final = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop_sequences": "stop",
}
_THEIR_NAMES: Final = {
    "stop": "stop_sequences",
    "effort": "output_config.effort",
    "response_format": "output_config.format",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}
_ROLES: Final = ("user", "assistant", "system")
_CHOICE_WORDS: Final = {"auto": "auto", "any": "required", "none": "none"}


def parse_request(body: Mapping[str, Any]) -> ChatRequest:
    """Raises MalformedRequest naming the first field that is wrong.

    Tools that Anthropic runs itself are skipped, and named among the unknown fields. ``thinking``
    and ``effort`` stay parameters under those names: clients send them unasked, so only a backend
    that knows them as they are may use them.
    """
    tools, skipped = _tools(list_in(body, "tools"))
    return ChatRequest(
        model=text_in(body, "model") or "",
        messages=(*_system(body.get("system")), *_messages(body.get("messages"))),
        stream=flag_in(body, "stream"),
        tools=tools,
        tool_choice=_tool_choice(object_in(body, "tool_choice"), tools),
        parameters=_parameters(body),
        field_names=_THEIR_NAMES,
        metadata=object_in(body, "metadata"),
        unknown_fields=(*(name for name in body if name not in _OWN_FIELDS), *skipped),
    )


def count_tokens(asked: ChatRequest) -> int:
    """An estimate of what a request's messages and tools come to, for ``count_tokens``."""
    tools = sum(estimate_tokens(write_json(tool).decode()) for tool in asked.tools)
    calls = (call.arguments for message in asked.messages for call in message.tool_calls)
    return tools + estimate_all(message.content for message in asked.messages) + estimate_all(calls)


def _system(value: Any) -> tuple[Message, ...]:
    content = Content()
    content.add_all(value, "system")
    return (Message("system", content.text),) if content.text else ()


def _messages(value: Any) -> list[Message]:
    if not isinstance(value, list):
        raise MalformedRequest("messages", "must be a list of messages")
    if not value:
        raise MalformedRequest("messages", "must not be empty")
    messages: list[Message] = []
    for index, raw in enumerate(value):
        messages += _message(raw, f"messages.{index}")
    return messages


def _message(raw: Any, place: str) -> list[Message]:
    """The messages that one of theirs holds: results of tools are messages of their own."""
    if not isinstance(raw, dict):
        raise MalformedRequest(place, "must be an object with `role` and `content`")
    role = raw.get("role")
    if role not in _ROLES:
        problem = "is missing" if role is None else f"must be one of {', '.join(_ROLES)}"
        raise MalformedRequest(f"{place}.role", problem)
    if "content" not in raw:
        raise MalformedRequest(f"{place}.content", "is missing")
    value = raw["content"]
    if isinstance(value, str):
        return [Message(role, value)]
    if not isinstance(value, list):
        if value is not None:
            raise MalformedRequest(f"{place}.content", "must be a text or a list of blocks")
        return [Message(role)]
    if role == "assistant":
        return [_turn(value, f"{place}.content")]
    return _input(role, value, f"{place}.content")


def _turn(blocks: list[Any], place: str) -> Message:
    """What the assistant said and which tools it called; what it thought is not replayed."""
    said, calls = Content(), []
    for index, block in enumerate(blocks):
        if isinstance(block, dict) and block.get("type") == "tool_use":
            calls.append(_tool_call(block, f"{place}.{index}."))
        else:
            said.add(block, f"{place}.{index}")
    return Message("assistant", said.text, tuple(said.images), tuple(calls))


def _tool_call(block: Mapping[str, Any], place: str) -> ToolCall:
    return ToolCall(
        id=needed_text_in(block, "id", place),
        name=needed_text_in(block, "name", place),
        arguments=write_json(object_in(block, "input", place)).decode(),
    )


def _input(role: str, blocks: list[Any], place: str) -> list[Message]:
    """Results of tools, then what else the message holds.

    Images in a result go to the user message behind it: nowhere else can a model see them.
    """
    results: list[Message] = []
    rest, shown = Content(), Content()
    for index, block in enumerate(blocks):
        where = f"{place}.{index}"
        if isinstance(block, dict) and block.get("type") == "tool_result":
            result = Content()
            result.add_all(block.get("content"), f"{where}.content")
            identity = needed_text_in(block, "tool_use_id", f"{where}.")
            results.append(Message("tool", result.text, tool_call_id=identity))
            shown.images += result.images
        else:
            rest.add(block, where)
    images = (*shown.images, *rest.images)
    if results and rest.empty and not images:
        return results
    return [*results, Message(role, rest.text, images)]


def _tools(value: list[Any]) -> tuple[tuple[Mapping[str, Any], ...], list[str]]:
    """In OpenAI's function format, schemas unchanged; and what was skipped."""
    tools: list[Mapping[str, Any]] = []
    skipped: list[str] = []
    for index, tool in enumerate(value):
        if not isinstance(tool, dict):
            raise MalformedRequest(f"tools.{index}", "must be an object")
        kind = tool.get("type")
        if kind not in (None, "custom"):
            skipped.append(f"tools.{kind}")
            continue
        function: dict[str, Any] = {"name": needed_text_in(tool, "name", f"tools.{index}.")}
        if tool.get("description"):
            function["description"] = tool["description"]
        function["parameters"] = tool.get("input_schema") or {"type": "object"}
        if tool.get("strict") is not None:
            function["strict"] = tool["strict"]
        tools.append({"type": "function", "function": function})
    return tuple(tools), skipped


def _tool_choice(
    choice: Mapping[str, Any], tools: tuple[Mapping[str, Any], ...]
) -> str | Mapping[str, Any] | None:
    if not choice:
        return None
    kind = choice.get("type")
    if kind == "tool":
        function = {"name": needed_text_in(choice, "name", "tool_choice.")}
        return parse_tool_choice({"type": "function", "function": function}, tools)
    word = _CHOICE_WORDS.get(kind) if isinstance(kind, str) else None
    if word is None:
        raise MalformedRequest("tool_choice.type", "must be `auto`, `any`, `tool` or `none`")
    return parse_tool_choice(word, tools)


def _parameters(body: Mapping[str, Any]) -> dict[str, Any]:
    parameters = parameters_in(body, _PARAMETER_NAMES)
    thinking = object_in(body, "thinking")
    if thinking and thinking.get("type") != "disabled":
        parameters["thinking"] = thinking
    output = object_in(body, "output_config")
    if text_in(output, "effort", "output_config."):
        parameters["effort"] = output["effort"]
    wanted = object_in(output, "format", "output_config.")
    if wanted:
        schema = wanted.get("schema")
        if wanted.get("type") != "json_schema" or not isinstance(schema, dict):
            raise MalformedRequest("output_config.format", "must hold a JSON Schema in `schema`")
        parameters["response_format"] = schema_format(schema)
    choice = object_in(body, "tool_choice")
    if flag_in(choice, "disable_parallel_tool_use", "tool_choice."):
        parameters["parallel_tool_calls"] = False
    return parameters
