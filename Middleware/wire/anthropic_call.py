"""Our messages -> what Anthropic's messages API is sent (config-files §13.2, §13.6)."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from Middleware.core.messages import Message, ToolCall
from Middleware.wire.images import is_address, parse_inline
from Middleware.wire.model_call import (
    INSTRUCTING,
    ModelCall,
    as_texts,
    forced_function,
    renamed,
    schema_of,
)
from Middleware.wire.tool_arguments import arguments_object

logger = logging.getLogger(__name__)

PATH: Final = "/v1/messages"
VERSION: Final = "2023-06-01"
"""For the header ``anthropic-version``."""

FIELDS: Final = frozenset(
    (
        *("model", "messages", "max_tokens", "system", "temperature", "top_p", "top_k", "stream"),
        *("stop_sequences", "metadata", "thinking", "tools", "tool_choice"),
    )
)
"""The only fields of presets that survive: the API refuses requests with others."""

_CLIENT_NAMES: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "thinking": "thinking",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
}
ACCEPTS: Final = frozenset(
    (*_CLIENT_NAMES, "stop", "user", "response_format", "effort", "parallel_tool_calls")
)
"""Fields of a client's request that can be sent on, under OpenAI's names."""

_MAX_TOKENS: Final = 4096
"""The API demands a limit; this one counts where neither preset nor node gave any."""
_BAD_IN_ID: Final = re.compile(r"[^A-Za-z0-9_-]")


def encode_request(call: ModelCall) -> dict[str, Any]:
    """The body for :data:`PATH`."""
    body: dict[str, Any] = {"model": call.model} if call.model else {}
    system, messages = encode_messages(call.messages)
    if not messages and system:
        # A conversation needs a message; instructions alone are valid elsewhere.
        system, messages = "", [{"role": "user", "content": system}]
    body["messages"] = messages
    if system:
        body["system"] = system
    body |= {name: v for name, v in call.parameters.items() if name in FIELDS}
    body |= _client_fields(call.client_parameters)
    body.setdefault("max_tokens", _MAX_TOKENS)
    body["stream"] = call.stream
    if call.tools and call.tool_choice != "none":
        body["tools"] = [_tool(tool) for tool in call.tools]
        choice = _tool_choice(call)
        if choice:
            body["tool_choice"] = choice
    return body


def unusable(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of preset fields that :func:`encode_request` leaves out, for a warning."""
    return tuple(name for name in parameters if name not in FIELDS)


def encode_messages(messages: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    """The system text, gathered from the whole conversation, and the messages without it.

    A last assistant message is a beginning that the model continues; white space at its end is
    refused, so it goes, and the message with it when nothing is left.
    """
    system = "\n\n".join(m.content for m in messages if m.role in INSTRUCTING and m.content)
    rest = [message for message in messages if message.role not in INSTRUCTING]
    encoded: list[dict[str, Any]] = []
    for index, message in enumerate(rest):
        _add(encoded, message, index)
    if rest and rest[-1].role == "assistant" and not rest[-1].tool_calls:
        prefill = rest[-1].content.rstrip()
        if prefill:
            encoded[-1]["content"] = prefill
        else:
            encoded.pop()
    return system, encoded


def encode_image(image: str) -> dict[str, Any] | None:
    """The block of an image; None, after a warning, when it cannot be sent."""
    if is_address(image):
        return {"type": "image", "source": {"type": "url", "url": image}}
    inline = parse_inline(image)
    if inline is None:
        logger.warning("An image was left out: it is neither a data URI, an address nor base64.")
        return None
    return {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": inline.media_type or "image/jpeg",
            "data": inline.data,
        },
    }


def _add(encoded: list[dict[str, Any]], message: Message, index: int) -> None:
    """Append a message. Results of tools in a row, and what the user says after them, are one."""
    results = encoded[-1]["content"] if encoded and _is_results(encoded[-1]) else None
    if message.role == "assistant":
        encoded.append({"role": "assistant", "content": _said(message, index)})
        return
    content = _result(message) if message.role in ("tool", "function") else _asked(message)
    if results is None:
        encoded.append({"role": "user", "content": content})
    elif isinstance(content, str):
        results += [{"type": "text", "text": content}] if content else []
    else:
        results += content


def _is_results(message: Mapping[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, list) and all(block["type"] == "tool_result" for block in content)


def _result(message: Message) -> list[dict[str, Any]]:
    identity = _safe_id(message.tool_call_id or "unknown")
    return [{"type": "tool_result", "tool_use_id": identity, "content": message.content}]


def _said(message: Message, index: int) -> Any:
    if not message.tool_calls:
        return message.content
    blocks: list[dict[str, Any]] = []
    if message.content.strip():
        blocks.append({"type": "text", "text": message.content})
    for place, call in enumerate(message.tool_calls):
        blocks.append(_tool_use(call, f"call_{index}_{place}"))
    return blocks


def _tool_use(call: ToolCall, otherwise: str) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": _safe_id(call.id or otherwise),
        "name": call.name,
        "input": arguments_object(call.arguments),
    }


def _asked(message: Message) -> Any:
    """Images stand before the text."""
    if not message.images:
        return message.content
    blocks = [block for image in message.images if (block := encode_image(image)) is not None]
    if message.content:
        blocks.append({"type": "text", "text": message.content})
    return blocks or message.content


def _safe_id(identity: str) -> str:
    """Ids of other vendors may hold characters that this API refuses."""
    return _BAD_IN_ID.sub("_", identity)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function") or {}
    encoded = {
        "name": function.get("name", ""),
        "description": function.get("description") or "",
        "input_schema": function.get("parameters") or {"type": "object"},
    }
    if function.get("strict"):
        encoded["strict"] = True
    return encoded


def _tool_choice(call: ModelCall) -> dict[str, Any]:
    choice: dict[str, Any] = {}
    name = forced_function(call.tool_choice)
    if name is not None:
        choice = {"type": "tool", "name": name}
    elif call.tool_choice == "required":
        choice = {"type": "any"}
    elif call.tool_choice == "auto":
        choice = {"type": "auto"}
    if call.client_parameters.get("parallel_tool_calls") is False:
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    return choice


def _client_fields(asked: Mapping[str, Any]) -> dict[str, Any]:
    fields = renamed(asked, _CLIENT_NAMES)
    if "temperature" in fields:
        # OpenAI's scale goes up to 2.
        fields["temperature"] = min(fields["temperature"], 1)
    stops = [text for text in as_texts(asked.get("stop", ())) if text.strip()]
    if stops:
        fields["stop_sequences"] = stops
    if asked.get("user"):
        fields["metadata"] = {"user_id": asked["user"]}
    output: dict[str, Any] = {}
    if asked.get("effort"):
        output["effort"] = asked["effort"]
    schema = schema_of(asked.get("response_format"))
    if schema is not None:
        output["format"] = {"type": "json_schema", "schema": schema}
    if output:
        fields["output_config"] = output
    return fields
