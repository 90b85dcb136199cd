"""OpenAI's doors but Responses."""

from collections.abc import Mapping
from typing import Final

from Middleware.api.openapi.schemas import (
    ANYTHING,
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
    Parameter,
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
    sampling,
    streamed,
    used,
    whole,
)
from Middleware.wire.openai_messages import NEED_CONTENT, NOT_REPLAYED, ROLES

STREAM_OPTIONS: Final = used(
    obj({"include_usage": used(FLAG)}), "`include_usage`: a last chunk with the tokens."
)
MODEL: Final = used(
    TEXT, "`workflow`, `user:workflow`, `user`, or an alias; missing: the usual workflow."
)
METADATA: Final = used(
    OBJECT, "Global variables of the workflow; `conversation_id` names the conversation."
)
_ANTHROPIC: Final = Parameter(
    name="anthropic-version",
    schema=TEXT,
    text="Any version: lists and errors have Anthropic's shape.",
    place="header",
)

_URL: Final = obj({"url": TEXT}, ["url"])
_SOURCE: Final[Schema] = {
    "anyOf": [
        obj({"type": enum("url"), "url": TEXT}, ["type", "url"]),
        obj({"type": enum("base64"), "data": TEXT, "media_type": maybe(TEXT)}, ["type", "data"]),
    ]
}
PART: Final[Schema] = {
    "anyOf": [
        TEXT,
        obj(
            {"type": enum("text", "input_text", "output_text"), "text": maybe(TEXT)},
            ["type", "text"],
        ),
        obj({"type": enum("refusal"), "refusal": maybe(TEXT)}, ["type", "refusal"]),
        obj(
            {"type": enum("image_url", "input_image"), "image_url": {"anyOf": [TEXT, _URL]}},
            ["type", "image_url"],
        ),
        obj({"type": enum("image"), "source": _SOURCE}, ["type", "source"]),
        obj({"type": enum(*sorted(NOT_REPLAYED))}, ["type"]),
    ]
}
CONTENT: Final[Schema] = {"anyOf": [TEXT, {"type": "null"}, array(ref("Part"))]}
_JSON_TEXT: Final[Schema] = {
    "description": "JSON as text; empty text means no arguments. An object will do too.",
    "anyOf": [{"type": "string", "contentMediaType": "application/json"}, OBJECT, {"type": "null"}],
}
_CALL: Final = obj(
    {"id": maybe(TEXT), "function": obj({"name": FILLED, "arguments": _JSON_TEXT}, ["name"])},
    ["function"],
)
MESSAGE: Final[Schema] = {
    **obj(
        {
            "role": enum(*sorted(ROLES)),
            "content": CONTENT,
            "images": maybe(array(TEXT)),
            "tool_calls": maybe(array(ref("ToolCall"))),
            "tool_call_id": maybe(TEXT),
            "name": maybe(TEXT),
        },
        ["role"],
    ),
    "anyOf": [
        obj({"role": enum(*sorted(NEED_CONTENT))}, ["content"]),
        obj({"role": enum(*sorted(ROLES - NEED_CONTENT))}),
    ],
}
TOOL: Final[Schema] = {
    **OBJECT,
    "anyOf": [
        obj({"type": enum("function"), "function": obj({"name": FILLED}, ["name"])}, ["function"]),
        obj({"type": {"type": "string", "not": {"const": "function"}}}, ["type"]),
    ],
}
TOOL_CHOICE: Final[Schema] = {
    "anyOf": [
        enum("none", "auto", "required"),
        obj({"function": obj({"name": FILLED}, ["name"])}, ["function"]),
    ]
}
_CHAT: Final = obj(
    {
        "model": MODEL,
        "messages": needed(array(ref("Message"), least=1)),
        "stream": used(FLAG, "Missing: false."),
        "stream_options": STREAM_OPTIONS,
        "tools": passed_on(array(ref("Tool")), "By nodes with `allowTools`."),
        "tool_choice": passed_on(TOOL_CHOICE, "By nodes with `allowTools`."),
        "metadata": METADATA,
        **sampling(ignores=("n", "logprobs", "top_logprobs")),
        **{
            name: ignored()
            for name in (
                *("functions", "function_call", "store", "service_tier", "prediction"),
                *("audio", "modalities", "web_search_options", "prompt_cache_key"),
            )
        },
    },
    ["messages"],
)
_FINISH: Final = enum("stop", "length", "tool_calls", "content_filter")
USAGE: Final = answer({"prompt_tokens": WHOLE, "completion_tokens": WHOLE, "total_tokens": WHOLE})
_HEAD: Final = {"id": TEXT, "created": WHOLE, "model": TEXT}
_ANSWERED_CALL: Final = answer(
    {
        "id": TEXT,
        "type": enum("function"),
        "function": answer({"name": TEXT, "arguments": TEXT}),
    }
)
_CHAT_ANSWER: Final = answer(
    {
        **_HEAD,
        "object": enum("chat.completion"),
        "choices": array(
            answer(
                {
                    "index": WHOLE,
                    "message": answer(
                        {"role": enum("assistant"), "content": maybe(TEXT)},
                        {"reasoning_content": TEXT, "tool_calls": array(_ANSWERED_CALL)},
                    ),
                    "logprobs": {"type": "null"},
                    "finish_reason": _FINISH,
                }
            ),
            least=1,
        ),
    },
    {"usage": ref("Usage")},
)
_TEXT: Final = obj(
    {
        "model": MODEL,
        "prompt": needed(
            {"anyOf": [TEXT, {**array(TEXT, least=1), "maxItems": 1}]},
            "Tags `[Beg_Sys]`, `[Beg_User]`, `[Beg_Assistant]` and `[Beg_SysMes]` make it a "
            "conversation; without them it is one user message.",
        ),
        "stream": used(FLAG, "Missing: false, unless the user has `completionsStreamByDefault`."),
        "stream_options": STREAM_OPTIONS,
        "metadata": METADATA,
        **sampling(ignores=("n", "top_logprobs"), without=("logprobs",)),
        **{name: ignored() for name in ("logprobs", "echo", "best_of", "suffix")},
    },
    ["prompt"],
)
_TEXT_ANSWER: Final = answer(
    {
        **_HEAD,
        "object": enum("text_completion"),
        "choices": array(
            answer(
                {
                    "index": WHOLE,
                    "text": TEXT,
                    "logprobs": {"type": "null"},
                    "finish_reason": enum("stop", "length", "content_filter"),
                }
            ),
            least=1,
        ),
    },
    {"usage": ref("Usage")},
)
_VECTORS: Final = obj(
    {
        "model": used(TEXT, "A user's name in front of `:` chooses the user."),
        "input": needed(TEXTS, "Tokens are refused."),
        "encoding_format": used(enum("float", "base64")),
        "dimensions": passed_on({**WHOLE, "minimum": 1}),
        "user": passed_on(TEXT),
    },
    ["input"],
)
_VECTORS_ANSWER: Final = answer(
    {
        "object": enum("list"),
        "model": TEXT,
        "data": array(
            answer(
                {
                    "object": enum("embedding"),
                    "index": WHOLE,
                    "embedding": {"anyOf": [array(NUMBER), TEXT]},
                }
            )
        ),
        "usage": answer({"prompt_tokens": WHOLE, "total_tokens": WHOLE}),
    }
)
_MODEL_ANSWER: Final[Schema] = {
    "anyOf": [
        answer({"id": TEXT, "object": enum("model"), "created": WHOLE, "owned_by": TEXT}),
        answer({"id": TEXT, "type": enum("model"), "display_name": TEXT, "created_at": TEXT}),
    ]
}
_MODELS_ANSWER: Final[Schema] = {
    "anyOf": [
        answer({"object": enum("list"), "data": array(ref("Model"))}),
        answer(
            {
                "data": array(ref("Model")),
                "has_more": FLAG,
                "first_id": ANYTHING,
                "last_id": ANYTHING,
            }
        ),
    ]
}

COMPONENTS: Final[Mapping[str, Schema]] = {
    "Part": PART,
    "Message": MESSAGE,
    "ToolCall": _CALL,
    "Tool": TOOL,
    "Usage": USAGE,
    "ChatRequest": _CHAT,
    "ChatAnswer": _CHAT_ANSWER,
    "CompletionRequest": _TEXT,
    "CompletionAnswer": _TEXT_ANSWER,
    "EmbeddingsRequest": _VECTORS,
    "EmbeddingsAnswer": _VECTORS_ANSWER,
    "Model": _MODEL_ANSWER,
    "Models": _MODELS_ANSWER,
}
_CHUNKS: Final = (
    '`data: {chunk}` for each piece, a comment in silence, `data: {"error": ...}` for a failure, '
    "and `data: [DONE]` at the end."
)
OPERATIONS: Final[Mapping[str, Operation]] = {
    "openai.chat_completions": Operation(
        body=ref("ChatRequest"),
        answers=streamed(ref("ChatAnswer"), EVENTS, _CHUNKS),
        errors=RUNS_MODELS,
    ),
    "openai.completions": Operation(
        body=ref("CompletionRequest"),
        answers=streamed(ref("CompletionAnswer"), EVENTS, _CHUNKS),
        errors=RUNS_MODELS,
    ),
    "embeddings.embeddings": Operation(
        body=ref("EmbeddingsRequest"),
        answers=whole(ref("EmbeddingsAnswer")),
        errors=RUNS_MODELS,
    ),
    "openai.list_models": Operation(parameters=(_ANTHROPIC,), answers=whole(ref("Models"))),
    "openai.show_model": Operation(
        parameters=(_ANTHROPIC,), answers=whole(ref("Model")), errors=(403, 404)
    ),
}
