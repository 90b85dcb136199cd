"""Ollama's interface."""

from collections.abc import Mapping
from typing import Final

from Middleware.api.openapi.schemas import (
    ANYTHING,
    FILLED,
    FLAG,
    LINES,
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
    needed,
    obj,
    passed_on,
    ref,
    sampling,
    streamed,
    used,
    whole,
)

_STREAM: Final = used(
    {"type": ["boolean", "number", "string"]},
    "Missing: true. Of texts only `true` means it, of numbers all but 0.",
)
_NAME: Final = needed(FILLED)
_SETTINGS: Final[Mapping[str, Schema]] = {
    "stream": _STREAM,
    "options": passed_on(
        obj({**sampling(), "num_predict": passed_on(WHOLE), "num_ctx": passed_on(WHOLE)}),
        "Options that no model server here knows are ignored and named.",
    ),
    "format": passed_on({"anyOf": [enum("", "json"), OBJECT]}, "`json`, or a JSON Schema."),
    "think": passed_on({"anyOf": [FLAG, enum("low", "medium", "high", "max")]}),
    "keep_alive": passed_on({"type": ["string", "number"]}),
}
_CHAT: Final = obj(
    {
        "model": _NAME,
        "messages": needed(array(ref("Message"), least=1)),
        "tools": passed_on(array(ref("Tool")), "By nodes with `allowTools`."),
        **_SETTINGS,
    },
    ["model", "messages"],
)
_GENERATE: Final = obj(
    {
        "model": _NAME,
        "prompt": used(TEXT, "Without it, `system` and `images` the model counts as loaded."),
        "system": used(TEXT, "Stands before the prompt; tags as in `/v1/completions`."),
        "images": used(array(TEXT), "In base64."),
        **_SETTINGS,
        **{name: ignored() for name in ("template", "context", "raw", "suffix", "tools")},
    },
    ["model"],
)
_COUNTS: Final[Mapping[str, Schema]] = {
    name: WHOLE
    for name in (
        *("total_duration", "load_duration", "prompt_eval_count"),
        *("prompt_eval_duration", "eval_count", "eval_duration"),
    )
}
_LINE: Final[Mapping[str, Schema]] = {
    "model": TEXT,
    "created_at": TEXT,
    "done": FLAG,
    "done_reason": enum("stop", "length", "load", "unload"),
}
_SAID: Final = answer(
    {"role": enum("assistant"), "content": TEXT},
    {"thinking": TEXT, "tool_calls": array(OBJECT)},
)
_EMBED: Final = obj(
    {
        "model": _NAME,
        "input": needed(TEXTS, "Tokens are refused."),
        "dimensions": passed_on({**WHOLE, "minimum": 0}, "0 says nothing."),
        **{name: ignored() for name in ("truncate", "options", "keep_alive")},
    },
    ["model", "input"],
)
_OLD_EMBED: Final = obj(
    {
        "model": _NAME,
        "prompt": needed(TEXT),
        **{name: ignored() for name in ("options", "keep_alive")},
    },
    ["model", "prompt"],
)
_NAMED: Final[Mapping[str, Schema]] = {"model": used(TEXT), "name": used(TEXT)}
_ONE_NAME: Final = [obj({"model": FILLED}, ["model"]), obj({"name": FILLED}, ["name"])]
_SHOW: Final[Schema] = {**obj({**_NAMED, "verbose": ignored()}), "anyOf": _ONE_NAME}
_PULL: Final[Schema] = {
    **obj({**_NAMED, "stream": _STREAM, "insecure": ignored()}),
    "anyOf": _ONE_NAME,
}
_VECTOR: Final = array(NUMBER)

COMPONENTS: Final[Mapping[str, Schema]] = {
    "OllamaChatRequest": _CHAT,
    "OllamaChatAnswer": answer({**_LINE, "message": _SAID}, {**_COUNTS, "request_id": TEXT}),
    "OllamaGenerateRequest": _GENERATE,
    "OllamaGenerateAnswer": answer(
        {**_LINE, "response": TEXT}, {**_COUNTS, "request_id": TEXT, "thinking": TEXT}
    ),
}
_LINES: Final = (
    "An object on each line, the last one with `done: true`; an empty one in silence, "
    '`{"error": text}` for a failure.'
)
_CANCEL: Final = Operation(
    body=obj({"request_id": needed(FILLED)}, ["request_id"]),
    answers=whole(answer({"status": enum("cancelled"), "request_id": TEXT})),
)
OPERATIONS: Final[Mapping[str, Operation]] = {
    "ollama.chat": Operation(
        body=ref("OllamaChatRequest"),
        answers=streamed(ref("OllamaChatAnswer"), LINES, _LINES),
        errors=RUNS_MODELS,
    ),
    "ollama.generate": Operation(
        body=ref("OllamaGenerateRequest"),
        answers=streamed(ref("OllamaGenerateAnswer"), LINES, _LINES),
        errors=RUNS_MODELS,
    ),
    "ollama.cancel": _CANCEL,
    "ollama.show": Operation(body=_SHOW, errors=(403, 404)),
    "ollama.pull": Operation(
        body=_PULL,
        answers=streamed(answer({"status": enum("success")}), LINES, "The same on one line."),
        errors=(403, 404),
    ),
    "ollama.tags": Operation(answers=whole(answer({"models": array(OBJECT)}))),
    "ollama.version": Operation(answers=whole(answer({"version": TEXT}))),
    "ollama.running": Operation(answers=whole(answer({"models": array(ANYTHING)}))),
    "embeddings.embed": Operation(
        body=_EMBED,
        answers=whole(
            answer({"model": TEXT, "embeddings": array(_VECTOR), **dict(list(_COUNTS.items())[:2])})
        ),
        errors=RUNS_MODELS,
    ),
    "embeddings.embed_one": Operation(
        body=_OLD_EMBED, answers=whole(answer({"embedding": _VECTOR})), errors=RUNS_MODELS
    ),
}
