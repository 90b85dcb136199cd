from dataclasses import dataclass

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
from Middleware.wire.framing import NdjsonDecoder
from Middleware.wire.ollama_stream import StreamParser, parse_reply, parse_stream
from Middleware.wire.payload_parser import parse_payloads
from tests.wire.answers import VOICE, pieces


@dataclass(frozen=True)
class Says:
    id: str
    lines: str
    expected: list[Event]


SAYS = [
    Says(
        "chat, with counts",
        '{"message":{"role":"assistant","content":"Hel"},"done":false}\n'
        '{"message":{"content":"lo"},"done":false}\n'
        '{"message":{"content":""},"done":true,"done_reason":"stop",'
        '"prompt_eval_count":26,"eval_count":3}\n',
        [
            TextDelta("Hel"),
            TextDelta("lo"),
            Finish("stop", Usage(prompt_tokens=26, completion_tokens=3)),
        ],
    ),
    Says(
        "a cached prompt is not counted",
        '{"message":{"content":"a"},"done":true,"eval_count":3}\n',
        [TextDelta("a"), Finish("stop", Usage(completion_tokens=3))],
    ),
    Says(
        "generate, with thinking",
        '{"response":"","thinking":"hm"}\n{"response":"a"}\n{"response":"","done":true}\n',
        [ReasoningDelta("hm"), TextDelta("a"), Finish("stop")],
    ),
    Says(
        "cut by length; null content; the last line has no end",
        '{"message":{"content":null}}\n{"message":{"content":"a"},"done":true,"done_reason":"length"}',
        [TextDelta("a"), Finish("length")],
    ),
    Says(
        "C-08: empty lines and lines that are no JSON are skipped",
        '\n\n{"message":{"content":"a"}}\nnonsense\n[]\n{"done":true}\n',
        [TextDelta("a"), Finish("stop")],
    ),
    Says(
        "C-11: calls end in tool_calls whatever the reason says; arguments become text",
        '{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]},"done":false}\n'
        '{"message":{"content":""},"done":true,"done_reason":"stop"}\n',
        [ToolCallDelta(0, '{"x":1}', "id0", "f"), Finish("tool_calls")],
    ),
    Says(
        "calls over several lines are calls of their own, even without arguments",
        '{"message":{"tool_calls":[{"function":{"index":0,"name":"f"}}]}}\n'
        '{"message":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":{}}}]}}\n'
        '{"message":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":{}}}]}}\n'
        '{"done":true}\n',
        [
            ToolCallDelta(0, "{}", "id0", "f"),
            ToolCallDelta(1, "{}", "x", "f"),
            ToolCallDelta(2, "{}", "id1", "f"),
            Finish("tool_calls"),
        ],
    ),
    Says(
        "length stays length though calls came",
        '{"message":{"tool_calls":[{"function":{"name":"f","arguments":{}}}]}}\n'
        '{"done":true,"done_reason":"length"}\n',
        [ToolCallDelta(0, "{}", "id0", "f"), Finish("length")],
    ),
    Says(
        "what comes after the end is not read", '{"done":true}\n{"error":"x"}\n', [Finish("stop")]
    ),
    Says(
        "C-16: characters in several bytes",
        '{"message":{"content":"Grüße 使用 👩‍👩‍👧 🌍"},"done":true}\n',
        [TextDelta("Grüße 使用 👩‍👩‍👧 🌍"), Finish("stop")],
    ),
]


def parser() -> StreamParser:
    ids = iter(range(100))
    return StreamParser(VOICE, lambda: f"id{next(ids)}")


@pytest.mark.parametrize("size", [1, 7, 10**6])
@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SAYS])
def test_parse_stream_wherever_it_is_cut(case: Says, size: int) -> None:
    data, decoder = case.lines.encode(), NdjsonDecoder()

    lines = [
        line for piece in pieces(data, range(0, len(data), size)) for line in decoder.feed(piece)
    ]

    assert list(parse_payloads([*lines, *decoder.close()], parser())) == case.expected


def test_an_error_line_comes_after_the_text_so_far() -> None:
    events = parse_stream([b'{"message":{"content":"Yes"}}', b'{"error":"runner broke"}'], VOICE)

    assert next(events) == TextDelta("Yes")
    with pytest.raises(BackendRejected, match="runner broke") as caught:
        next(events)
    assert caught.value.status == 502


def test_a_stream_without_an_end_was_cut_off() -> None:
    with pytest.raises(BackendBadReply, match="middle of its answer"):
        collect(parse_stream([b'{"message":{"content":"Yes"},"done":false}'], VOICE))


def test_an_end_in_error_is_an_error() -> None:
    with pytest.raises(BackendRejected):
        collect(
            parse_stream([b'{"message":{"content":""},"done":true,"done_reason":"error"}'], VOICE)
        )


@dataclass(frozen=True)
class Whole:
    id: str
    body: str
    expected: Reply


WHOLE = [
    Whole(
        "chat",
        '{"message":{"role":"assistant","content":"Hi","thinking":"hm"},"done":true,'
        '"done_reason":"length","prompt_eval_count":1,"eval_count":2}',
        Reply(
            text="Hi",
            reasoning="hm",
            finish_reason="length",
            usage=Usage(prompt_tokens=1, completion_tokens=2),
        ),
    ),
    Whole("generate", '{"response":"Hi","done":true}', Reply(text="Hi")),
    Whole("it does not say done", '{\n "response":\n"Hi"}', Reply(text="Hi")),
    Whole(
        "calls",
        '{"message":{"content":"","tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}}}]},'
        '"done":true,"done_reason":"stop"}',
        Reply(
            tool_calls=(ToolCall(id="a", name="f", arguments='{"x":1}'),),
            finish_reason="tool_calls",
        ),
    ),
    Whole(
        "a stream though none was asked for",
        '{"response":"H"}\n{"response":"i"}\n{"response":"","done":true}\n',
        Reply(text="Hi"),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in WHOLE])
def test_parse_reply(case: Whole) -> None:
    assert parse_reply(case.body.encode(), VOICE) == case.expected


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "empty answer"),
        (b"<html>\n<body>", "did not answer with JSON"),
        (b"[]", "did not answer with JSON"),
        (b"{}", "without a message"),
        (b'{"message":null}', "without a message"),
        (b'{"message":{"content":"a"}', "did not answer with JSON"),
        (b'{"message":{"content":"a"}}\n{"message":{"content":"b"}}\n', "middle of its answer"),
    ],
)
def test_a_whole_answer_that_is_none(body: bytes, said: str) -> None:
    with pytest.raises(BackendBadReply, match=said):
        parse_reply(body, VOICE)


def test_an_error_in_a_whole_answer() -> None:
    with pytest.raises(BackendRejected, match="model 'x' not found"):
        parse_reply(b'{"error":"model \'x\' not found"}', VOICE)
