from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import Message, ToolCall
from Middleware.wire.openai_messages import parse_messages

USER = {"role": "user", "content": "hi"}


def calling(arguments: Any, **others: Any) -> dict[str, Any]:
    call = {"id": "t1", "type": "function", "function": {"name": "add", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call], **others}


@dataclass(frozen=True)
class Accepted:
    id: str
    messages: list[Any]
    expected: tuple[Message, ...]


ADD = ToolCall(id="t1", name="add", arguments='{"a":2}')

ACCEPTED = [
    Accepted("smallest", [USER], (Message("user", "hi"),)),
    Accepted("system only", [{"role": "system", "content": "x"}], (Message("system", "x"),)),
    Accepted(
        "assistant first and last",
        [{"role": "assistant", "content": "x"}],
        (Message("assistant", "x"),),
    ),
    Accepted("null is empty text", [{"role": "user", "content": None}], (Message("user"),)),
    Accepted("no parts are empty text", [{"role": "user", "content": []}], (Message("user"),)),
    Accepted(
        "parts of text are lines",
        [
            {
                "role": role,
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            }
            for role in ("system", "user", "assistant", "tool")
        ],
        tuple(Message(role, "a\nb") for role in ("system", "user", "assistant", "tool")),
    ),
    Accepted(
        "kinds of text parts",
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "a", "cache_control": {"type": "ephemeral"}},
                    {"type": "output_text", "text": "b"},
                    {"type": "refusal", "refusal": "c"},
                    {"type": "thinking", "thinking": "left out"},
                    {"type": "text", "text": None},
                    "d",
                ],
            }
        ],
        (Message("user", "a\nb\nc\n\nd"),),
    ),
    Accepted(
        "images",
        [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                    {"type": "text", "text": "what?"},
                    {"type": "input_image", "image_url": "https://pics.test/a.png"},
                    {"type": "image", "source": {"type": "base64", "data": "BB=="}},
                    {"type": "image", "source": {"type": "url", "url": "https://pics.test/b"}},
                ],
            }
        ],
        (
            Message(
                "user",
                "what?",
                (
                    "data:image/png;base64,AA==",
                    "https://pics.test/a.png",
                    "data:image/png;base64,BB==",
                    "https://pics.test/b",
                ),
            ),
        ),
    ),
    Accepted(
        "litellm sends an empty list of images", [{**USER, "images": []}], (Message("user", "hi"),)
    ),
    Accepted(
        "tool calls and their result",
        [
            calling('{"a":2}'),
            {"role": "tool", "tool_call_id": "t1", "content": "5", "name": "add"},
        ],
        (
            Message("assistant", "", (), (ADD,)),
            Message("tool", "5", (), (), "t1", "add"),
        ),
    ),
    Accepted(
        "tool calls without the key content",
        [{key: value for key, value in calling('{"a":2}').items() if key != "content"}],
        (Message("assistant", "", (), (ADD,)),),
    ),
    Accepted(
        "arguments as an object",
        [calling({"a": 2})],
        (Message("assistant", "", (), (ADD,)),),
    ),
    Accepted(
        "no arguments in three spellings",
        [calling(""), calling(None), calling(" ")],
        (Message("assistant", "", (), (ToolCall(id="t1", name="add", arguments="{}"),)),) * 3,
    ),
    Accepted(
        "half a surrogate pair in arguments",
        [calling(r'{"a":"\ud800"}')],
        (
            Message(
                "assistant", "", (), (ToolCall(id="t1", name="add", arguments='{"a":"\ufffd"}'),)
            ),
        ),
    ),
    Accepted(
        "a call without an id gets one",
        [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}],
        (Message("assistant", "", (), (ToolCall(id="call_0_0", name="f", arguments="{}"),)),),
    ),
    Accepted(
        "no tool calls",
        [{**USER, "tool_calls": None}, {**USER, "tool_calls": []}],
        (Message("user", "hi"), Message("user", "hi")),
    ),
    Accepted(
        "unknown keys",
        [{**USER, "reasoning_content": "x", "foo": {"bar": 1}}],
        (Message("user", "hi"),),
    ),
    Accepted(
        "every role",
        [{"role": role, "content": "x"} for role in ("developer", "function", "systemMes")],
        tuple(Message(role, "x") for role in ("developer", "function", "systemMes")),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in ACCEPTED])
def test_messages_that_clients_send(case: Accepted) -> None:
    assert parse_messages(case.messages) == case.expected


@dataclass(frozen=True)
class Refused:
    id: str
    messages: Any
    param: str


REFUSED = [
    Refused("absent", None, "messages"),
    Refused("empty", [], "messages"),
    Refused("an object", {}, "messages"),
    Refused("a text", "hi", "messages"),
    Refused("a list of texts", ["hi"], "messages.0"),
    Refused("an empty message", [{}], "messages.0.role"),
    Refused("no content", [{"role": "user"}], "messages.0.content"),
    Refused("no content, system", [USER, {"role": "system"}], "messages.1.content"),
    Refused("unknown role", [{"role": "wizard", "content": "x"}], "messages.0.role"),
    Refused("a role that is no text", [{"role": ["user"], "content": "x"}], "messages.0.role"),
    Refused("content of a wrong type", [{"role": "user", "content": 5}], "messages.0.content"),
    Refused("a part that is a number", [{"role": "user", "content": [5]}], "messages.0.content.0"),
    Refused(
        "unknown kind of part",
        [
            USER,
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_audio"}]},
        ],
        "messages.1.content.1.type",
    ),
    Refused(
        "a kind that is no text",
        [{"role": "user", "content": [{"type": []}]}],
        "messages.0.content.0.type",
    ),
    Refused(
        "a part without a kind", [{"role": "user", "content": [{}]}], "messages.0.content.0.type"
    ),
    Refused(
        "a part of text without text",
        [{"role": "user", "content": [{"type": "text"}]}],
        "messages.0.content.0.text",
    ),
    Refused(
        "an image without an address",
        [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
        "messages.0.content.0.image_url",
    ),
    Refused(
        "an image without a source",
        [{"role": "user", "content": [{"type": "image"}]}],
        "messages.0.content.0.source",
    ),
    Refused(
        "arguments that are no JSON",
        [USER, calling('{"path":"a.rs"}{"path":"b.rs"}')],
        "messages.1.tool_calls.0.function.arguments",
    ),
    Refused(
        "tool calls that are no list", [calling("{}", tool_calls={"a": 1})], "messages.0.tool_calls"
    ),
    Refused(
        "a call without a function",
        [calling("{}", tool_calls=[{"id": "x"}])],
        "messages.0.tool_calls.0.function",
    ),
    Refused(
        "a call without a name",
        [calling("{}", tool_calls=[{"function": {"arguments": "{}"}}])],
        "messages.0.tool_calls.0.function.name",
    ),
    Refused(
        "an id that is no text",
        [{"role": "tool", "content": "x", "tool_call_id": 5}],
        "messages.0.tool_call_id",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in REFUSED])
def test_what_is_wrong_is_named(case: Refused) -> None:
    with pytest.raises(MalformedRequest) as caught:
        parse_messages(case.messages)

    assert caught.value.param == case.param
