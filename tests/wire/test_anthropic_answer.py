import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given

from Middleware.core.errors import (
    BackendBadReply,
    BackendRejected,
    BackendTimeout,
    BackendUnreachable,
    InvalidKey,
    MalformedRequest,
    MiddlewareError,
    ServerStopping,
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
    collect,
)
from Middleware.core.messages import ToolCall
from Middleware.wire import anthropic_messages
from Middleware.wire.framing import SseDecoder
from tests.wire.answers import BROKEN, VOICE, answers, cuts, pieces

USAGE = Usage(prompt_tokens=3, completion_tokens=4)


def stream() -> anthropic_messages.AnswerStream:
    return anthropic_messages.AnswerStream("msg_1", "bob", input_tokens=9)


def frames(data: bytes) -> list[dict[str, Any]]:
    """The payloads, after checking that each frame names its event: clients read that name."""
    events = SseDecoder().feed_events(data)
    payloads = [json.loads(event.data) for event in events]
    assert [event.name for event in events] == [payload["type"] for payload in payloads]
    return payloads


def message(usage: dict[str, int], **fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "bob",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
        **fields,
    }


START = {"type": "message_start", "message": message({"input_tokens": 9, "output_tokens": 0})}
STOP = {"type": "message_stop"}


def begins(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, type_: str, key: str, text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type_, key: text}}


def ends(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str) -> dict[str, Any]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }


def tool(id_: str, name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": {}}


TEXT = {"type": "text", "text": ""}
THINKING = {"type": "thinking", "thinking": "", "signature": ""}


@dataclass(frozen=True)
class Streamed:
    id: str
    events: list[Event]
    expected: list[dict[str, Any]]


STREAMED = [
    Streamed(
        "thought, then text",
        [ReasoningDelta("h"), ReasoningDelta("m"), TextDelta('H"é'), Finish("stop", USAGE)],
        [
            START,
            begins(0, THINKING),
            delta(0, "thinking_delta", "thinking", "h"),
            delta(0, "thinking_delta", "thinking", "m"),
            delta(0, "signature_delta", "signature", "unsigned"),
            ends(0),
            begins(1, TEXT),
            delta(1, "text_delta", "text", 'H"é'),
            ends(1),
            end("end_turn"),
            STOP,
        ],
    ),
    Streamed(
        "text, then two calls one after the other",
        [
            TextDelta("ok"),
            ToolCallDelta(0, "", "c1", "f"),
            ToolCallDelta(0, '{"x"'),
            ToolCallDelta(0, ":1}"),
            ToolCallDelta(1, "{}", "c2", "g"),
            Finish("tool_calls", USAGE),
        ],
        [
            START,
            begins(0, TEXT),
            delta(0, "text_delta", "text", "ok"),
            ends(0),
            begins(1, tool("c1", "f")),
            delta(1, "input_json_delta", "partial_json", '{"x"'),
            delta(1, "input_json_delta", "partial_json", ":1}"),
            ends(1),
            begins(2, tool("c2", "g")),
            delta(2, "input_json_delta", "partial_json", "{}"),
            ends(2),
            end("tool_use"),
            STOP,
        ],
    ),
    Streamed(
        "two calls by turns: a block stays open until its arguments are whole",
        [
            ToolCallDelta(0, '{"x"', "c1", "f"),
            ToolCallDelta(1, "{", "c2", "g"),
            ToolCallDelta(0, ":1}"),
            ToolCallDelta(1, "}"),
            Finish("tool_calls", USAGE),
        ],
        [
            START,
            begins(0, tool("c1", "f")),
            delta(0, "input_json_delta", "partial_json", '{"x"'),
            begins(1, tool("c2", "g")),
            delta(1, "input_json_delta", "partial_json", "{"),
            delta(0, "input_json_delta", "partial_json", ":1}"),
            delta(1, "input_json_delta", "partial_json", "}"),
            ends(0),
            ends(1),
            end("tool_use"),
            STOP,
        ],
    ),
    Streamed(
        "an empty answer has an empty text",
        [Finish("length", USAGE)],
        [START, begins(0, TEXT), ends(0), end("max_tokens"), STOP],
    ),
    Streamed(
        "so has one of thoughts only",
        [ReasoningDelta("hm"), Finish("stop", USAGE)],
        [
            START,
            begins(0, THINKING),
            delta(0, "thinking_delta", "thinking", "hm"),
            delta(0, "signature_delta", "signature", "unsigned"),
            ends(0),
            begins(1, TEXT),
            ends(1),
            end("end_turn"),
            STOP,
        ],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in STREAMED])
def test_frames_of_a_stream(case: Streamed) -> None:
    assert frames(b"".join(map(stream().event, case.events))) == case.expected


def test_heartbeats_are_pings_behind_the_start() -> None:
    writer = stream()

    assert frames(writer.heartbeat()) == [START, {"type": "ping"}]
    assert frames(writer.heartbeat()) == [{"type": "ping"}]
    assert frames(writer.event(TextDelta("a")))[0] == begins(0, TEXT)


def test_a_failure_is_the_last_frame() -> None:
    writer = stream()
    writer.event(TextDelta("a"))

    assert frames(writer.failure(BROKEN)) == [
        {"type": "error", "error": {"type": "invalid_request_error", "message": "It broke."}}
    ]


def test_usage_that_nobody_told_is_the_estimate() -> None:
    (*_, last, _) = frames(stream().event(Finish("stop")))

    assert last["usage"] == {"input_tokens": 9, "output_tokens": 0}


@dataclass(frozen=True)
class Whole:
    id: str
    reply: Reply
    expected: dict[str, Any]


COUNTED = {"input_tokens": 3, "output_tokens": 4}
WHOLE = [
    Whole(
        "text",
        Reply(text="Hi", usage=USAGE),
        message(COUNTED, content=[{"type": "text", "text": "Hi"}], stop_reason="end_turn"),
    ),
    Whole(
        "everything",
        Reply(
            text="Hi",
            reasoning="hm",
            tool_calls=(
                ToolCall(id="a", name="f", arguments='{"x":1}'),
                ToolCall(id="b", name="g", arguments="no JSON"),
            ),
            finish_reason="tool_calls",
            usage=USAGE,
        ),
        message(
            COUNTED,
            content=[
                {"type": "thinking", "thinking": "hm", "signature": "unsigned"},
                {"type": "text", "text": "Hi"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
                {"type": "tool_use", "id": "b", "name": "g", "input": {}},
            ],
            stop_reason="tool_use",
        ),
    ),
    Whole(
        "nothing",
        Reply(finish_reason="content_filter", usage=USAGE),
        message(COUNTED, content=[{"type": "text", "text": ""}], stop_reason="refusal"),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in WHOLE])
def test_whole_answers(case: Whole) -> None:
    assert json.loads(stream().reply(case.reply)) == case.expected


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MalformedRequest("model", "is missing"), "invalid_request_error"),
        (InvalidKey("no"), "authentication_error"),
        (UnknownModel("x", ()), "not_found_error"),
        (BackendRejected("fast", 429, "slow down"), "rate_limit_error"),
        (BackendRejected("fast", 529, "busy"), "overloaded_error"),
        (ServerStopping(), "overloaded_error"),
        (BackendUnreachable("fast"), "api_error"),
        (BackendTimeout("fast", 5), "timeout_error"),
        (BackendBadReply("fast", "sent nonsense"), "api_error"),
        (MiddlewareError("ours"), "api_error"),
    ],
)
def test_error_types(error: MiddlewareError, kind: str) -> None:
    assert anthropic_messages.encode_error(error) == {
        "type": "error",
        "error": {"type": kind, "message": error.message},
    }


def test_the_model_list() -> None:
    assert anthropic_messages.encode_models(["a", "b"], 1_700_000_000) == {
        "data": [
            {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": "2023-11-14T22:13:20Z",
            }
            for name in ("a", "b")
        ],
        "has_more": False,
        "first_id": "a",
        "last_id": "b",
    }
    assert anthropic_messages.encode_models([], 0)["first_id"] is None


@given(answers(), cuts)
def test_what_we_encode_we_can_parse(events: list[Event], places: list[int]) -> None:
    writer = stream()
    data = writer.heartbeat() + b"".join(map(writer.event, events))
    decoder = SseDecoder()

    payloads = [payload for piece in pieces(data, places) for payload in decoder.feed(piece)]

    assert collect(anthropic_messages.parse_stream(payloads, VOICE)) == collect(events)


@given(answers())
def test_what_we_encode_whole_we_can_parse(events: list[Event]) -> None:
    reply = collect(events)

    assert anthropic_messages.parse_reply(stream().reply(reply), VOICE) == reply


def test_a_failure_can_be_parsed() -> None:
    writer = stream()
    data = writer.event(TextDelta("Yes")) + writer.failure(BackendRejected("x", 529, "busy"))

    events = anthropic_messages.parse_stream(SseDecoder().feed(data), VOICE)

    assert next(events) == TextDelta("Yes")
    with pytest.raises(BackendRejected, match="busy") as caught:
        next(events)
    assert caught.value.status == 503
