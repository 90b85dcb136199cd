from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import ChatRequest, Message
from Middleware.wire.openai_chat import parse_request

MESSAGES = [{"role": "user", "content": "hi"}]
HI = (Message("user", "hi"),)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"$schema": "x"}}}


@dataclass(frozen=True)
class Accepted:
    id: str
    body: dict[str, Any]
    expected: ChatRequest


ACCEPTED = [
    Accepted("smallest", {}, ChatRequest(model="", messages=HI)),
    Accepted(
        "richest",
        {
            "model": "bob:general",
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": [TOOL],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "temperature": 0.5,
            "metadata": {"conversation_id": "c"},
            "foo": 1,
            "store": False,
        },
        ChatRequest(
            model="bob:general",
            messages=HI,
            stream=True,
            include_usage=True,
            tools=(TOOL,),
            tool_choice={"type": "function", "function": {"name": "f"}},
            parameters={"temperature": 0.5},
            metadata={"conversation_id": "c"},
            unknown_fields=("foo", "store"),
        ),
    ),
    Accepted(
        "every optional field as null",
        {
            **dict.fromkeys(("model", "stop", "temperature", "max_tokens", "tools", "tool_choice")),
            **dict.fromkeys(
                ("stream", "stream_options", "response_format", "seed", "n", "metadata")
            ),
            "user": "",
            "logit_bias": {},
        },
        ChatRequest(model="", messages=HI),
    ),
    Accepted(
        "no tools in a list",
        {"tools": [], "tool_choice": "auto"},
        ChatRequest(model="", messages=HI, tool_choice="auto"),
    ),
    Accepted(
        "tools of kinds that only a backend knows",
        {"tools": [{"type": "web_search"}], "tool_choice": "required"},
        ChatRequest(model="", messages=HI, tools=({"type": "web_search"},), tool_choice="required"),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in ACCEPTED])
def test_requests_that_clients_send(case: Accepted) -> None:
    assert parse_request({"messages": MESSAGES, **case.body}) == case.expected


@dataclass(frozen=True)
class Refused:
    id: str
    body: dict[str, Any]
    param: str


REFUSED = [
    Refused("no messages", {"messages": None}, "messages"),
    Refused("a wrong type", {"temperature": "hot"}, "temperature"),
    Refused("a model that is no text", {"model": 5}, "model"),
    Refused("stream as a text", {"stream": "false"}, "stream"),
    Refused("stream as a number", {"stream": 1}, "stream"),
    Refused("stream options", {"stream_options": True}, "stream_options"),
    Refused(
        "usage wish", {"stream_options": {"include_usage": "x"}}, "stream_options.include_usage"
    ),
    Refused("metadata", {"metadata": "x"}, "metadata"),
    Refused("tools as an object", {"tools": {}}, "tools"),
    Refused("tools as a text", {"tools": "f"}, "tools"),
    Refused("a tool that is a text", {"tools": ["f"]}, "tools.0"),
    Refused(
        "a tool without a name", {"tools": [TOOL, {"type": "function"}]}, "tools.1.function.name"
    ),
    Refused("required without tools", {"tool_choice": "required"}, "tool_choice"),
    Refused("unknown word", {"tools": [TOOL], "tool_choice": "always"}, "tool_choice"),
    Refused("a list", {"tools": [TOOL], "tool_choice": []}, "tool_choice"),
    Refused(
        "a tool that was not sent",
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        "tool_choice",
    ),
    Refused(
        "a choice without a name",
        {"tools": [TOOL], "tool_choice": {"type": "function"}},
        "tool_choice.function.name",
    ),
]


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in REFUSED])
def test_what_is_wrong_is_named(case: Refused, streaming: bool) -> None:
    with pytest.raises(MalformedRequest) as caught:
        parse_request({"messages": MESSAGES, "stream": streaming, **case.body})

    assert (caught.value.param, caught.value.status) == (case.param, 400)
