from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.wire.framing import NdjsonDecoder, SseDecoder, SseEvent

STREAM = (
    ": heartbeat\n\n"
    'data: {"text":"Grüße 使用 👩‍👩‍👧"}\r\n\r\n'
    "event: ping\ndata: {}\n\n"
    ":\n\n"
    "id: 7\nretry: 1000\n"
    'data:{"a":1}\r\r'
    "data:\n\n"
    "data: one\ndata: two\n\n"
    'data: {"line":"separator \u2028 and \u0085 inside"}\n\n'
    "data: [DONE]\n\n"
).encode()
PAYLOADS = [
    '{"text":"Grüße 使用 👩‍👩‍👧"}',
    "{}",
    '{"a":1}',
    "one\ntwo",
    '{"line":"separator \u2028 and \u0085 inside"}',
    "[DONE]",
]


def pieces_of(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def sse(pieces: Iterator[bytes] | list[bytes]) -> list[str]:
    decoder = SseDecoder()
    payloads = [payload for piece in pieces for payload in decoder.feed(piece)]
    return [payload.decode() for payload in payloads + decoder.close()]


@pytest.mark.parametrize("size", [*range(1, 40), len(STREAM)])
def test_sse_does_not_care_where_the_network_cut(size: int) -> None:
    assert sse(pieces_of(STREAM, size)) == PAYLOADS


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_sse_does_not_care_where_it_is_cut_unevenly(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in pairwise(edges)]

    assert sse(pieces) == PAYLOADS


@dataclass(frozen=True)
class Framed:
    id: str
    data: bytes
    expected: list[str]


FRAMED = [
    Framed("no space after the colon", b'data:{"a":1}\n\ndata:[DONE]\n\n', ['{"a":1}', "[DONE]"]),
    Framed("two spaces: one belongs to the payload", b"data:  x\n\n", [" x"]),
    Framed("no blank lines at all", b'data: {"a":1}\ndata: {"b":2}\n', ['{"a":1}', '{"b":2}']),
    Framed(
        "an object over several lines", b'data: {\ndata:  "a": 1\ndata: }\n\n', ['{\n "a": 1\n}']
    ),
    Framed("only carriage returns", b'data: {"a":1}\r\rdata: {"b":2}\r\r', ['{"a":1}', '{"b":2}']),
    Framed("lines end with CRLF", b"data: one\r\ndata: two\r\n\r\n", ["one\ntwo"]),
    Framed("a byte order mark", b'\xef\xbb\xbfdata: {"a":1}\n\n', ['{"a":1}']),
    Framed("the last line has no end", b"data: [DONE]", ["[DONE]"]),
    Framed("the last event has no blank line", b"data: x\n", ["x"]),
    Framed(
        "the words [DONE] in a text", b'data: {"t":"data: [DONE]"}\n\n', ['{"t":"data: [DONE]"}']
    ),
    Framed("a field without a colon", b"data\n\nwhatever\n\n", []),
    Framed("nothing", b"", []),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in FRAMED])
def test_sse_payloads(case: Framed) -> None:
    assert sse([case.data]) == case.expected
    assert sse(pieces_of(case.data, 1)) == case.expected


def test_a_payload_is_there_as_soon_as_its_line_is() -> None:
    assert SseDecoder().feed(b'data: {"a":1}\n') == [b'{"a":1}']


def test_a_line_of_megabytes_arrives_whole() -> None:
    payload = b'{"t":"' + b"a" * 3 * 2**20 + b'"}'

    decoder = SseDecoder()
    payloads = [
        found
        for piece in pieces_of(b"data: " + payload + b"\n\n", 8192)
        for found in decoder.feed(piece)
    ]

    assert payloads == [payload]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_sse_events_carry_their_names(size: int) -> None:
    data = b'event: message_start\ndata: {"a":1}\n\ndata: {"b":2}\n\nevent: ping\ndata: x\n\n'
    decoder = SseDecoder()

    events = [event for piece in pieces_of(data, size) for event in decoder.feed_events(piece)]

    assert events == [
        SseEvent("message_start", b'{"a":1}'),
        SseEvent("message", b'{"b":2}'),
        SseEvent("ping", b"x"),
    ]


@pytest.mark.parametrize("size", [*range(1, 30), 1000])
def test_ndjson_does_not_care_where_the_network_cut(size: int) -> None:
    data = '{"a":"é\u2028"}\n\n  \n{"b":2}\r\n{"error":"runner broke"}'.encode()
    decoder = NdjsonDecoder()

    lines = [line for piece in pieces_of(data, size) for line in decoder.feed(piece)]
    lines += decoder.close()

    assert [line.decode() for line in lines] == [
        '{"a":"é\u2028"}',
        '{"b":2}',
        '{"error":"runner broke"}',
    ]
