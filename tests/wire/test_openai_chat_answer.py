import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.core.errors import (
    BackendBadReply,
    BackendRejected,
    InvalidKey,
    MalformedRequest,
    MiddlewareError,
    UnknownModel,
)
from Middleware.core.events import (
    Event,
    Finish,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from Middleware.core.messages import ToolCall
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.framing import SseDecoder
from Middleware.wire.openai_chat import (
    ChunkHead,
    encode_error,
    encode_reply,
    encode_stream,
    encode_stream_event,
    role_chunk,
)
from Middleware.wire.openai_chat_stream import parse_reply, parse_stream

HEAD = ChunkHead("chatcmpl-1", 1700000000, 'bob:"x"')
ENVELOPE = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1700000000,
    "model": 'bob:"x"',
}
VOICE = BackendVoice("fast")


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {**ENVELOPE, "choices": [choice]}


def payloads_of(stream: bytes) -> list[Any]:
    assert stream.endswith(b"data: [DONE]\n\n")
    frames = stream.removesuffix(b"data: [DONE]\n\n").split(b"\n\n")
    assert all(frame.startswith(b"data: ") for frame in frames[:-1])
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames[:-1]]


def test_a_stream_that_every_client_accepts() -> None:
    events: list[Event] = [
        ReasoningDelta("hm"),
        TextDelta('Hel\n"'),
        TextDelta("lö"),
        Finish("stop", Usage(prompt_tokens=1, completion_tokens=2)),
    ]

    stream = b"".join(encode_stream(events, HEAD, include_usage=True))

    assert payloads_of(stream) == [
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "hm"}),
        chunk({"content": 'Hel\n"'}),
        chunk({"content": "lö"}),
        chunk({}, "stop"),
        {
            **ENVELOPE,
            "choices": [],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        },
    ]


def test_who_did_not_ask_for_usage_gets_none() -> None:
    stream = b"".join(encode_stream([Finish("stop", Usage(prompt_tokens=1))], HEAD))

    assert b"usage" not in stream


def test_id_type_and_name_of_a_call_stand_in_its_first_fragment_only() -> None:
    events: list[Event] = [
        ToolCallDelta(0, "", "call_1", "weather"),
        ToolCallDelta(0, '{"city":'),
        ToolCallDelta(0, '"Oslo"}'),
        Finish("tool_calls"),
    ]

    stream = b"".join(encode_stream(events, HEAD))

    first = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": ""},
    }
    assert payloads_of(stream)[1:] == [
        chunk({"tool_calls": [first]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]}),
        chunk({}, "tool_calls"),
    ]


def test_a_failure_on_the_way_ends_the_stream_properly() -> None:
    def events() -> Iterator[Event]:
        yield TextDelta("Hel")
        raise BackendBadReply("fast", "closed the connection.")

    payloads = payloads_of(b"".join(encode_stream(events(), HEAD)))

    assert payloads[1:] == [
        chunk({"content": "Hel"}),
        {
            "error": {
                "message": "Endpoint 'fast' closed the connection.",
                "type": "server_error",
                "param": None,
                "code": "backend_bad_reply",
            }
        },
    ]


def test_a_whole_answer() -> None:
    reply = Reply(text="Hi", reasoning="hm", usage=Usage(prompt_tokens=1, completion_tokens=2))

    assert json.loads(encode_reply(reply, HEAD)) == {
        **ENVELOPE,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi", "reasoning_content": "hm"},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


def test_a_whole_answer_with_a_call_that_has_no_arguments() -> None:
    call = ToolCall(id="c", name="snooze", arguments="")
    body = json.loads(encode_reply(Reply(tool_calls=(call,), finish_reason="tool_calls"), HEAD))

    assert body["choices"][0]["message"] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "snooze", "arguments": "{}"}}
        ],
    }
    assert body["choices"][0]["finish_reason"] == "tool_calls"


def test_an_empty_answer_is_empty_text() -> None:
    assert json.loads(encode_reply(Reply(), HEAD))["choices"][0]["message"]["content"] == ""


@pytest.mark.parametrize(
    ("error", "kind", "param", "code"),
    [
        (MalformedRequest("stop", "is wrong"), "invalid_request_error", "stop", None),
        (UnknownModel("x", ()), "invalid_request_error", "model", "model_not_found"),
        (InvalidKey("no"), "authentication_error", None, "invalid_api_key"),
        (BackendRejected("e", 429, "m"), "rate_limit_error", None, "backend_rejected"),
        (MiddlewareError("x"), "server_error", None, "internal_error"),
    ],
    ids=["malformed", "unknown model", "key", "rate limit", "ours"],
)
def test_errors_have_the_shape_of_the_interface(
    error: MiddlewareError, kind: str, param: str | None, code: str | None
) -> None:
    inner = encode_error(error)["error"]

    assert inner == {
        "message": error.message,
        "type": kind,
        "param": param,
        "code": code or error.code,
    }


def test_half_a_surrogate_pair_cannot_break_a_stream() -> None:
    frame = encode_stream_event(TextDelta("a\ud800"), HEAD)

    assert json.loads(frame.removeprefix(b"data: ")) == chunk({"content": "a\ufffd"})


TEXTS = st.text(min_size=1)
EVENTS = st.lists(TEXTS.map(TextDelta) | TEXTS.map(ReasoningDelta))
USAGES = st.none() | st.builds(
    Usage, prompt_tokens=st.integers(0, 10**9), completion_tokens=st.integers(0, 10**9)
)


def calls_in_fragments(arguments: list[list[str]]) -> list[Event]:
    """Calls whose arguments come in pieces; together they are never blank."""
    events: list[Event] = []
    for index, pieces in enumerate(arguments):
        events.append(ToolCallDelta(index, "", f"c{index}", "f"))
        events += [ToolCallDelta(index, piece) for piece in (*pieces, "{}")]
    return events


@given(EVENTS, st.lists(st.lists(TEXTS, max_size=3), max_size=3), USAGES, st.integers(1, 50))
def test_what_we_encode_we_can_parse(
    events: list[Event], arguments: list[list[str]], usage: Usage | None, size: int
) -> None:
    calls = calls_in_fragments(arguments)
    sent = [*events, *calls, Finish("tool_calls" if calls else "stop", usage)]

    stream = b"".join(encode_stream(sent, HEAD, include_usage=True))
    decoder = SseDecoder()
    payloads = [
        payload
        for at in range(0, len(stream), size)
        for payload in decoder.feed(stream[at : at + size])
    ]

    assert list(parse_stream(payloads, VOICE)) == sent


@given(TEXTS, st.text(), USAGES, st.sampled_from(["stop", "length", "content_filter"]))
def test_what_we_encode_whole_we_can_parse(
    text: str, reasoning: str, usage: Usage | None, reason: Any
) -> None:
    reply = Reply(text=text, reasoning=reasoning, usage=usage, finish_reason=reason)

    assert parse_reply(encode_reply(reply, HEAD), VOICE) == reply


def test_the_role_comes_first() -> None:
    frame = role_chunk(HEAD).removeprefix(b"data: ")

    assert json.loads(frame) == chunk({"role": "assistant", "content": ""})
