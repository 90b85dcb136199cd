from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.errors import RequestError
from Middleware.core.messages import Message, ToolCall
from Middleware.wire import ollama_chat, ollama_generate
from Middleware.wire.model_call import ModelCall

HI = (Message("user", "hi"),)
HI_SENT = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f"}}
SCHEMA = {"type": "object"}


@dataclass(frozen=True)
class Sends:
    id: str
    call: ModelCall
    expected: dict[str, Any]


CHATS = [
    Sends(
        "smallest: stream is said only when it is off",
        ModelCall(model="m", messages=HI, stream=True),
        {"model": "m", "messages": HI_SENT},
    ),
    Sends(
        "parameters go into options, think does not, and no tool choice",
        ModelCall(
            model="m",
            messages=HI,
            parameters={"num_ctx": 8192, "num_predict": 400, "temperature": 0.5, "think": False},
            tools=(TOOL,),
            tool_choice="required",
        ),
        {
            "model": "m",
            "messages": HI_SENT,
            "options": {"num_ctx": 8192, "num_predict": 400, "temperature": 0.5},
            "think": False,
            "stream": False,
            "tools": [TOOL],
        },
    ),
    Sends(
        "fields of the client win, those that Ollama does not know are left out",
        ModelCall(
            messages=HI,
            stream=True,
            parameters={"num_predict": 400, "temperature": 0.5, "think": True},
            client_parameters={
                "max_tokens": 10,
                "stop": "x",
                "reasoning_effort": "none",
                "keep_alive": "5m",
                "num_ctx": 100,
                "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
                "logit_bias": {"1": 2},
            },
        ),
        {
            "messages": HI_SENT,
            "options": {"num_predict": 10, "temperature": 0.5, "stop": ["x"], "num_ctx": 100},
            "think": False,
            "keep_alive": "5m",
            "format": SCHEMA,
        },
    ),
    Sends(
        "any JSON",
        ModelCall(
            messages=HI,
            stream=True,
            client_parameters={
                "response_format": {"type": "json_object"},
                "reasoning_effort": "medium",
            },
        ),
        {"messages": HI_SENT, "format": "json", "think": True},
    ),
    Sends(
        "plain text is what one gets anyway",
        ModelCall(
            messages=HI, stream=True, client_parameters={"response_format": {"type": "text"}}
        ),
        {"messages": HI_SENT},
    ),
    Sends(
        "C-26: an image is bare base64 on its user message; other roles have none",
        ModelCall(
            stream=True,
            messages=(
                Message("user", "look", images=("data:image/png;base64,iVBORw0KGgo=", "AA")),
                Message("assistant", "yes", images=("BB",)),
            ),
        ),
        {
            "messages": [
                {"role": "user", "content": "look", "images": ["iVBORw0KGgo=", "AA"]},
                {"role": "assistant", "content": "yes"},
            ]
        },
    ),
    Sends(
        "C-12: calls have object arguments, results the name of their tool; roles are Ollama's",
        ModelCall(
            stream=True,
            messages=(
                Message("developer", "a"),
                Message("user", "b"),
                Message(
                    "assistant",
                    tool_calls=(
                        ToolCall(id="1", name="f", arguments='{"x":1}'),
                        ToolCall(id="2", name="g", arguments=""),
                        ToolCall(id="3", name="h", arguments="no JSON"),
                    ),
                ),
                Message("tool", "F", tool_call_id="1"),
                Message("function", "G", name="g"),
                Message("systemMes", "c"),
                Message("assistant"),
            ),
        ),
        {
            "messages": [
                {"role": "system", "content": "a"},
                {"role": "user", "content": "b"},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {"function": {"name": "f", "arguments": {"x": 1}}},
                        {"function": {"name": "g", "arguments": {}}},
                        {"function": {"name": "h", "arguments": {}}},
                    ],
                },
                {"role": "tool", "content": "F", "tool_call_id": "1", "tool_name": "f"},
                {"role": "tool", "content": "G", "tool_name": "g"},
                {"role": "system", "content": "c"},
            ]
        },
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CHATS])
def test_encode_chat(case: Sends) -> None:
    assert ollama_chat.encode_request(case.call) == case.expected


def test_encode_generate() -> None:
    call = ModelCall(
        model="m",
        prompt="[INST] hi [/INST]",
        images=("data:image/png;base64,AA",),
        parameters={"num_predict": 5, "think": "low"},
        stream=True,
    )

    assert ollama_generate.encode_request(call) == {
        "model": "m",
        "prompt": "[INST] hi [/INST]",
        "stream": True,
        "raw": True,
        "images": ["AA"],
        "options": {"num_predict": 5},
        "think": "low",
    }


def test_an_image_that_is_only_an_address_is_refused() -> None:
    call = ModelCall(messages=(Message("user", "look", images=("https://pics.test/a.png",)),))

    with pytest.raises(RequestError, match="image data only"):
        ollama_chat.encode_request(call)
