"""Anthropic's messages."""

from collections.abc import Mapping
from typing import Final

from Middleware.api.openapi.openai import METADATA, MODEL
from Middleware.api.openapi.schemas import (
    EVENTS,
    FILLED,
    FLAG,
    NUMBER,
    OBJECT,
    RUNS_MODELS,
    TEXT,
    TEXTS,
    WHOLE,
    Operation,
    Schema,
    answer,
    array,
    enum,
    ignored,
    maybe,
    needed,
    obj,
    passed_on,
    ref,
    streamed,
    used,
    whole,
)

_CALL: Final = obj(
    {"type": enum("tool_use"), "id": FILLED, "name": FILLED, "input": maybe(OBJECT)},
    ["type", "id", "name"],
)
_RESULT: Final = obj(
    {
        "type": enum("tool_result"),
        "tool_use_id": FILLED,
        "content": {"anyOf": [TEXT, {"type": "null"}, array(ref("Part"))]},
    },
    ["type", "tool_use_id"],
)


def _message(block: Schema, *roles: str) -> Schema:
    blocks = array({"anyOf": [ref("Part"), block]})
    content = {"anyOf": [TEXT, {"type": "null"}, blocks]}
    return obj({"role": enum(*roles), "content": content}, ["role", "content"])


_MESSAGE: Final[Schema] = {
    "anyOf": [_message(_RESULT, "user", "system"), _message(_CALL, "assistant")]
}
_TOOL: Final[Schema] = {
    "anyOf": [
        obj({"type": enum("custom"), "name": FILLED, "input_schema": OBJECT}, ["name"]),
        obj({"type": {"type": "string", "not": {"const": "custom"}}}, ["type"]),
    ],
    "description": "Tools of another `type`, which Anthropic runs itself, are ignored and named.",
}
_CHOICE: Final = obj(
    {
        "type": enum("auto", "any", "tool", "none"),
        "name": TEXT,
        "disable_parallel_tool_use": maybe(FLAG),
    },
    ["type"],
)
_REQUEST: Final = obj(
    {
        "model": MODEL,
        "messages": needed(array(ref("AnthropicMessage"), least=1)),
        "system": used({"anyOf": [TEXT, array(ref("Part"))]}),
        "stream": used(FLAG, "Missing: false."),
        "tools": passed_on(array(ref("AnthropicTool")), "By nodes with `allowTools`."),
        "tool_choice": passed_on(
            {"anyOf": [_CHOICE, {**OBJECT, "maxProperties": 0}]},
            "By nodes with `allowTools`.",
        ),
        "metadata": METADATA,
        "max_tokens": passed_on(WHOLE, "Not needed here."),
        "temperature": passed_on(NUMBER),
        "top_p": passed_on(NUMBER),
        "top_k": passed_on(WHOLE),
        "stop_sequences": passed_on(TEXTS),
        "thinking": passed_on(OBJECT, "To back ends of Anthropic's kind."),
        "output_config": passed_on(
            obj(
                {
                    "effort": passed_on(TEXT),
                    "format": passed_on(
                        obj({"type": enum("json_schema"), "schema": OBJECT}, ["type", "schema"])
                    ),
                }
            )
        ),
        **{
            name: ignored()
            for name in ("context_management", "service_tier", "container", "mcp_servers")
        },
    },
    ["messages"],
)
_ANSWER: Final = answer(
    {
        "id": TEXT,
        "type": enum("message"),
        "role": enum("assistant"),
        "model": TEXT,
        "content": array(obj({"type": enum("text", "thinking", "tool_use")}, ["type"])),
        "stop_reason": enum("end_turn", "max_tokens", "tool_use", "refusal"),
        "stop_sequence": {"type": "null"},
        "usage": obj(
            {"input_tokens": WHOLE, "output_tokens": WHOLE}, ["input_tokens", "output_tokens"]
        ),
    }
)

COMPONENTS: Final[Mapping[str, Schema]] = {
    "AnthropicMessage": _MESSAGE,
    "AnthropicTool": _TOOL,
    "MessagesRequest": _REQUEST,
    "MessagesAnswer": _ANSWER,
}
OPERATIONS: Final[Mapping[str, Operation]] = {
    "anthropic.create_message": Operation(
        body=ref("MessagesRequest"),
        answers=streamed(
            ref("MessagesAnswer"),
            EVENTS,
            "`message_start`, the blocks, `message_delta`, `message_stop`; `ping` in silence, "
            "`error` for a failure.",
        ),
        errors=RUNS_MODELS,
    ),
    "anthropic.count_tokens": Operation(
        body=ref("MessagesRequest"), answers=whole(answer({"input_tokens": WHOLE}))
    ),
}
