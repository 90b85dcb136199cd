from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import ChatRequest, Message, ToolCall
from Middleware.wire import ollama_chat, ollama_generate

HI = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@dataclass(frozen=True)
class Accepts:
    id: str
    body: dict[str, Any]
    expected: ChatRequest


def hi(**changes: Any) -> ChatRequest:
    return ChatRequest(
        **{"model": "m", "messages": (Message("user", "hi"),), "stream": True, **changes}
    )


CHATS = [
    Accepts("smallest: streams", {"model": "m", "messages": HI}, hi()),
    Accepts("stream off", {"model": "m", "messages": HI, "stream": False}, hi(stream=False)),
    Accepts("stream as a text", {"model": "m", "messages": HI, "stream": "True"}, hi()),
    Accepts("any other text", {"model": "m", "messages": HI, "stream": "1"}, hi(stream=False)),
    Accepts(
        "nulls and empty lists say nothing",
        {
            "model": "m",
            "messages": [{"role": "user", "content": "hi", "images": [], "tool_calls": None}],
            "tools": [],
            "options": {"stop": None, "temperature": None, "num_ctx": None},
            "format": "",
            "think": None,
            "keep_alive": None,
            "stream": None,
        },
        hi(),
    ),
    Accepts(
        "options under OpenAI's names; what is none of ours is told",
        {
            "model": "m",
            "messages": HI,
            "options": {
                "num_predict": 128,
                "num_ctx": 8192.0,
                "temperature": 0.5,
                "top_k": 40,
                "stop": ["a", "b"],
                "seed": 7,
                "num_gpu": 1,
            },
            "template": "x",
        },
        hi(
            parameters={
                "max_tokens": 128,
                "temperature": 0.5,
                "top_k": 40,
                "stop": ["a", "b"],
                "seed": 7,
                "num_ctx": 8192,
            },
            unknown_fields=("template", "options.num_gpu"),
        ),
    ),
    Accepts(
        "no limit is not a limit",
        {"model": "m", "messages": HI, "options": {"num_predict": -2}},
        hi(),
    ),
    Accepts(
        "format json",
        {"model": "m", "messages": HI, "format": "json"},
        hi(parameters={"response_format": {"type": "json_object"}}),
    ),
    Accepts(
        "format schema",
        {"model": "m", "messages": HI, "format": SCHEMA},
        hi(
            parameters={
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "response", "schema": SCHEMA},
                }
            }
        ),
    ),
    Accepts(
        "thinking and keep_alive",
        {"model": "m", "messages": HI, "think": True, "keep_alive": "5m"},
        hi(parameters={"reasoning_effort": "medium", "keep_alive": "5m"}),
    ),
    Accepts(
        "no thinking",
        {"model": "m", "messages": HI, "think": False},
        hi(parameters={"reasoning_effort": "none"}),
    ),
    Accepts(
        "thinking by level",
        {"model": "m", "messages": HI, "think": "high"},
        hi(parameters={"reasoning_effort": "high"}),
    ),
    Accepts(
        "a content of parts, images both ways",
        {
            "model": "m",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "a"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
                        {"type": "text", "text": "b"},
                    ],
                    "images": ["BB"],
                }
            ],
        },
        hi(messages=(Message("user", "a\nb", images=("data:image/png;base64,AA", "BB")),)),
    ),
    Accepts(
        "object arguments become JSON text; results find their calls by name, then by order",
        {
            "model": "m",
            "tools": [TOOL],
            "messages": [
                {"role": "user", "content": "2+3?"},
                {
                    "role": "assistant",
                    "content": "",
                    "thinking": "hm",
                    "tool_calls": [
                        {"function": {"name": "f", "arguments": {"x": 1}}},
                        {"function": {"name": "g", "arguments": {}}},
                        {"function": {"name": "f"}},
                    ],
                },
                {"role": "tool", "content": "G", "tool_name": "g"},
                {"role": "tool", "content": "F1", "tool_name": "f"},
                {"role": "tool", "content": "F2"},
                {"role": "tool", "content": "lost"},
            ],
        },
        hi(
            tools=(TOOL,),
            messages=(
                Message("user", "2+3?"),
                Message(
                    "assistant",
                    tool_calls=(
                        ToolCall(id="call_1_0", name="f", arguments='{"x":1}'),
                        ToolCall(id="call_1_1", name="g", arguments="{}"),
                        ToolCall(id="call_1_2", name="f", arguments="{}"),
                    ),
                ),
                Message("tool", "G", tool_call_id="call_1_1", name="g"),
                Message("tool", "F1", tool_call_id="call_1_0", name="f"),
                Message("tool", "F2", tool_call_id="call_1_2"),
                Message("tool", "lost"),
            ),
        ),
    ),
    Accepts(
        "results that name their call keep it",
        {
            "model": "m",
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "a", "function": {"name": "f", "arguments": "{}"}},
                        {"id": "b", "function": {"name": "f", "arguments": "{}"}},
                    ],
                },
                {"role": "tool", "content": "B", "tool_call_id": "b"},
                {"role": "tool", "content": "A"},
            ],
        },
        hi(
            messages=(
                Message(
                    "assistant",
                    tool_calls=(
                        ToolCall(id="a", name="f", arguments="{}"),
                        ToolCall(id="b", name="f", arguments="{}"),
                    ),
                ),
                Message("tool", "B", tool_call_id="b"),
                Message("tool", "A", tool_call_id="a"),
            )
        ),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CHATS])
def test_parse_chat(case: Accepts) -> None:
    assert ollama_chat.parse_request(case.body) == case.expected


GENERATES = [
    Accepts("smallest: streams", {"model": "m", "prompt": "hi"}, hi()),
    Accepts(
        "system and prompt are one text",
        {"model": "m", "system": "Be kind.", "prompt": "hi", "stream": False},
        hi(messages=(Message("user", "Be kind.hi"),), stream=False),
    ),
    Accepts(
        "tags, images, SillyTavern's fields",
        {
            "model": "m",
            "system": "[Beg_Sys]Be kind.",
            "prompt": "[Beg_User]look[Beg_Assistant]Bob:",
            "images": ["AA", ""],
            "raw": True,
            "keep_alive": -1,
            "options": {"num_predict": 10, "stop": ["x"]},
        },
        hi(
            messages=(
                Message("system", "Be kind."),
                Message("user", "look", images=("AA",)),
                Message("assistant", "Bob:"),
            ),
            parameters={"max_tokens": 10, "stop": ["x"], "keep_alive": -1},
            unknown_fields=("raw",),
        ),
    ),
    Accepts("no prompt", {"model": "m"}, hi(messages=(Message("user"),))),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in GENERATES])
def test_parse_generate(case: Accepts) -> None:
    assert ollama_generate.parse_request(case.body) == case.expected


def test_a_request_that_asks_nothing_only_loads() -> None:
    assert ollama_generate.only_loads({"model": "m", "keep_alive": 0})
    assert not ollama_generate.only_loads({"model": "m", "prompt": "hi"})


@dataclass(frozen=True)
class Refuses:
    parse: Callable[[dict[str, Any]], ChatRequest]
    change: dict[str, Any]
    param: str


CHAT, GENERATE = ollama_chat.parse_request, ollama_generate.parse_request

REFUSES = [
    Refuses(CHAT, {"model": None}, "model"),
    Refuses(CHAT, {"model": ""}, "model"),
    Refuses(CHAT, {"model": 5}, "model"),
    Refuses(CHAT, {"messages": None}, "messages"),
    Refuses(CHAT, {"messages": []}, "messages"),
    Refuses(CHAT, {"messages": ["hi"]}, "messages.0"),
    Refuses(CHAT, {"messages": [{"role": "wizard", "content": ""}]}, "messages.0.role"),
    Refuses(CHAT, {"messages": [{"role": "user"}]}, "messages.0.content"),
    Refuses(CHAT, {"stream": []}, "stream"),
    Refuses(CHAT, {"tools": "f"}, "tools"),
    Refuses(CHAT, {"options": []}, "options"),
    Refuses(CHAT, {"options": {"temperature": "hot"}}, "options.temperature"),
    Refuses(CHAT, {"options": {"num_predict": "x"}}, "options.num_predict"),
    Refuses(CHAT, {"options": {"num_ctx": True}}, "options.num_ctx"),
    Refuses(CHAT, {"options": {"stop": 5}}, "options.stop"),
    Refuses(CHAT, {"format": "xml"}, "format"),
    Refuses(CHAT, {"think": "hard"}, "think"),
    Refuses(CHAT, {"keep_alive": True}, "keep_alive"),
    Refuses(GENERATE, {"model": None}, "model"),
    Refuses(GENERATE, {"prompt": ["hi"]}, "prompt"),
    Refuses(GENERATE, {"system": 1}, "system"),
    Refuses(GENERATE, {"images": "AA"}, "images"),
    Refuses(GENERATE, {"images": [1]}, "images.0"),
]


@pytest.mark.parametrize("case", REFUSES, ids=lambda c: f"{c.parse.__name__} {c.change}")
def test_a_wrong_field_is_refused_by_name(case: Refuses) -> None:
    with pytest.raises(MalformedRequest) as caught:
        case.parse({"model": "m", "messages": HI, "prompt": "hi", **case.change})

    assert caught.value.param == case.param
