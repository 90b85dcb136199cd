"""Our messages -> what an Ollama server is sent (config-files §13.3, §13.4, §13.6)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from Middleware.core.messages import Message
from Middleware.wire.images import bare_base64
from Middleware.wire.model_call import INSTRUCTING, ModelCall, as_texts, renamed, schema_of
from Middleware.wire.ollama_answer import encode_call

CHAT_PATH: Final = "/api/chat"
GENERATE_PATH: Final = "/api/generate"

_OPTIONS: Final = {
    **{
        name: name
        for name in (
            *("temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "stop", "num_ctx"),
            *("presence_penalty", "frequency_penalty", "repeat_penalty", "repeat_last_n"),
            *("mirostat", "mirostat_tau", "mirostat_eta"),
        )
    },
    "max_tokens": "num_predict",
    "max_completion_tokens": "num_predict",
}
ACCEPTS: Final = frozenset((*_OPTIONS, "response_format", "reasoning_effort", "keep_alive"))
"""Fields of a client's request that an Ollama server understands, under OpenAI's names."""

# `medium` is what thinking means when no level is named; older servers know no levels.
_THINK: Final[Mapping[str, bool | str]] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": True,
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def encode_chat(call: ModelCall) -> dict[str, Any]:
    """The body for :data:`CHAT_PATH`; ``stream`` is sent only when it is off.

    Raises RequestError for an image that is only an address.
    """
    body: dict[str, Any] = {} if not call.model else {"model": call.model}
    body["messages"] = encode_messages(call.messages)
    body |= _settings(call)
    if not call.stream:
        body["stream"] = False
    # Ollama knows no choice: what must not be called is not offered.
    if call.tools and call.tool_choice != "none":
        body["tools"] = list(call.tools)
    return body


def encode_generate(call: ModelCall) -> dict[str, Any]:
    """The body for :data:`GENERATE_PATH`: the prompt is whole, so Ollama's template is off."""
    body: dict[str, Any] = {} if not call.model else {"model": call.model}
    body["prompt"] = call.prompt
    body["stream"] = call.stream
    body["raw"] = True
    if call.images:
        body["images"] = [bare_base64(image) for image in call.images]
    return body | _settings(call)


def encode_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Without an empty assistant message at the end. Results of tools are given their names."""
    if messages and messages[-1] == Message("assistant"):
        messages = messages[:-1]
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    return [_encode(message, names) for message in messages]


def _encode(message: Message, names: Mapping[str, str]) -> dict[str, Any]:
    role = message.role
    if role in INSTRUCTING:
        role = "system"
    encoded: dict[str, Any] = {"role": role, "content": message.content}
    if message.images and role == "user":
        encoded["images"] = [bare_base64(image) for image in message.images]
    if message.tool_calls:
        encoded["tool_calls"] = [encode_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        encoded["tool_call_id"] = message.tool_call_id
    if role in ("tool", "function"):
        encoded["role"] = "tool"
        name = message.name or names.get(message.tool_call_id or "")
        if name:
            encoded["tool_name"] = name
    return encoded


def _settings(call: ModelCall) -> dict[str, Any]:
    """Everything beside the conversation: options, and what stands above them."""
    options = dict(call.parameters)
    asked = call.client_parameters
    top: dict[str, Any] = {}
    if "think" in options:
        top["think"] = options.pop("think")
    options |= renamed(asked, _OPTIONS)
    if "stop" in asked:
        options["stop"] = as_texts(asked["stop"])
    if asked.get("reasoning_effort") in _THINK:
        top["think"] = _THINK[asked["reasoning_effort"]]
    if "keep_alive" in asked:
        top["keep_alive"] = asked["keep_alive"]
    wanted = schema_of(asked.get("response_format"))
    if wanted is not None:
        top["format"] = wanted
    elif asked.get("response_format", {}).get("type") == "json_object":
        top["format"] = "json"
    return {"options": options, **top} if options else top
