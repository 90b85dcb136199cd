import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given

from Middleware.core.errors import (
    BackendBadReply,
    BackendRejected,
    MiddlewareError,
    RunCancelled,
    ServerStopping,
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
from Middleware.core.messages import Message, ToolCall
from Middleware.wire import openai_responses
from Middleware.wire.framing import SseDecoder
from Middleware.wire.openai_responses import AnswerStream, ResponseHead
from tests.wire.answers import BROKEN, VOICE, answers, cuts, pieces

USAGE = Usage(prompt_tokens=3, completion_tokens=4)
USAGE_TOLD = {
    "input_tokens": 3,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 7,
}
TOOLS = [
    {
        "type": "namespace",
        "name": "mcp__files",
        "tools": [{"type": "function", "name": "read", "parameters": {}}],
    }
]


def stream(**fields: Any) -> AnswerStream:
    asked = openai_responses.parse_request({"model": "m", "input": "hi", **fields})
    return AnswerStream(
        ResponseHead(id="resp_1", created_at=1_700_000_000, model="bob", asked=asked)
    )


def response(status: str, output: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "bob",
        "output": output,
        "usage": None,
        "conversation": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "background": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "user": None,
        **fields,
    }


def frames(data: bytes) -> list[dict[str, Any]]:
    events = SseDecoder().feed_events(data)
    payloads = [json.loads(event.data) for event in events]
    assert [event.name for event in events] == [payload["type"] for payload in payloads]
    return payloads


def told(data: bytes) -> list[dict[str, Any]]:
    """The payloads without their common beginning, numbers checked and taken off."""
    payloads = frames(data)
    assert [payload.pop("sequence_number") for payload in payloads] == list(range(len(payloads)))
    assert [payload["type"] for payload in payloads[:2]] == [
        "response.created",
        "response.in_progress",
    ]
    for payload in payloads:
        payload["type"] = payload["type"].removeprefix("response.")
    return payloads[2:]


def message(text: str, status: str = "completed", place: int = 0) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": f"msg_1_{place}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [part],
    }


def call(place: int, arguments: str, status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {
        "id": f"fc_1_{place}",
        "type": "function_call",
        "status": status,
        "arguments": arguments,
        "call_id": f"c{place}",
        "name": "f",
        **fields,
    }


def added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "output_item.added", "output_index": index, "item": item}


def done(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "output_item.done", "output_index": index, "item": item}


def at(index: int, id_: str, **fields: Any) -> dict[str, Any]:
    return {"item_id": id_, "output_index": index, **fields}


def text_frames(index: int, *texts: str, status: str = "completed") -> list[dict[str, Any]]:
    here = at(index, f"msg_1_{index}", content_index=0)
    whole = message("".join(texts), status, index)
    empty = {**whole, "status": "in_progress", "content": []}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return [
        added(index, empty),
        {"type": "content_part.added", **here, "part": part},
        *({"type": "output_text.delta", **here, "delta": text, "logprobs": []} for text in texts),
        {"type": "output_text.done", **here, "text": "".join(texts), "logprobs": []},
        {"type": "content_part.done", **here, "part": whole["content"][0]},
        done(index, whole),
    ]


@dataclass(frozen=True)
class Streamed:
    id: str
    events: list[Event]
    expected: list[dict[str, Any]]


THOUGHT_AT = at(0, "rs_1_0", summary_index=0)
THOUGHT = {
    "id": "rs_1_0",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "status": "completed",
}


STREAMED = [
    Streamed(
        "thought, then text",
        [ReasoningDelta("hm"), TextDelta('H"é'), TextDelta("i"), Finish("stop", USAGE)],
        [
            added(0, {**THOUGHT, "summary": [], "status": "in_progress"}),
            {
                "type": "reasoning_summary_part.added",
                **THOUGHT_AT,
                "part": {"type": "summary_text", "text": ""},
            },
            {"type": "reasoning_summary_text.delta", **THOUGHT_AT, "delta": "hm"},
            {"type": "reasoning_summary_text.done", **THOUGHT_AT, "text": "hm"},
            {
                "type": "reasoning_summary_part.done",
                **THOUGHT_AT,
                "part": {"type": "summary_text", "text": "hm"},
            },
            done(0, THOUGHT),
            *text_frames(1, 'H"é', "i"),
            {
                "type": "completed",
                "response": response(
                    "completed", [THOUGHT, message('H"éi', place=1)], usage=USAGE_TOLD
                ),
            },
        ],
    ),
    Streamed(
        "cut by length",
        [TextDelta("a"), Finish("length", USAGE)],
        [
            *text_frames(0, "a", status="incomplete"),
            {
                "type": "incomplete",
                "response": response(
                    "incomplete",
                    [message("a", "incomplete")],
                    incomplete_details={"reason": "max_output_tokens"},
                    usage=USAGE_TOLD,
                ),
            },
        ],
    ),
    Streamed(
        "an empty answer is an empty message",
        [Finish("stop")],
        [
            *text_frames(0),
            {"type": "completed", "response": response("completed", [message("")])},
        ],
    ),
    Streamed(
        "two calls by turns, and one without arguments",
        [
            ToolCallDelta(0, '{"x"', "c0", "f"),
            ToolCallDelta(1, "{}", "c1", "f"),
            ToolCallDelta(0, ":1}"),
            ToolCallDelta(2, "", "c2", "f"),
            Finish("tool_calls", USAGE),
        ],
        [
            added(0, call(0, "", "in_progress")),
            {"type": "function_call_arguments.delta", **at(0, "fc_1_0"), "delta": '{"x"'},
            added(1, call(1, "", "in_progress")),
            {"type": "function_call_arguments.delta", **at(1, "fc_1_1"), "delta": "{}"},
            {"type": "function_call_arguments.delta", **at(0, "fc_1_0"), "delta": ":1}"},
            {
                "type": "function_call_arguments.done",
                **at(0, "fc_1_0"),
                "name": "f",
                "arguments": '{"x":1}',
            },
            done(0, call(0, '{"x":1}')),
            {
                "type": "function_call_arguments.done",
                **at(1, "fc_1_1"),
                "name": "f",
                "arguments": "{}",
            },
            done(1, call(1, "{}")),
            added(2, call(2, "", "in_progress")),
            {
                "type": "function_call_arguments.done",
                **at(2, "fc_1_2"),
                "name": "f",
                "arguments": "{}",
            },
            done(2, call(2, "{}")),
            {
                "type": "completed",
                "response": response(
                    "completed",
                    [call(0, '{"x":1}'), call(1, "{}"), call(2, "{}")],
                    usage=USAGE_TOLD,
                ),
            },
        ],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in STREAMED])
def test_frames_of_a_stream(case: Streamed) -> None:
    assert told(b"".join(map(stream().event, case.events))) == case.expected


def test_the_beginning_tells_the_request_again_but_only_once() -> None:
    writer = stream(instructions="Be kind.", tools=TOOLS, temperature=0.5, metadata={"a": "b"})

    created, working = frames(writer.heartbeat())
    (again,) = frames(writer.heartbeat())

    assert created == {
        "type": "response.created",
        "sequence_number": 0,
        "response": response(
            "in_progress",
            [],
            instructions="Be kind.",
            tools=TOOLS,
            temperature=0.5,
            metadata={"a": "b"},
        ),
    }
    brief = response("in_progress", [], temperature=0.5, metadata={"a": "b"})
    assert working == {"type": "response.in_progress", "sequence_number": 1, "response": brief}
    assert again == {"type": "response.in_progress", "sequence_number": 2, "response": brief}


def test_calls_go_back_under_the_names_that_the_client_gave() -> None:
    writer = stream(tools=TOOLS)
    events: list[Event] = [
        ToolCallDelta(0, "{}", "c0", "mcp__files__read"),
        Finish("tool_calls"),
    ]
    payloads = frames(b"".join(map(writer.event, events)))

    items = [payload["item"] for payload in payloads if "item" in payload]
    assert [(item["name"], item["namespace"]) for item in items] == [("read", "mcp__files")] * 2
    assert writer.response["output"] == [call(0, "{}", name="read", namespace="mcp__files")]


def test_a_failure_keeps_what_there_is() -> None:
    writer = stream()
    data = writer.event(TextDelta("Hel")) + writer.failure(BROKEN)

    (*_, last) = told(data)

    expected = response(
        "failed",
        [message("Hel", "incomplete")],
        error={"code": "invalid_prompt", "message": "It broke."},
    )
    assert last == {"type": "failed", "response": expected}
    assert writer.response == expected


def test_a_failure_before_anything_else_is_a_stream_too() -> None:
    (last,) = told(stream().failure(BROKEN))

    assert last["type"] == "failed"


def test_frames_can_be_kept_by_number() -> None:
    writer = stream()
    kept = [*writer.frames(TextDelta("a")), *writer.frames(Finish("stop"))]

    assert [frame.number for frame in kept] == list(range(len(kept)))
    assert len(told(b"".join(frame.data for frame in kept))) == len(kept) - 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BROKEN, "invalid_prompt"),
        (RunCancelled(), "invalid_prompt"),
        (BackendBadReply("fast", "sent nonsense"), "invalid_prompt"),
        (BackendRejected("fast", 429, "slow down"), "rate_limit_exceeded"),
        (BackendRejected("fast", 413, "big"), "context_length_exceeded"),
        (
            BackendRejected("fast", 400, "maximum context length is 8192"),
            "context_length_exceeded",
        ),
        (BackendRejected("fast", 400, "bad"), "invalid_prompt"),
        (ServerStopping(), "server_is_overloaded"),
        (MiddlewareError("ours"), "server_error"),
    ],
)
def test_failure_codes_decide_whether_codex_tries_again(error: MiddlewareError, code: str) -> None:
    assert openai_responses.failure_code(error) == code


@dataclass(frozen=True)
class Whole:
    id: str
    reply: Reply
    expected: dict[str, Any]


WHOLE = [
    Whole(
        "text",
        Reply(text="Hi", usage=USAGE),
        response("completed", [message("Hi")], usage=USAGE_TOLD),
    ),
    Whole("nothing", Reply(), response("completed", [message("")])),
    Whole(
        "everything",
        Reply(
            text="Hi",
            reasoning="hm",
            tool_calls=(
                ToolCall(id="c2", name="f", arguments='{"x":1}'),
                ToolCall(id="c3", name="f", arguments=""),
            ),
            finish_reason="tool_calls",
        ),
        response("completed", [THOUGHT, message("Hi", place=1), call(2, '{"x":1}'), call(3, "{}")]),
    ),
    Whole(
        "filtered",
        Reply(text="Hi", finish_reason="content_filter"),
        response(
            "incomplete",
            [message("Hi", "incomplete")],
            incomplete_details={"reason": "content_filter"},
        ),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in WHOLE])
def test_whole_answers(case: Whole) -> None:
    writer = stream()

    assert json.loads(writer.reply(case.reply)) == case.expected
    assert writer.response == case.expected


@given(answers())
def test_streamed_and_whole_responses_are_equal(events: list[Event]) -> None:
    streamed, whole = stream(), stream()
    for event in events:
        streamed.event(event)
    whole.reply(collect(events))

    assert streamed.response == whole.response


@given(answers(), cuts)
def test_what_we_encode_we_can_parse(events: list[Event], places: list[int]) -> None:
    writer = stream()
    data = writer.heartbeat() + b"".join(map(writer.event, events))
    decoder = SseDecoder()

    payloads = [payload for piece in pieces(data, places) for payload in decoder.feed(piece)]

    assert collect(openai_responses.parse_stream(payloads, VOICE)) == collect(events)


@given(answers())
def test_what_we_encode_whole_we_can_parse(events: list[Event]) -> None:
    reply = collect(events)

    assert openai_responses.parse_reply(stream().reply(reply), VOICE) == reply


@given(answers())
def test_output_comes_back_as_history(events: list[Event]) -> None:
    writer, reply = stream(), collect(events)
    writer.reply(reply)

    (said,) = openai_responses.messages_of(writer.response["output"])

    assert said == Message("assistant", reply.text, tool_calls=reply.tool_calls)


def test_a_failure_can_be_parsed() -> None:
    writer = stream()
    data = writer.event(TextDelta("Yes")) + writer.failure(BROKEN)

    events = openai_responses.parse_stream(SseDecoder().feed(data), VOICE)

    assert next(events) == TextDelta("Yes")
    with pytest.raises(BackendRejected, match="It broke"):
        next(events)
