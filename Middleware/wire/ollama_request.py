"""What clients post to ``/api/chat`` and ``/api/generate`` -> our request (front-doors §2)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import ChatRequest, Message, ToolCall
from Middleware.wire.fields import (
    list_in,
    needed_text_in,
    object_in,
    parameters_in,
    schema_format,
    text_in,
)
from Middleware.wire.openai_chat_request import parse_tools
from Middleware.wire.openai_messages import parse_messages
from Middleware.wire.openai_parameters import OPENAI_FIELDS, SAMPLER_FIELDS
from Middleware.wire.tagged_prompt import parse_tagged, with_images

_CHAT_FIELDS: Final = frozenset(
    ("model", "messages", "stream", "tools", "options", "format", "think", "keep_alive")
)
_GENERATE_FIELDS: Final = frozenset(
    (
        "model",
        "prompt",
        "system",
        "images",
        "stream",
        "options",
        "format",
        "think",
        "keep_alive",
    )
)
_OPTION_NAMES: Final = {
    **{name: name for name in (*OPENAI_FIELDS, *SAMPLER_FIELDS)},
    "num_predict": "max_tokens",
}
_THEIR_NAMES: Final = {
    **{name: f"options.{key}" for key, name in _OPTION_NAMES.items()},
    "num_ctx": "options.num_ctx",
    "response_format": "format",
    "reasoning_effort": "think",
}
_EFFORTS: Final = frozenset(("low", "medium", "high", "max"))


def parse_chat(body: Mapping[str, Any]) -> ChatRequest:
    """Raises MalformedRequest naming the first field that is wrong."""
    parameters, unknown_options = _parameters(body)
    return ChatRequest(
        model=needed_text_in(body, "model"),
        messages=_messages(body.get("messages")),
        stream=_stream(body.get("stream")),
        tools=parse_tools(body.get("tools")),
        parameters=parameters,
        field_names=_THEIR_NAMES,
        unknown_fields=_unknown(body, _CHAT_FIELDS) + unknown_options,
    )


def parse_generate(body: Mapping[str, Any]) -> ChatRequest:
    """Raises MalformedRequest naming the first field that is wrong.

    ``system`` and ``prompt`` are one text, which may hold tags (front-doors §2.3).
    """
    parameters, unknown_options = _parameters(body)
    text = (text_in(body, "system") or "") + (text_in(body, "prompt") or "")
    return ChatRequest(
        model=needed_text_in(body, "model"),
        messages=with_images(parse_tagged(text), _images(body)),
        stream=_stream(body.get("stream")),
        parameters=parameters,
        field_names=_THEIR_NAMES,
        unknown_fields=_unknown(body, _GENERATE_FIELDS) + unknown_options,
    )


def only_loads(body: Mapping[str, Any]) -> bool:
    """Whether a client wants a model loaded or unloaded, and no answer.

    Ollama takes a request to ``/api/generate`` that asks nothing for that.
    """
    return not (body.get("prompt") or body.get("system") or body.get("images"))


def _messages(value: Any) -> tuple[Message, ...]:
    if isinstance(value, list):
        value = [_with_name(raw) for raw in value]
    return _linked(parse_messages(value))


def _with_name(raw: Any) -> Any:
    """Ollama says ``tool_name`` where OpenAI says ``name``."""
    if isinstance(raw, dict) and raw.get("tool_name") and not raw.get("name"):
        return {**raw, "name": raw["tool_name"]}
    return raw


def _linked(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Ollama's tool results say which tool they are of, not which call: give them the call's id."""
    if not any(message.role == "tool" for message in messages):
        return messages
    waiting: list[ToolCall] = []
    linked: list[Message] = []
    for message in messages:
        if message.tool_calls:
            waiting = list(message.tool_calls)
        elif message.role == "tool":
            call = _answered(message, waiting)
            if call is not None:
                waiting.remove(call)
                message = replace(message, tool_call_id=call.id)
        linked.append(message)
    return tuple(linked)


def _answered(result: Message, waiting: Sequence[ToolCall]) -> ToolCall | None:
    """The call that a result belongs to: by id, else by name, else simply the next."""
    if result.tool_call_id is not None:
        return next((call for call in waiting if call.id == result.tool_call_id), None)
    named = (call for call in waiting if call.name == result.name)
    return next(named, waiting[0] if waiting else None)


def _images(body: Mapping[str, Any]) -> tuple[str, ...]:
    images = list_in(body, "images")
    for index, image in enumerate(images):
        if not isinstance(image, str):
            raise MalformedRequest(f"images.{index}", "must be a text in base64")
    return tuple(image for image in images if image)


def _stream(value: Any) -> bool:
    """Streaming is what happens when nothing is said. Of texts only ``true`` means it."""
    if value is None:
        return True
    if isinstance(value, str):
        return value.strip().lower() == "true"
    if isinstance(value, bool | int | float):
        return bool(value)
    raise MalformedRequest("stream", "must be true or false")


def _parameters(body: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The sampling fields, and the names of the options that are none of ours."""
    options = object_in(body, "options")
    parameters = parameters_in(options, _OPTION_NAMES, "options.")
    if parameters.get("max_tokens", 1) < 0:
        # -2 fills the context, -1 never ends: no limit was asked for.
        del parameters["max_tokens"]
    # Not a sampling field: only a server that loads models by demand knows what to do with it.
    if options.get("num_ctx") is not None:
        parameters["num_ctx"] = _whole(options["num_ctx"], "options.num_ctx")
    if body.get("format"):
        parameters["response_format"] = _response_format(body["format"])
    if body.get("think") is not None:
        parameters["reasoning_effort"] = _effort(body["think"])
    if body.get("keep_alive") is not None:
        parameters["keep_alive"] = _duration(body["keep_alive"])
    unknown = tuple(
        f"options.{name}" for name in options if name not in _OPTION_NAMES and name != "num_ctx"
    )
    return parameters, unknown


def _whole(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise MalformedRequest(place, "must be a whole number")
    return int(value)


def _response_format(value: Any) -> dict[str, Any]:
    if value == "json":
        return {"type": "json_object"}
    if isinstance(value, dict):
        return schema_format(value)
    raise MalformedRequest("format", "must be `json` or a JSON Schema")


def _effort(value: Any) -> str:
    if isinstance(value, bool):
        return "medium" if value else "none"
    if isinstance(value, str) and value in _EFFORTS:
        return value
    raise MalformedRequest("think", "must be true, false, `low`, `medium` or `high`")


def _duration(value: Any) -> Any:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    raise MalformedRequest("keep_alive", "must be a duration such as `5m`, or seconds")


def _unknown(body: Mapping[str, Any], known: frozenset[str]) -> tuple[str, ...]:
    return tuple([name for name in body if name not in known])
