import json
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.errors import BackendBadReply, BackendRejected
from Middleware.core.events import (
    Event,
    Finish,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCallDelta,
    Usage,
    collect,
)
from Middleware.core.messages import ToolCall
from Middleware.wire.anthropic_stream import StreamParser, parse_reply, parse_stream
from Middleware.wire.payload_parser import parse_payloads
from tests.wire.answers import VOICE


@dataclass(frozen=True)
class Says:
    id: str
    payloads: list[dict[str, Any]]
    expected: list[Event]


def start(**usage: int) -> dict[str, Any]:
    return {"type": "message_start", "message": {"usage": usage}}


def block(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


STOP = {"type": "message_stop"}
SAYS = [
    Says(
        "thoughts, text, counts with the cache's",
        [
            start(input_tokens=10, cache_read_input_tokens=5, cache_creation_input_tokens=1),
            {"type": "ping"},
            block(0, type="thinking", thinking=""),
            delta(0, type="thinking_delta", thinking="hm"),
            delta(0, type="signature_delta", signature="s"),
            stop(0),
            block(1, type="text", text=""),
            delta(1, type="text_delta", text="Hi"),
            stop(1),
            end("end_turn", output_tokens=7),
            STOP,
        ],
        [
            ReasoningDelta("hm"),
            TextDelta("Hi"),
            Finish("stop", Usage(prompt_tokens=16, completion_tokens=7)),
        ],
    ),
    Says(
        "calls count up in the order in which they begin; empty ones get an object",
        [
            block(0, type="text", text=""),
            stop(0),
            block(1, type="tool_use", id="a", name="f", input={}),
            delta(1, type="input_json_delta", partial_json=""),
            delta(1, type="input_json_delta", partial_json='{"x":'),
            delta(1, type="input_json_delta", partial_json="1}"),
            stop(1),
            block(2, type="tool_use", id="b", name="g", input={}),
            stop(2),
            end("tool_use"),
            STOP,
        ],
        [
            ToolCallDelta(0, "", "a", "f"),
            ToolCallDelta(0, '{"x":'),
            ToolCallDelta(0, "1}"),
            ToolCallDelta(1, "", "b", "g"),
            ToolCallDelta(1, "{}"),
            Finish("tool_calls"),
        ],
    ),
    Says(
        "missing pieces: no id, no stop of the block, no end but a reason",
        [block(0, type="tool_use", name="f"), end("end_turn")],
        [ToolCallDelta(0, "", "new", "f"), ToolCallDelta(0, "{}"), Finish("tool_calls")],
    ),
    Says(
        "whole arguments at once; text in the block itself",
        [
            block(0, type="text", text="Hi"),
            block(1, type="tool_use", id="a", name="f", input={"x": 1}),
            stop(1),
            end("max_tokens"),
            STOP,
        ],
        [TextDelta("Hi"), ToolCallDelta(0, '{"x":1}', "a", "f"), Finish("length")],
    ),
    Says(
        "a text whose block never began, odd payloads, nothing after the end",
        [
            delta(3, type="text_delta", text="Hi"),
            delta(4, type="input_json_delta", partial_json="{}"),
            {"type": "content_block_delta", "delta": None},
            {"type": "content_block_start"},
            {"type": "of_the_future"},
            {},
            STOP,
            delta(3, type="text_delta", text="late"),
        ],
        [TextDelta("Hi"), Finish("stop")],
    ),
]


def parser() -> StreamParser:
    return StreamParser(VOICE, lambda: "new")


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SAYS])
def test_parse_stream(case: Says) -> None:
    payloads = [json.dumps(payload).encode() for payload in case.payloads]

    assert list(parse_payloads(payloads, parser())) == case.expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("of_the_future", "stop"),
        ("tool_use", "stop"),
    ],
)
def test_stop_reasons_become_ours(said: str, expected: str) -> None:
    """Without a call, ``tool_use`` is a stop: nobody could wait for a result."""
    payload = json.dumps(end(said)).encode()

    assert collect(parse_stream([payload], VOICE)).finish_reason == expected


def test_an_error_event_comes_after_the_text_so_far() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    payloads = [json.dumps(delta(0, type="text_delta", text="Yes")), json.dumps(error)]

    events = parse_stream([payload.encode() for payload in payloads], VOICE)

    assert next(events) == TextDelta("Yes")
    with pytest.raises(BackendRejected, match="Overloaded") as caught:
        next(events)
    assert caught.value.status == 503


def test_a_stream_that_just_ends_was_cut_off() -> None:
    with pytest.raises(BackendBadReply, match="middle of its answer"):
        collect(parse_stream([json.dumps(block(0, type="text", text="Hi")).encode()], VOICE))


def test_a_stray_done_is_harmless() -> None:
    assert collect(parse_stream([b"[DONE]", json.dumps(STOP).encode()], VOICE)) == Reply()


def test_a_whole_answer() -> None:
    body = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b"},
            {"type": "server_tool_use", "id": "s", "name": "web", "input": {"q": 1}},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}},
            {"type": "tool_use", "id": "u", "name": "g", "input": {}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }

    assert parse_reply(json.dumps(body).encode(), VOICE) == Reply(
        text="ab",
        reasoning="hm",
        tool_calls=(
            ToolCall(id="t", name="f", arguments='{"x":1}'),
            ToolCall(id="u", name="g", arguments="{}"),
        ),
        finish_reason="tool_calls",
        usage=Usage(prompt_tokens=1, completion_tokens=2),
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"content":"text"}'])
def test_a_whole_answer_that_is_none(body: bytes) -> None:
    with pytest.raises(BackendBadReply):
        parse_reply(body, VOICE)


def test_an_error_at_status_200() -> None:
    body = b'{"type":"error","error":{"type":"authentication_error","message":"bad key"}}'

    with pytest.raises(BackendRejected, match="bad key") as caught:
        parse_reply(body, VOICE)
    assert caught.value.status == 502
