"""OpenAI's Responses."""

from collections.abc import Mapping
from typing import Final

from Middleware.api.openapi.openai import CONTENT, METADATA, MODEL
from Middleware.api.openapi.schemas import (
    EVENTS,
    FILLED,
    FLAG,
    NUMBER,
    OBJECT,
    RUNS_MODELS,
    TEXT,
    WHOLE,
    Operation,
    Parameter,
    Schema,
    answer,
    array,
    enum,
    ignored,
    maybe,
    obj,
    passed_on,
    ref,
    streamed,
    used,
    whole,
)
from Middleware.wire.openai_messages import ROLES

_KNOWN_ITEMS: Final = (
    *("message", "function_call", "function_call_output", "custom_tool_call"),
    *("custom_tool_call_output", "mcp_approval_response"),
)
_ITEM: Final[Schema] = {
    "anyOf": [
        obj(
            {"type": enum("message"), "role": enum(*sorted(ROLES)), "content": CONTENT},
            ["role", "content"],
        ),
        obj(
            {
                "type": enum("function_call"),
                "call_id": FILLED,
                "name": FILLED,
                "namespace": TEXT,
                "arguments": {"type": "string", "contentMediaType": "application/json"},
            },
            ["type", "call_id", "name"],
        ),
        obj(
            {"type": enum("custom_tool_call"), "call_id": FILLED, "name": FILLED, "input": TEXT},
            ["type", "call_id", "name"],
        ),
        obj(
            {
                "type": enum("function_call_output", "custom_tool_call_output"),
                "call_id": FILLED,
                "output": CONTENT,
            },
            ["type", "call_id"],
        ),
        obj(
            {
                "type": enum("mcp_approval_response"),
                "approval_request_id": FILLED,
                "approve": FLAG,
                "reason": maybe(TEXT),
            },
            ["type", "approval_request_id", "approve"],
        ),
        {
            **obj({"type": {**FILLED, "not": {"enum": list(_KNOWN_ITEMS)}}}, ["type"]),
            "description": "Any other kind is ignored, and named.",
        },
    ]
}
_TOOL: Final[Schema] = {
    "anyOf": [
        obj({"type": enum("function"), "name": FILLED}, ["type", "name"]),
        obj(
            {
                "type": enum("namespace"),
                "name": FILLED,
                "tools": array(obj({"type": TEXT}, ["type"])),
            },
            ["type", "name"],
        ),
        obj({"type": {"type": "string", "not": {"enum": ["function", "namespace"]}}}, ["type"]),
    ]
}
_FORMAT: Final[Schema] = {
    "anyOf": [
        obj({"type": enum("text", "json_object")}, ["type"]),
        obj(
            {"type": enum("json_schema"), "schema": OBJECT, "name": maybe(TEXT)}, ["type", "schema"]
        ),
    ]
}
_FIELDS: Final = obj(
    {
        "model": MODEL,
        "input": used(
            {"anyOf": [TEXT, array(ref("InputItem"), least=1)]},
            "Needed unless the request goes on from something.",
        ),
        "instructions": used(TEXT, "The system message of this request alone."),
        "stream": used(FLAG, "Missing: false."),
        "stream_options": used({}, "Says nothing here: the usage always comes."),
        "tools": passed_on(
            array(ref("ResponsesTool")),
            "By nodes with `allowTools`; those that OpenAI runs itself are ignored and named.",
        ),
        "tool_choice": passed_on(
            {"anyOf": [enum("none", "auto", "required"), OBJECT]}, "By nodes with `allowTools`."
        ),
        "metadata": METADATA,
        "previous_response_id": used(TEXT, "The conversation behind a kept response."),
        "conversation": used(
            {"anyOf": [TEXT, obj({"id": maybe(TEXT)})]},
            "The conversation that this request goes on with, and adds to; not beside "
            "`previous_response_id`.",
        ),
        "store": used(FLAG, "Missing: true. Whether the response is kept."),
        "background": used(
            FLAG, "Of conversations that last; refused for ordinary workflows and without `store`."
        ),
        "text": passed_on(
            obj({"format": passed_on(_FORMAT), "verbosity": passed_on(TEXT)}),
            "`format` is what chats call `response_format`.",
        ),
        "reasoning": passed_on(obj({"effort": passed_on(TEXT)})),
        "max_output_tokens": passed_on(WHOLE),
        "temperature": passed_on(NUMBER),
        "top_p": passed_on(NUMBER),
        "user": passed_on(TEXT),
        "parallel_tool_calls": passed_on(FLAG),
        **{
            name: ignored()
            for name in (
                *("include", "prompt_cache_key", "client_metadata", "truncation"),
                *("service_tier", "max_tool_calls", "top_logprobs", "safety_identifier"),
            )
        },
    }
)
_REQUEST: Final[Schema] = {
    **_FIELDS,
    "anyOf": [
        obj({"input": {"type": ["string", "array"]}}, ["input"]),
        obj({"previous_response_id": FILLED}, ["previous_response_id"]),
        obj({"conversation": {"type": ["string", "object"]}}, ["conversation"]),
    ],
}
_STATUSES: Final = enum("queued", "in_progress", "completed", "incomplete", "failed", "cancelled")
_ANSWER: Final = answer(
    {
        "id": TEXT,
        "object": enum("response"),
        "created_at": WHOLE,
        "status": _STATUSES,
        "error": maybe(answer({"code": TEXT, "message": TEXT})),
        "incomplete_details": maybe(answer({"reason": TEXT})),
        "model": TEXT,
        "output": array(obj({"type": TEXT, "id": TEXT}, ["type"])),
        "usage": maybe(
            obj(
                {"input_tokens": WHOLE, "output_tokens": WHOLE, "total_tokens": WHOLE},
                ["input_tokens", "output_tokens", "total_tokens"],
            )
        ),
    }
)
_ITEMS: Final = answer(
    {
        "object": enum("list"),
        "data": array(OBJECT),
        "first_id": maybe(TEXT),
        "last_id": maybe(TEXT),
        "has_more": FLAG,
    }
)

COMPONENTS: Final[Mapping[str, Schema]] = {
    "InputItem": _ITEM,
    "ResponsesTool": _TOOL,
    "ResponsesRequest": _REQUEST,
    "Response": _ANSWER,
    "ResponseItems": _ITEMS,
}
PAGE: Final = (
    Parameter(name="after", schema=TEXT, text="The id of an item: go on behind it."),
    Parameter(
        name="limit", schema={**WHOLE, "minimum": 1, "maximum": 100}, text="20 when missing."
    ),
    Parameter(name="order", schema=enum("asc", "desc"), text="`desc`, newest first, when missing."),
)
OPERATIONS: Final[Mapping[str, Operation]] = {
    "responses.create": Operation(
        body=ref("ResponsesRequest"),
        answers=streamed(
            ref("Response"),
            EVENTS,
            "`response.created`, `response.in_progress` (again in silence), the events of each "
            "item, and at the end `response.completed`, `response.incomplete` or "
            "`response.failed`; each with its `sequence_number`.",
        ),
        errors=(*RUNS_MODELS, 409),
    ),
    "responses.show": Operation(
        parameters=(
            Parameter(name="stream", schema=TEXT, text="`true` only for background responses."),
            Parameter(
                name="starting_after", schema=WHOLE, text="The number of an event: go on behind it."
            ),
        ),
        answers=streamed(ref("Response"), EVENTS, "The events of a background response."),
        errors=(404,),
    ),
    "responses.items": Operation(
        parameters=PAGE, answers=whole(ref("ResponseItems")), errors=(404,)
    ),
    "responses.delete": Operation(
        answers=whole(answer({"id": TEXT, "object": TEXT, "deleted": FLAG})),
        errors=(404, 409),
    ),
    "responses.cancel": Operation(
        needs_body=False, answers=whole(ref("Response")), errors=(404, 409)
    ),
}
