from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.messages import Message, ToolCall
from Middleware.wire import openai_responses
from Middleware.wire.model_call import ModelCall

HI = (Message("user", "hi"),)
HI_SENT = [{"type": "message", "role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@dataclass(frozen=True)
class Sends:
    id: str
    call: ModelCall
    expected: dict[str, Any]


SENDS = [
    Sends(
        "smallest: nothing is to be kept there",
        ModelCall(messages=HI),
        {"input": HI_SENT, "store": False, "stream": False},
    ),
    Sends(
        "parameters win over what is ours, the client's over those",
        ModelCall(
            model="m",
            messages=HI,
            parameters={
                "max_output_tokens": 400,
                "store": True,
                "reasoning": {"summary": "auto"},
                "text": {"verbosity": "low"},
            },
            client_parameters={
                "max_completion_tokens": 10,
                "temperature": 0.5,
                "stop": "x",
                "reasoning_effort": "high",
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {"a": 1}},
                },
                "parallel_tool_calls": False,
            },
            stream=True,
        ),
        {
            "model": "m",
            "input": HI_SENT,
            "store": True,
            "max_output_tokens": 10,
            "temperature": 0.5,
            "reasoning": {"summary": "auto", "effort": "high"},
            "text": {
                "verbosity": "low",
                "format": {"type": "json_schema", "name": "n", "schema": {"a": 1}},
            },
            "stream": True,
        },
    ),
    Sends(
        "tools are not strict unless they say so",
        ModelCall(
            messages=HI,
            tools=(TOOL,),
            tool_choice={"type": "function", "function": {"name": "f"}},
            client_parameters={
                "parallel_tool_calls": False,
                "response_format": {"type": "json_object"},
            },
        ),
        {
            "input": HI_SENT,
            "store": False,
            "text": {"format": {"type": "json_object"}},
            "stream": False,
            "tools": [
                {
                    "type": "function",
                    "name": "f",
                    "parameters": {"type": "object"},
                    "strict": False,
                }
            ],
            "tool_choice": {"type": "function", "name": "f"},
            "parallel_tool_calls": False,
        },
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SENDS])
def test_encode_request(case: Sends) -> None:
    assert openai_responses.encode_request(case.call) == case.expected


def test_encode_messages() -> None:
    messages = (
        Message("developer", "a"),
        Message("user", "look", images=("https://p.test/a", "?")),
        Message("assistant", "ok", tool_calls=(ToolCall(id="1", name="f", arguments="{}"),)),
        Message("tool", "one", tool_call_id="1"),
        Message("assistant", tool_calls=(ToolCall(id="2", name="f", arguments=" "),)),
        Message("function", "two", name="f"),
        Message("systemMes", "b"),
        Message("assistant"),
    )

    assert openai_responses.encode_messages(messages) == [
        {"type": "message", "role": "developer", "content": "a"},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": "https://p.test/a"},
            ],
        },
        {"type": "message", "role": "assistant", "content": "ok"},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "one"},
        {"type": "function_call", "call_id": "2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "f", "output": "two"},
        {"type": "message", "role": "system", "content": "b"},
    ]


def test_what_we_send_we_can_read() -> None:
    messages = (
        Message("system", "a"),
        Message("user", "look", images=("https://p.test/a",)),
        Message("assistant", "ok", tool_calls=(ToolCall(id="1", name="f", arguments="{}"),)),
        Message("tool", "one", tool_call_id="1"),
        Message("assistant", "done"),
    )

    sent = openai_responses.encode_request(ModelCall(messages=messages, tools=(TOOL,)))

    assert openai_responses.parse_request(sent).chat.messages == messages
