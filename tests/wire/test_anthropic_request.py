from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import ChatRequest, Message, ToolCall
from Middleware.wire import anthropic_messages

HI = [{"role": "user", "content": "hi"}]
TOOL = {"name": "f", "description": "does f", "input_schema": {"type": "object", "$schema": "x"}}
TOOL_READ = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "does f",
        "parameters": {"type": "object", "$schema": "x"},
    },
}
PIXEL = {"type": "base64", "media_type": "image/gif", "data": "R0lGOD"}


@dataclass(frozen=True)
class Accepts:
    id: str
    body: dict[str, Any]
    expected: ChatRequest


def hi(**changes: Any) -> ChatRequest:
    return ChatRequest(**{"model": "m", "messages": (Message("user", "hi"),), **changes})


ACCEPTS = [
    Accepts("smallest", {"model": "m", "messages": HI}, hi()),
    Accepts(
        "nulls and empty lists say nothing",
        {
            "model": "m",
            "messages": HI,
            "system": None,
            "stop_sequences": [],
            "tools": [],
            "tool_choice": None,
            "temperature": None,
            "metadata": None,
            "thinking": {"type": "disabled"},
            "output_config": None,
            "stream": None,
        },
        hi(),
    ),
    Accepts(
        "all fields",
        {
            "model": "m",
            "messages": HI,
            "system": "Be kind.",
            "max_tokens": 100,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 40,
            "stop_sequences": ["x"],
            "stream": True,
            "metadata": {"user_id": "u"},
            "thinking": {"type": "adaptive"},
            "output_config": {
                "effort": "high",
                "format": {"type": "json_schema", "schema": {"type": "object"}},
            },
            "tools": [TOOL],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
            "context_management": {},
        },
        hi(
            messages=(Message("system", "Be kind."), Message("user", "hi")),
            stream=True,
            metadata={"user_id": "u"},
            tools=(TOOL_READ,),
            tool_choice="required",
            parameters={
                "max_tokens": 100,
                "temperature": 0.5,
                "top_p": 0.9,
                "top_k": 40,
                "stop": ["x"],
                "thinking": {"type": "adaptive"},
                "effort": "high",
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "response", "schema": {"type": "object"}},
                },
                "parallel_tool_calls": False,
            },
            unknown_fields=("context_management",),
        ),
    ),
    Accepts(
        "Claude Code: system as blocks, and a system message after the newest user message",
        {
            "model": "m",
            "system": [
                {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "b"},
            ],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "system", "content": [{"type": "text", "text": "note"}]},
            ],
        },
        hi(
            messages=(
                Message("system", "a\nb"),
                Message("user", "hi"),
                Message("system", "note"),
            )
        ),
    ),
    Accepts(
        "images of both kinds, several texts, empty and null contents",
        {
            "model": "m",
            "messages": [
                {"role": "assistant", "content": None},
                {"role": "user", "content": []},
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": PIXEL},
                        {"type": "text", "text": "a"},
                        {"type": "image", "source": {"type": "url", "url": "https://p.test/a"}},
                        {"type": "text", "text": "b"},
                    ],
                },
            ],
        },
        hi(
            messages=(
                Message("assistant"),
                Message("user"),
                Message(
                    "user", "a\nb", images=("data:image/gif;base64,R0lGOD", "https://p.test/a")
                ),
            )
        ),
    ),
    Accepts(
        "a round of tools: thoughts are not replayed, results stand before the rest, "
        "their images behind them",
        {
            "model": "m",
            "tools": [TOOL, {"type": "web_search_20250305", "name": "web_search"}],
            "tool_choice": {"type": "tool", "name": "f"},
            "messages": [
                {"role": "user", "content": "go"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "text", "text": "ok"},
                        {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}},
                        {"type": "tool_use", "id": "t2", "name": "f", "input": {}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t1",
                            "content": [
                                {"type": "text", "text": "one"},
                                {"type": "image", "source": PIXEL},
                                {"type": "text", "text": "two"},
                            ],
                        },
                        {"type": "tool_result", "tool_use_id": "t2", "is_error": True},
                        {"type": "text", "text": "and?"},
                    ],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t3", "content": "x"}],
                },
            ],
        },
        hi(
            tools=(TOOL_READ,),
            tool_choice={"type": "function", "function": {"name": "f"}},
            messages=(
                Message("user", "go"),
                Message(
                    "assistant",
                    "ok",
                    tool_calls=(
                        ToolCall(id="t1", name="f", arguments='{"x":1}'),
                        ToolCall(id="t2", name="f", arguments="{}"),
                    ),
                ),
                Message("tool", "one\ntwo", tool_call_id="t1"),
                Message("tool", "", tool_call_id="t2"),
                Message("user", "and?", images=("data:image/gif;base64,R0lGOD",)),
                Message("tool", "x", tool_call_id="t3"),
            ),
            unknown_fields=("tools.web_search_20250305",),
        ),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in ACCEPTS])
def test_parse_request(case: Accepts) -> None:
    assert anthropic_messages.parse_request(case.body) == case.expected


@pytest.mark.parametrize(
    ("type_", "expected"), [("auto", "auto"), ("any", "required"), ("none", "none")]
)
def test_tool_choices(type_: str, expected: str) -> None:
    body = {"messages": HI, "tools": [TOOL], "tool_choice": {"type": type_}}

    assert anthropic_messages.parse_request(body).tool_choice == expected


def content(*blocks: Any) -> dict[str, Any]:
    return {"messages": [*HI, {"role": "user", "content": list(blocks)}]}


def turn(*blocks: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": list(blocks)}]}


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"model": 1}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["hi"]}, "messages.0"),
        ({"messages": [{}]}, "messages.0.role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content"),
        (content("x", {"type": "document", "source": {}}), "messages.1.content.1.type"),
        (content(5), "messages.1.content.0"),
        (content({"type": "text"}), "messages.1.content.0.text"),
        (content({"type": "image"}), "messages.1.content.0.source"),
        (content({"type": "tool_result"}), "messages.1.content.0.tool_use_id"),
        (
            content({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "x"}]}),
            "messages.1.content.0.content.0.type",
        ),
        (turn({"type": "tool_use", "name": "f"}), "messages.0.content.0.id"),
        (turn({"type": "tool_use", "id": "a", "name": 1}), "messages.0.content.0.name"),
        (
            turn({"type": "tool_use", "id": "a", "name": "f", "input": "x"}),
            "messages.0.content.0.input",
        ),
        ({"system": 5}, "system"),
        ({"system": [{"type": "image"}]}, "system.0.source"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"stop_sequences": 5}, "stop_sequences"),
        ({"stream": "yes"}, "stream"),
        ({"thinking": True}, "thinking"),
        ({"metadata": []}, "metadata"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
        ({"output_config": {"effort": 1}}, "output_config.effort"),
        ({"tools": {}}, "tools"),
        ({"tools": [1]}, "tools.0"),
        ({"tools": [{"description": "x"}]}, "tools.0.name"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tool_choice": {"type": "all"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tool_choice": {"type": "tool", "name": "g"}, "tools": [TOOL]}, "tool_choice"),
    ],
)
def test_a_wrong_field_is_refused_by_name(change: dict[str, Any], param: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        anthropic_messages.parse_request({"model": "m", "messages": HI, **change})

    assert caught.value.param == param
    assert caught.value.text.startswith(f"`{param}` ")


def test_tokens_are_estimated() -> None:
    asked = anthropic_messages.parse_request({"messages": HI, "system": "x" * 700, "tools": [TOOL]})

    assert 220 < anthropic_messages.count_tokens(asked) < 280
    assert anthropic_messages.encode_count(7) == {"input_tokens": 7}
