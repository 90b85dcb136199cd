"""What a client posts to ``/v1/chat/completions`` -> our request (decisions.md §6)."""

from collections.abc import Mapping
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import ChatRequest
from Middleware.wire.openai_messages import parse_messages
from Middleware.wire.openai_parameters import is_parameter, parse_parameters

_OWN_FIELDS: Final = frozenset(
    ("model", "messages", "stream", "stream_options", "tools", "tool_choice", "metadata")
)
_CHOICE_WORDS: Final = frozenset(("none", "auto", "required"))


def parse_request(body: Mapping[str, Any]) -> ChatRequest:
    """Raises MalformedRequest naming the first field that is wrong.

    Fields that no part of this server knows are never an error; their names are kept.
    """
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise MalformedRequest("model", "must be a text")
    tools = parse_tools(body.get("tools"))
    return ChatRequest(
        model=model or "",
        messages=parse_messages(body.get("messages")),
        stream=_boolean(body.get("stream"), "stream"),
        include_usage=_include_usage(body.get("stream_options")),
        tools=tools,
        tool_choice=parse_tool_choice(body.get("tool_choice"), tools),
        parameters=parse_parameters(body),
        metadata=_object(body.get("metadata"), "metadata"),
        unknown_fields=tuple(
            [name for name in body if name not in _OWN_FIELDS and not is_parameter(name)]
        ),
    )


def parse_tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Tool definitions as they came: schemas are passed on unchanged (clients A12)."""
    if not value:
        if value in (None, []):
            return ()
        raise MalformedRequest("tools", "must be a list of tools")
    if not isinstance(value, list):
        raise MalformedRequest("tools", "must be a list of tools")
    for index, tool in enumerate(value):
        if not isinstance(tool, dict):
            raise MalformedRequest(f"tools.{index}", "must be an object")
        if tool.get("type", "function") == "function" and not _name_of(tool):
            raise MalformedRequest(f"tools.{index}.function.name", "must be a text")
    return tuple(value)


def parse_tool_choice(
    value: Any, tools: tuple[Mapping[str, Any], ...]
) -> str | Mapping[str, Any] | None:
    """Raises MalformedRequest for a choice that the tools sent along cannot fulfil."""
    if value is None:
        return None
    if isinstance(value, str):
        if value not in _CHOICE_WORDS:
            raise MalformedRequest(
                "tool_choice", "must be `none`, `auto`, `required` or name a function"
            )
        if value == "required" and not tools:
            raise MalformedRequest("tool_choice", "is `required`, but no tools were sent")
        return value
    if not isinstance(value, dict):
        raise MalformedRequest("tool_choice", "must be a text or an object")
    if value.get("type", "function") == "function":
        name = _name_of(value)
        if not name:
            raise MalformedRequest("tool_choice.function.name", "must be a text")
        if name not in {_name_of(tool) for tool in tools}:
            raise MalformedRequest("tool_choice", f"names the tool {name!r}, which was not sent")
    return value


def _name_of(holder: Mapping[str, Any]) -> str:
    """The name in ``{"function": {"name": ...}}``; empty when there is none."""
    function = holder.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


def _include_usage(options: Any) -> bool:
    return _boolean(
        _object(options, "stream_options").get("include_usage"), "stream_options.include_usage"
    )


def _boolean(value: Any, name: str) -> bool:
    """Null counts as false. Nothing else stands in for a boolean: ``"false"`` is no false."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise MalformedRequest(name, "must be true or false")


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise MalformedRequest(name, "must be an object")
