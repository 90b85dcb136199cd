import json
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.errors import BackendBadReply, BackendError, BackendRejected
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
from Middleware.wire.openai_chat_stream import looks_whole, parse_reply, parse_stream
from tests.fakes.upstream import delta, reply, usage_chunk

VOICE = BackendVoice("fast")
USAGE = Usage(prompt_tokens=26, completion_tokens=3)


def stream(*payloads: Any) -> list[bytes]:
    return [p if isinstance(p, bytes) else json.dumps(p).encode() for p in payloads]


def tool(**fragment: Any) -> dict[str, Any]:
    return delta(tool_calls=[{"index": 0, "type": "function", **fragment}])


@dataclass(frozen=True)
class Streamed:
    id: str
    payloads: list[bytes]
    expected: list[Event]


STOP = Finish("stop")

STREAMED = [
    Streamed(
        "text",
        stream(
            delta("", role="assistant"), delta("Hel"), delta("lo"), delta(None, "stop"), b"[DONE]"
        ),
        [TextDelta("Hel"), TextDelta("lo"), STOP],
    ),
    Streamed("C-02a: no [DONE]", stream(delta("x"), delta(None, "stop")), [TextDelta("x"), STOP]),
    Streamed("[DONE] without a reason", stream(delta("x"), b"[DONE]"), [TextDelta("x"), STOP]),
    Streamed("nothing but [DONE]", stream(b"[DONE]"), [STOP]),
    Streamed(
        "C-03: [DONE] inside a text",
        stream(delta("It ends with "), delta("data: [DONE]"), delta(" here."), delta(None, "stop")),
        [TextDelta("It ends with "), TextDelta("data: [DONE]"), TextDelta(" here."), STOP],
    ),
    Streamed(
        "C-04: role and null first, no content last",
        stream(
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]},
            {"choices": [{"delta": {"content": "test"}}]},
            {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        ),
        [TextDelta("test"), STOP],
    ),
    Streamed(
        "the last chunk has no delta",
        stream(delta("x"), {"choices": [{"index": 0, "finish_reason": "length"}]}),
        [TextDelta("x"), Finish("length")],
    ),
    Streamed(
        "C-14: usage after the end, without choices",
        stream(delta("x"), delta(None, "stop"), usage_chunk(26, 3), b"[DONE]"),
        [TextDelta("x"), Finish("stop", USAGE)],
    ),
    Streamed(
        "usage in the last chunk",
        stream(delta("x"), {**delta(None, "stop"), **usage_chunk(26, 3), **delta(None, "stop")}),
        [TextDelta("x"), Finish("stop", USAGE)],
    ),
    Streamed(
        "usage null in every chunk, numbers that are none",
        stream(
            {**delta("x"), "usage": None},
            {**delta("y"), "usage": {}},
            {**delta(None, "stop"), "usage": {"prompt_tokens": None, "completion_tokens": "3"}},
        ),
        [TextDelta("x"), TextDelta("y"), STOP],
    ),
    Streamed(
        "empty frames, frames without choices, frames that are no objects",
        stream({}, {"choices": []}, b"[1]", b'"x"', delta("x"), delta(None, "stop")),
        [TextDelta("x"), STOP],
    ),
    Streamed(
        "a line of broken JSON is skipped",
        stream(delta("x"), b'{"choices":[{"delta":{"cont', delta("y"), delta(None, "stop")),
        [TextDelta("x"), TextDelta("y"), STOP],
    ),
    Streamed(
        "choices other than the first",
        stream(
            delta("a"),
            {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]},
            {"choices": [{"index": 1, "delta": {}}, {"index": 0, "delta": {"content": "b"}}]},
            delta(None, "stop"),
        ),
        [TextDelta("a"), TextDelta("b"), STOP],
    ),
    Streamed(
        "reasoning under two names",
        stream(
            delta(reasoning_content="a"),
            delta(reasoning="b"),
            delta("", reasoning_content="c"),
            delta("d", reasoning="c", reasoning_content="c"),
            delta(None, "stop"),
        ),
        [
            ReasoningDelta("a"),
            ReasoningDelta("b"),
            ReasoningDelta("c"),
            ReasoningDelta("c"),
            TextDelta("d"),
            STOP,
        ],
    ),
    Streamed(
        "content as parts",
        stream(
            {
                "choices": [
                    {
                        "delta": {
                            "content": [
                                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                                {"type": "text", "text": "a"},
                            ]
                        }
                    }
                ]
            },
            delta(None, "stop"),
        ),
        [ReasoningDelta("hm"), TextDelta("a"), STOP],
    ),
    Streamed(
        "a whole message as one frame",
        stream(reply("Hello", usage=None)),
        [TextDelta("Hello"), Finish("stop", Usage(prompt_tokens=5, completion_tokens=7))],
    ),
    Streamed(
        "a delta and the whole text beside it",
        stream(
            {"choices": [{"delta": {"content": "a"}, "message": {"content": "a"}}]},
            {"choices": [{"delta": {}, "message": {"content": "a"}, "finish_reason": "stop"}]},
        ),
        [TextDelta("a"), STOP],
    ),
    Streamed(
        "C-11: stop after tool calls",
        stream(tool(id="c1", function={"name": "f", "arguments": "{}"}), delta(None, "stop")),
        [ToolCallDelta(0, "{}", "c1", "f"), Finish("tool_calls")],
    ),
    Streamed(
        "C-12: no arguments",
        stream(tool(id="c1", function={"name": "f", "arguments": ""}), delta(None, "tool_calls")),
        [ToolCallDelta(0, "", "c1", "f"), ToolCallDelta(0, "{}"), Finish("tool_calls")],
    ),
    Streamed(
        "a call that was cut by the length",
        stream(tool(id="c1", function={"name": "f", "arguments": '{"a'}), delta(None, "length")),
        [ToolCallDelta(0, '{"a', "c1", "f"), Finish("length")],
    ),
    Streamed(
        "tool calls as the reason, and none there",
        stream(delta("x", "tool_calls")),
        [TextDelta("x"), STOP],
    ),
    Streamed(
        "text and a call in one chunk",
        stream(
            delta(
                "x",
                "tool_calls",
                tool_calls=[{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
            )
        ),
        [TextDelta("x"), ToolCallDelta(0, "{}", "c", "f"), Finish("tool_calls")],
    ),
    Streamed(
        "what comes after [DONE] is not read",
        stream(delta("x", "stop"), b"[DONE]", delta("y")),
        [TextDelta("x"), STOP],
    ),
    Streamed(
        "an error that is null",
        stream({**delta("x", "stop"), "error": None}),
        [TextDelta("x"), STOP],
    ),
    Streamed(
        "half a surrogate pair",
        stream(rb'{"choices":[{"delta":{"content":"\ud800"}}]}', delta(None, "stop")),
        [TextDelta("\ufffd"), STOP],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in STREAMED])
def test_streams_that_servers_send(case: Streamed) -> None:
    assert list(parse_stream(case.payloads, VOICE)) == case.expected


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        *[
            (said, "stop")
            for said in ("stop", "STOP", "end_turn", "eos", "stop_sequence", "wizard")
        ],
        *[(said, "length") for said in ("length", "max_tokens", "model_length")],
        *[(said, "content_filter") for said in ("content_filter", "safety")],
    ],
)
def test_finish_reasons_are_ours(said: str, reason: Any) -> None:
    whole = json.dumps(reply("x", said)).encode()

    assert list(parse_stream(stream(delta("x", said)), VOICE))[-1] == Finish(reason)
    assert parse_reply(whole, VOICE).finish_reason == reason


def test_the_old_form_of_calls_is_understood() -> None:
    payloads = stream(
        delta(function_call={"name": "f", "arguments": '{"a"'}),
        delta(function_call={"arguments": ":1}"}),
        delta(None, "function_call"),
    )

    first, second, finish = parse_stream(payloads, VOICE)

    assert isinstance(first, ToolCallDelta)
    assert first.call_id
    assert (first.name, first.arguments) == ("f", '{"a"')
    assert second == ToolCallDelta(0, ":1}")
    assert finish == Finish("tool_calls")


@pytest.mark.parametrize(
    "payloads",
    [stream(), stream(delta("Hel"), delta("lo")), stream(delta("x", None), usage_chunk(1, 2))],
    ids=["nothing", "C-02b: text", "usage"],
)
def test_a_stream_that_just_ends_was_cut_off(payloads: list[bytes]) -> None:
    with pytest.raises(BackendBadReply, match="in the middle of its answer"):
        list(parse_stream(payloads, VOICE))


@dataclass(frozen=True)
class Failed:
    id: str
    frame: dict[str, Any]
    status: int
    said: str


FAILED = [
    Failed("an object", {"error": {"message": "slow down", "code": 429}}, 429, "slow down"),
    Failed("a text", {"error": "runner broke"}, 502, "runner broke"),
    Failed("beside choices", {"choices": [], "error": {"message": "m"}}, 502, "m"),
    Failed("beside content", {**delta("x"), "error": {"message": "m", "code": 503}}, 503, "m"),
    Failed("vllm", {"object": "error", "message": "too long", "code": 400}, 400, "too long"),
    Failed(
        "anthropic's shape",
        {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
        503,
        "busy",
    ),
    Failed("as the reason", delta(None, "error"), 502, "no reason was given"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in FAILED])
def test_an_error_in_a_frame_fails_with_the_message_of_the_backend(case: Failed) -> None:
    events = parse_stream(stream(delta("Hel"), case.frame, delta(None, "stop")), VOICE)

    assert next(events) == TextDelta("Hel")
    with pytest.raises(BackendRejected) as caught:
        next(events)
    assert caught.value.status == case.status
    assert case.said in caught.value.message


@dataclass(frozen=True)
class Whole:
    id: str
    body: Any
    expected: Reply


WHOLE = [
    Whole(
        "text",
        reply("Hi"),
        Reply(text="Hi", usage=Usage(prompt_tokens=5, completion_tokens=7)),
    ),
    Whole(
        "least",
        {"choices": [{"message": {"content": "Hi"}}]},
        Reply(text="Hi"),
    ),
    Whole(
        "null content and reasoning",
        {"choices": [{"message": {"content": None, "reasoning": "hm"}, "finish_reason": "length"}]},
        Reply(reasoning="hm", finish_reason="length"),
    ),
    Whole(
        "content as parts",
        {
            "choices": [
                {
                    "message": {
                        "content": [
                            {"type": "thinking", "thinking": "hm"},
                            {"type": "text", "text": "a"},
                            "b",
                        ]
                    }
                }
            ]
        },
        Reply(text="ab", reasoning="hm"),
    ),
    Whole(
        "C-11, C-12: calls with stop, object and empty arguments",
        {
            "choices": [
                {
                    "message": {
                        "tool_calls": [
                            {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
                            {"id": "b", "function": {"name": "g", "arguments": ""}},
                        ]
                    },
                    "finish_reason": "stop",
                }
            ]
        },
        Reply(
            tool_calls=(
                ToolCall(id="a", name="f", arguments='{"x":1}'),
                ToolCall(id="b", name="g", arguments="{}"),
            ),
            finish_reason="tool_calls",
        ),
    ),
    Whole(
        "an empty list of calls",
        {"choices": [{"message": {"content": "x", "tool_calls": []}, "finish_reason": "stop"}]},
        Reply(text="x"),
    ),
    Whole(
        "the choice with index 0 is not the first",
        {
            "choices": [
                {"index": 1, "message": {"content": "no"}},
                {"index": 0, "message": {"content": "x"}},
            ]
        },
        Reply(text="x"),
    ),
    Whole("usage of another shape", {**reply("x"), "usage": {"tokens": 5}}, Reply(text="x")),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in WHOLE])
def test_whole_answers_that_servers_send(case: Whole) -> None:
    assert parse_reply(json.dumps(case.body).encode(), VOICE) == case.expected


def test_a_server_that_streams_unasked_is_understood() -> None:
    body = b": hello\n\n" + b"".join(
        b"data: %b\n\n" % payload for payload in stream(delta("Hel"), delta("lo", "stop"))
    )

    assert parse_reply(body, VOICE) == Reply(text="Hello")


@dataclass(frozen=True)
class Useless:
    id: str
    body: bytes
    status: int
    message: str


USELESS = [
    Useless(
        "C-23a",
        b'{"error":{"message":"Rate limit exceeded","code":429}}',
        429,
        "Endpoint 'fast' answered 429: Rate limit exceeded",
    ),
    Useless(
        "C-23b",
        b'{"choices":null,"error":{"message":"bad key","code":401}}',
        502,
        "Endpoint 'fast' answered 401: bad key",
    ),
    Useless("C-23c", b"<html>" + b"x" * 999, 502, "Endpoint 'fast' did not answer with JSON."),
    Useless(
        "C-23d", b"", 502, "Endpoint 'fast' did not answer with JSON but with an empty answer."
    ),
    Useless("C-23e", b'{"choices":[]}', 502, "Endpoint 'fast' sent an answer without choices."),
    Useless("a list", b"[]", 502, "Endpoint 'fast' did not answer with JSON."),
    Useless(
        "choices of nonsense",
        b'{"choices":["x"]}',
        502,
        "Endpoint 'fast' sent an answer without choices.",
    ),
    Useless(
        "no message", b'{"choices":[{}]}', 502, "Endpoint 'fast' sent an answer without a message."
    ),
    Useless(
        "an error as the reason",
        b'{"choices":[{"message":{"content":""},"finish_reason":"error"}]}',
        502,
        "Endpoint 'fast' reported an error: no reason was given",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in USELESS])
def test_an_answer_that_is_none_is_an_error(case: Useless) -> None:
    with pytest.raises(BackendError) as caught:
        parse_reply(case.body, VOICE)

    assert (caught.value.status, caught.value.message) == (case.status, case.message)
    assert len(caught.value.detail or "") <= 200


@pytest.mark.parametrize(
    ("data", "whole"),
    [(b' {"a"', True), (b"[", True), (b"data: {", False), (b": ping", False), (b"<html>", False)],
)
def test_one_json_text_can_be_told_from_a_stream(data: bytes, whole: bool) -> None:
    assert looks_whole(data) is whole
