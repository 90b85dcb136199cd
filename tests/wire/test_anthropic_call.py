from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.messages import Message, ToolCall
from Middleware.wire import anthropic_messages
from Middleware.wire.anthropic_call import encode_image
from Middleware.wire.model_call import ModelCall

HI = (Message("user", "hi"),)
HI_SENT = [{"role": "user", "content": "hi"}]
TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "does f", "parameters": {"type": "object", "a": 1}},
}
BARE_TOOL = {"type": "function", "function": {"name": "g", "strict": True}}
TOOLS_SENT = [
    {"name": "f", "description": "does f", "input_schema": {"type": "object", "a": 1}},
    {"name": "g", "description": "", "input_schema": {"type": "object"}, "strict": True},
]


@dataclass(frozen=True)
class Sends:
    id: str
    call: ModelCall
    expected: dict[str, Any]


SENDS = [
    Sends(
        "smallest: the API demands a limit",
        ModelCall(messages=HI),
        {"messages": HI_SENT, "max_tokens": 4096, "stream": False},
    ),
    Sends(
        "presets keep the fields that the API knows",
        ModelCall(
            model="m",
            messages=HI,
            parameters={"max_tokens": 400, "temperature": 0.5, "min_p": 0.1, "thinking": {"a": 1}},
            stream=True,
        ),
        {
            "model": "m",
            "messages": HI_SENT,
            "max_tokens": 400,
            "temperature": 0.5,
            "thinking": {"a": 1},
            "stream": True,
        },
    ),
    Sends(
        "fields of the client, in this API's words",
        ModelCall(
            messages=HI,
            parameters={"max_tokens": 400},
            client_parameters={
                "max_tokens": 10,
                "temperature": 1.5,
                "top_k": 5,
                "stop": ["x", "\n"],
                "user": "u",
                "effort": "low",
                "reasoning_effort": "high",
                "response_format": {"type": "json_schema", "json_schema": {"schema": {"a": 1}}},
            },
        ),
        {
            "messages": HI_SENT,
            "max_tokens": 10,
            "temperature": 1,
            "top_k": 5,
            "stop_sequences": ["x"],
            "metadata": {"user_id": "u"},
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": {"a": 1}},
            },
            "stream": False,
        },
    ),
    Sends(
        "one tool at a time",
        ModelCall(
            messages=HI,
            parameters={"max_tokens": 1},
            tools=(TOOL, BARE_TOOL),
            client_parameters={"parallel_tool_calls": False},
        ),
        {
            "messages": HI_SENT,
            "max_tokens": 1,
            "stream": False,
            "tools": TOOLS_SENT,
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        },
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SENDS])
def test_encode_request(case: Sends) -> None:
    assert anthropic_messages.encode_request(case.call) == case.expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ("auto", {"type": "auto"}),
        ("required", {"type": "any"}),
        ({"type": "function", "function": {"name": "f"}}, {"type": "tool", "name": "f"}),
    ],
)
def test_tool_choices(choice: Any, expected: dict[str, Any] | None) -> None:
    sent = anthropic_messages.encode_request(
        ModelCall(messages=HI, tools=(TOOL,), tool_choice=choice)
    )

    assert sent.get("tool_choice") == expected
    assert "tools" in sent


def test_a_choice_of_none_sends_no_tools() -> None:
    sent = anthropic_messages.encode_request(
        ModelCall(messages=HI, tools=(TOOL,), tool_choice="none")
    )

    assert "tools" not in sent
    assert "tool_choice" not in sent


@dataclass(frozen=True)
class Converses:
    id: str
    messages: tuple[Message, ...]
    system: str
    expected: list[dict[str, Any]]


def result(id_: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": text}


def call(id_: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id=id_, name="f", arguments=arguments)


CONVERSES = [
    Converses(
        "system messages are gathered from everywhere",
        (
            Message("system", "a"),
            Message("developer", "b"),
            Message("user", "hi"),
            Message("systemMes", "c"),
            Message("system"),
        ),
        "a\n\nb\n\nc",
        HI_SENT,
    ),
    Converses(
        "a beginning of the answer loses the white space at its end",
        (*HI, Message("assistant", "Sure: \n")),
        "",
        [*HI_SENT, {"role": "assistant", "content": "Sure:"}],
    ),
    Converses("an empty beginning is none", (*HI, Message("assistant", " ")), "", HI_SENT),
    Converses(
        "names are not sent, images stand before their text",
        (
            Message("user", "look", images=("data:image/gif;base64,R0", "https://p.test/a", "?")),
            Message("user", "hi", name="bob"),
        ),
        "",
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/gif", "data": "R0"},
                    },
                    {"type": "image", "source": {"type": "url", "url": "https://p.test/a"}},
                    {"type": "text", "text": "look"},
                ],
            },
            *HI_SENT,
        ],
    ),
    Converses(
        "rounds of tools: results in a row share a message, what the user then says joins them",
        (
            Message("assistant", "ok", tool_calls=(call("a:1", '{"x":1}'), call("b", ""))),
            Message("tool", "A", tool_call_id="a:1"),
            Message("tool", "B", tool_call_id="b"),
            Message("user", "and?"),
            Message("user", "hm?"),
            Message("assistant", tool_calls=(call("c", "no JSON"), call(""))),
            Message("tool", "C", tool_call_id="c"),
            Message("user", "look", images=("https://p.test/a",)),
            Message("tool", "lost"),
        ),
        "",
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "ok"},
                    {"type": "tool_use", "id": "a_1", "name": "f", "input": {"x": 1}},
                    {"type": "tool_use", "id": "b", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [result("a_1", "A"), result("b", "B"), {"type": "text", "text": "and?"}],
            },
            {"role": "user", "content": "hm?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c", "name": "f", "input": {}},
                    {"type": "tool_use", "id": "call_5_1", "name": "f", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    result("c", "C"),
                    {"type": "image", "source": {"type": "url", "url": "https://p.test/a"}},
                    {"type": "text", "text": "look"},
                ],
            },
            {"role": "user", "content": [result("unknown", "lost")]},
        ],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CONVERSES])
def test_encode_messages(case: Converses) -> None:
    assert anthropic_messages.encode_messages(case.messages) == (case.system, case.expected)


def test_instructions_alone_are_asked() -> None:
    sent = anthropic_messages.encode_request(ModelCall(messages=(Message("system", "Sing."),)))

    assert sent["messages"] == [{"role": "user", "content": "Sing."}]
    assert "system" not in sent


def test_bare_base64_is_recognised() -> None:
    png, unknown = "iVBORw0KGgo" + "A" * 89, "B" * 100

    for image, kind in ((png, "image/png"), (unknown, "image/jpeg")):
        assert encode_image(image) == {
            "type": "image",
            "source": {"type": "base64", "media_type": kind, "data": image},
        }


def test_preset_fields_that_are_left_out_can_be_named() -> None:
    assert anthropic_messages.unusable({"min_p": 1, "temperature": 1}) == ("min_p",)
