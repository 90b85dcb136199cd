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
from Middleware.wire.openai_responses_stream import StreamParser, parse_reply, parse_stream
from Middleware.wire.payload_parser import parse_payloads
from tests.wire.answers import VOICE


def said(type_: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{type_}", **fields}


def delta(index: int, text: str, type_: str = "output_text.delta") -> dict[str, Any]:
    return said(type_, output_index=index, delta=text)


def item(type_: str, index: int, **fields: Any) -> dict[str, Any]:
    return said(f"output_item.{type_}", output_index=index, item=fields)


def end(*output: dict[str, Any], type_: str = "completed", **fields: Any) -> dict[str, Any]:
    return said(type_, response={"output": list(output), **fields})


CALL = {"type": "function_call", "call_id": "c", "name": "f"}
OTHER = {"type": "function_call", "call_id": "d", "name": "g"}
TEXT = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
THOUGHT = {"type": "reasoning", "summary": [{"text": "a"}, {"text": "b"}]}


@dataclass(frozen=True)
class Says:
    id: str
    payloads: list[dict[str, Any]]
    expected: list[Event]


SAYS = [
    Says(
        "piece by piece, and nothing twice",
        [
            said("created"),
            item("added", 0, type="reasoning"),
            delta(0, "hm", "reasoning_summary_text.delta"),
            item("done", 0, **THOUGHT),
            item("added", 1, type="message"),
            delta(1, "H"),
            delta(1, "i"),
            item("done", 1, **TEXT),
            item("added", 2, **CALL, arguments=""),
            delta(2, '{"x":', "function_call_arguments.delta"),
            delta(2, "1}", "function_call_arguments.delta"),
            said("function_call_arguments.done", output_index=2, arguments='{"x":1}'),
            item("done", 2, **CALL, arguments='{"x":1}'),
            end(
                THOUGHT,
                TEXT,
                {**CALL, "arguments": '{"x":1}'},
                usage={"input_tokens": 1, "output_tokens": 2},
            ),
        ],
        [
            ReasoningDelta("hm"),
            TextDelta("H"),
            TextDelta("i"),
            ToolCallDelta(0, "", "c", "f"),
            ToolCallDelta(0, '{"x":'),
            ToolCallDelta(0, "1}"),
            Finish("tool_calls", Usage(prompt_tokens=1, completion_tokens=2)),
        ],
    ),
    Says(
        "only finished items",
        [
            item("done", 0, **THOUGHT),
            item("done", 1, **TEXT),
            item("done", 2, **CALL, arguments='{"x":1}'),
            end(THOUGHT, TEXT, {**CALL, "arguments": '{"x":1}'}),
        ],
        [
            ReasoningDelta("a\n\nb"),
            TextDelta("Hi"),
            ToolCallDelta(0, "", "c", "f"),
            ToolCallDelta(0, '{"x":1}'),
            Finish("tool_calls"),
        ],
    ),
    Says(
        "only the finished response",
        [end(THOUGHT, TEXT, TEXT, {**CALL, "arguments": {"x": 1}}, OTHER)],
        [
            ReasoningDelta("a\n\nb"),
            TextDelta("Hi"),
            TextDelta("Hi"),
            ToolCallDelta(0, "", "c", "f"),
            ToolCallDelta(0, '{"x":1}'),
            ToolCallDelta(1, "", "d", "g"),
            ToolCallDelta(1, "{}"),
            Finish("tool_calls"),
        ],
    ),
    Says(
        "every item has the same index",
        [
            item("added", 0, type="message"),
            delta(0, "Hi"),
            item("done", 0, **TEXT),
            item("added", 0, **CALL),
            delta(0, "{}", "function_call_arguments.delta"),
            item("done", 0, **CALL, arguments="{}"),
            item("added", 0, **OTHER),
            delta(0, "[]", "function_call_arguments.delta"),
            end(TEXT, CALL, OTHER),
        ],
        [
            TextDelta("Hi"),
            ToolCallDelta(0, "", "c", "f"),
            ToolCallDelta(0, "{}"),
            ToolCallDelta(1, "", "d", "g"),
            ToolCallDelta(1, "[]"),
            Finish("tool_calls"),
        ],
    ),
    Says(
        "a call without an id, a thought told twice, a refusal",
        [
            delta(0, "as it is", "reasoning_text.delta"),
            delta(0, "summed up", "reasoning_summary_text.delta"),
            delta(1, "No.", "refusal.delta"),
            item("added", 2, type="function_call", name="f"),
            end(),
        ],
        [
            ReasoningDelta("as it is"),
            TextDelta("No."),
            ToolCallDelta(0, "", "new", "f"),
            ToolCallDelta(0, "{}"),
            Finish("tool_calls"),
        ],
    ),
    Says(
        "cut by length",
        [
            delta(0, "a"),
            end(type_="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        ],
        [TextDelta("a"), Finish("length")],
    ),
    Says(
        "filtered",
        [end(type_="incomplete", incomplete_details={"reason": "content_filter"})],
        [Finish("content_filter")],
    ),
    Says(
        "odd payloads, and nothing after the end",
        [
            {"type": "keepalive"},
            {},
            delta(0, ""),
            said("output_item.added"),
            said("output_item.done", item=5),
            said("completed"),
            delta(0, "late"),
        ],
        [Finish("stop")],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SAYS])
def test_parse_stream(case: Says) -> None:
    payloads = [json.dumps(payload).encode() for payload in case.payloads]

    assert list(parse_payloads(payloads, StreamParser(VOICE, lambda: "new"))) == case.expected


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (
            said("failed", response={"error": {"code": "rate_limit_exceeded", "message": "slow"}}),
            429,
        ),
        (said("failed", response={"error": {"code": "server_error", "message": "slow"}}), 502),
        (said("failed", response={}), 502),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, 429),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "slow"}}, 400),
        ({"error": {"code": 429, "message": "slow"}}, 429),
    ],
)
def test_errors_in_a_stream(payload: dict[str, Any], status: int) -> None:
    payloads = [json.dumps(delta(0, "Yes")).encode(), json.dumps(payload).encode()]

    events = parse_stream(payloads, VOICE)

    assert next(events) == TextDelta("Yes")
    with pytest.raises(BackendRejected) as caught:
        next(events)
    assert caught.value.status == status


@pytest.mark.parametrize("last", [delta(0, "Hi"), item("done", 0, **TEXT)])
def test_a_stream_that_just_ends_was_cut_off(last: dict[str, Any]) -> None:
    with pytest.raises(BackendBadReply, match="middle of its answer"):
        collect(parse_stream([json.dumps(last).encode(), b"[DONE]"], VOICE))


def test_a_whole_answer() -> None:
    body = {
        "object": "response",
        "status": "completed",
        "error": None,
        "output": [THOUGHT, {"type": "web_search_call"}, TEXT, {**CALL, "arguments": "{}"}],
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }

    assert parse_reply(json.dumps(body).encode(), VOICE) == Reply(
        text="Hi",
        reasoning="a\n\nb",
        tool_calls=(ToolCall(id="c", name="f", arguments="{}"),),
        finish_reason="tool_calls",
        usage=Usage(prompt_tokens=1, completion_tokens=2),
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"output":"text"}'])
def test_a_whole_answer_that_is_none(body: bytes) -> None:
    with pytest.raises(BackendBadReply):
        parse_reply(body, VOICE)


@pytest.mark.parametrize(
    "body", [b'{"status":"failed","output":[]}', b'{"error":{"message":"bad key","code":401}}']
)
def test_a_whole_answer_that_failed(body: bytes) -> None:
    with pytest.raises(BackendRejected) as caught:
        parse_reply(body, VOICE)

    assert caught.value.status == 502
