"""Our messages -> what a model server with OpenAI's Responses interface is sent."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from Middleware.core.messages import Message
from Middleware.wire.model_call import ModelCall, forced_function, renamed
from Middleware.wire.openai_chat_call import image_url

PATH: Final = "/v1/responses"

_CLIENT_NAMES: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "user": "user",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
}
ACCEPTS: Final = frozenset(
    (
        *_CLIENT_NAMES,
        *("parallel_tool_calls", "reasoning_effort", "response_format", "verbosity"),
    )
)
"""Fields of a client's request that can be sent on, under the names that chats have."""


def encode_request(call: ModelCall) -> dict[str, Any]:
    """The body for :data:`PATH`. Parameters win over what is ours; nothing is to be kept there
    unless they say so.
    """
    body: dict[str, Any] = {"model": call.model} if call.model else {}
    body |= {"input": encode_messages(call.messages), "store": False, **call.parameters}
    body |= renamed(call.client_parameters, _CLIENT_NAMES)
    _nest(body, call.client_parameters)
    body["stream"] = call.stream
    if call.tools:
        body["tools"] = [_tool(tool) for tool in call.tools]
        if call.tool_choice is not None:
            body["tool_choice"] = _tool_choice(call.tool_choice)
        if "parallel_tool_calls" in call.client_parameters:
            body["parallel_tool_calls"] = call.client_parameters["parallel_tool_calls"]
    return body


def encode_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """As input items. An empty assistant message at the end is left out."""
    if messages and messages[-1] == Message("assistant"):
        messages = messages[:-1]
    items: list[dict[str, Any]] = []
    for message in messages:
        items += _items(message)
    return items


def _items(message: Message) -> list[dict[str, Any]]:
    if message.role in ("tool", "function"):
        identity = message.tool_call_id or message.name or "unknown"
        return [{"type": "function_call_output", "call_id": identity, "output": message.content}]
    role = "system" if message.role == "systemMes" else message.role
    said = {"type": "message", "role": role, "content": _content(message)}
    calls = [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments if call.arguments.strip() else "{}",
        }
        for call in message.tool_calls
    ]
    return calls if calls and not message.content else [said, *calls]


def _content(message: Message) -> Any:
    if not message.images or message.role != "user":
        return message.content
    parts: list[dict[str, Any]] = []
    if message.content:
        parts.append({"type": "input_text", "text": message.content})
    for image in message.images:
        url = image_url(image)
        if url is not None:
            parts.append({"type": "input_image", "image_url": url})
    return parts or message.content


def _nest(body: dict[str, Any], asked: Mapping[str, Any]) -> None:
    """Put the client's fields where this interface has objects for them."""
    if asked.get("reasoning_effort"):
        body["reasoning"] = {**(body.get("reasoning") or {}), "effort": asked["reasoning_effort"]}
    text: dict[str, Any] = {}
    if asked.get("verbosity"):
        text["verbosity"] = asked["verbosity"]
    wanted = asked.get("response_format")
    if isinstance(wanted, Mapping):
        schema = wanted.get("json_schema")
        text["format"] = {
            "type": wanted.get("type"),
            **(schema if isinstance(schema, Mapping) else {}),
        }
    if text:
        body["text"] = {**(body.get("text") or {}), **text}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return dict(tool)
    # Here leaving `strict` out means true, which few schemas stand; in chats it means false.
    return {"type": "function", "parameters": None, "strict": False, **function}


def _tool_choice(choice: Any) -> Any:
    name = forced_function(choice)
    return choice if name is None else {"type": "function", "name": name}
