import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given

from Middleware.core.errors import BackendRejected
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
from Middleware.wire import ollama_chat, ollama_generate
from Middleware.wire.framing import NdjsonDecoder
from Middleware.wire.ollama_answer import AnswerHead
from tests.wire.answers import BROKEN, VOICE, FixedClock, answers, cuts, pieces

HEAD = AnswerHead("bob", "r1")
SHARED = {"model": "bob", "created_at": "2023-11-14T22:13:20.250000Z"}
USAGE = Usage(prompt_tokens=3, completion_tokens=4)
QUARTER = 250_000_000


def lines(data: bytes) -> list[dict[str, Any]]:
    assert data.endswith(b"\n") or not data
    return [json.loads(line) for line in data.splitlines()]


@dataclass(frozen=True)
class Streamed:
    id: str
    events: list[Event]
    chat: list[dict[str, Any]]
    generate: list[dict[str, Any]]


def said(**fields: Any) -> dict[str, Any]:
    return {**SHARED, **fields, "done": False, "request_id": "r1"}


def last(said: dict[str, Any], numbers: dict[str, int], reason: str = "stop") -> dict[str, Any]:
    return {**SHARED, **said, "done": True, "done_reason": reason, **numbers, "request_id": "r1"}


NUMBERS = {
    "total_duration": 2 * QUARTER,
    "load_duration": 0,
    "prompt_eval_count": 3,
    "prompt_eval_duration": QUARTER,
    "eval_count": 4,
    "eval_duration": QUARTER,
}
UNCOUNTED = {name: number for name, number in NUMBERS.items() if not name.endswith("count")}
EMPTY = {"role": "assistant", "content": ""}

STREAMED = [
    Streamed(
        "thought, then text",
        [ReasoningDelta("hm"), TextDelta('H"é'), Finish("stop", USAGE)],
        [
            said(message={**EMPTY, "thinking": "hm"}),
            said(message={"role": "assistant", "content": 'H"é'}),
            last({"message": EMPTY}, NUMBERS),
        ],
        [
            said(response="", thinking="hm"),
            said(response='H"é'),
            last({"response": ""}, NUMBERS),
        ],
    ),
    Streamed(
        "cut by length",
        [TextDelta("a"), Finish("length", USAGE)],
        [
            said(message={"role": "assistant", "content": "a"}),
            last({"message": EMPTY}, NUMBERS, "length"),
        ],
        [said(response="a"), last({"response": ""}, NUMBERS, "length")],
    ),
    Streamed(
        "nothing, and nobody counted",
        [Finish("stop")],
        [last({"message": EMPTY}, UNCOUNTED)],
        [last({"response": ""}, UNCOUNTED)],
    ),
    Streamed(
        "calls in fragments go out whole, on the last line, with object arguments",
        [
            ToolCallDelta(0, '{"x"', "c1", "f"),
            ToolCallDelta(1, "", "c2", "g"),
            ToolCallDelta(0, ":1}"),
            Finish("tool_calls", USAGE),
        ],
        [
            last(
                {
                    "message": {
                        **EMPTY,
                        "tool_calls": [
                            {"function": {"name": "f", "arguments": {"x": 1}}},
                            {"function": {"name": "g", "arguments": {}}},
                        ],
                    }
                },
                NUMBERS,
            )
        ],
        [last({"response": ""}, NUMBERS)],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in STREAMED])
def test_lines_of_a_stream(case: Streamed) -> None:
    chat = ollama_chat.answer_stream(HEAD, FixedClock())
    generate = ollama_generate.answer_stream(HEAD, FixedClock())

    assert lines(b"".join(map(chat.event, case.events))) == case.chat
    assert lines(b"".join(map(generate.event, case.events))) == case.generate


def test_a_heartbeat_says_nothing() -> None:
    chat = ollama_chat.answer_stream(HEAD, FixedClock())
    generate = ollama_generate.answer_stream(HEAD, FixedClock())

    assert lines(chat.heartbeat()) == [said(message=EMPTY)]
    assert lines(generate.heartbeat()) == [said(response="")]


def test_a_failure_is_an_error_line_and_an_end_that_is_no_stop() -> None:
    stream = ollama_chat.answer_stream(HEAD, FixedClock())

    assert lines(stream.failure(BROKEN)) == [
        {"error": "It broke."},
        {**SHARED, "message": EMPTY, "done": True, "done_reason": "error", "request_id": "r1"},
    ]
    assert ollama_chat.encode_error(BROKEN) == {"error": "It broke."}


def test_a_whole_chat_answer() -> None:
    reply = Reply(
        text="Hi",
        reasoning="hm",
        tool_calls=(ToolCall(id="c", name="f", arguments="no JSON"),),
        finish_reason="tool_calls",
        usage=USAGE,
    )
    body = ollama_chat.answer_stream(HEAD, FixedClock()).reply(reply)

    message = {
        "role": "assistant",
        "content": "Hi",
        "thinking": "hm",
        "tool_calls": [{"function": {"name": "f", "arguments": {}}}],
    }
    numbers = {
        **NUMBERS,
        "total_duration": QUARTER,
        "prompt_eval_duration": 0,
        "eval_duration": QUARTER,
    }
    assert lines(body) == [last({"message": message}, numbers)]


def test_a_whole_generate_answer_is_a_completion_besides() -> None:
    reply = Reply(text="Hi", finish_reason="length", usage=USAGE)

    (body,) = lines(ollama_generate.answer_stream(HEAD, FixedClock()).reply(reply))

    assert body["response"] == "Hi"
    assert body["done_reason"] == "length"
    assert body["created_at"] == SHARED["created_at"]
    assert body["id"] == "gen-1700000000"
    assert body["choices"] == [
        {"text": "Hi", "index": 0, "logprobs": None, "finish_reason": "length"}
    ]


def test_loading_is_answered_at_once() -> None:
    assert lines(ollama_generate.encode_loaded(HEAD, FixedClock()) + b"\n") == [
        {**SHARED, "response": "", "done": True, "done_reason": "load"}
    ]


@given(answers(), cuts)
def test_what_we_encode_we_can_parse(events: list[Event], places: list[int]) -> None:
    stream = ollama_chat.answer_stream(HEAD, FixedClock())
    data = stream.heartbeat() + b"".join(map(stream.event, events))
    decoder = NdjsonDecoder()

    found = [line for piece in pieces(data, places) for line in decoder.feed(piece)]
    parsed = collect(ollama_chat.parse_stream(found, VOICE))

    assert anonymous(parsed) == anonymous(collect(events))


@given(answers(tools=False), cuts)
def test_generate_too(events: list[Event], places: list[int]) -> None:
    stream = ollama_generate.answer_stream(HEAD, FixedClock())
    data = b"".join(map(stream.event, events))
    decoder = NdjsonDecoder()

    found = [line for piece in pieces(data, places) for line in decoder.feed(piece)]

    assert collect(ollama_generate.parse_stream(found, VOICE)) == collect(events)


@given(answers())
def test_what_we_encode_whole_we_can_parse(events: list[Event]) -> None:
    reply = collect(events)
    body = ollama_chat.answer_stream(HEAD, FixedClock()).reply(reply)

    assert anonymous(ollama_chat.parse_reply(body, VOICE)) == anonymous(reply)


def test_a_failure_can_be_parsed() -> None:
    stream = ollama_chat.answer_stream(HEAD, FixedClock())
    data = stream.event(TextDelta("Yes")) + stream.failure(BROKEN)

    events = ollama_chat.parse_stream(data.splitlines(), VOICE)

    assert next(events) == TextDelta("Yes")
    with pytest.raises(BackendRejected, match="It broke"):
        next(events)


def anonymous(reply: Reply) -> tuple[Any, ...]:
    """Ids of calls are lost on the way: this format has none."""
    calls = [(call.name, call.arguments) for call in reply.tool_calls]
    assert len({call.id for call in reply.tool_calls} - {""}) == len(calls)
    return reply.text, reply.reasoning, calls, reply.finish_reason, reply.usage
