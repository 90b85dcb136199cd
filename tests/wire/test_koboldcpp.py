from dataclasses import dataclass

import pytest

from Middleware.core.errors import BackendBadReply, BackendRejected
from Middleware.core.events import Event, Finish, Reply, TextDelta, Usage, collect
from Middleware.wire import koboldcpp
from Middleware.wire.framing import SseDecoder
from Middleware.wire.model_call import ModelCall
from tests.wire.answers import VOICE, pieces


def test_encode_request() -> None:
    call = ModelCall(
        model="unused",
        prompt="hi",
        images=("data:image/png;base64,AA",),
        parameters={"max_length": 400, "rep_pen": 1.1, "images": ["smuggled"]},
        client_parameters={
            "max_tokens": 5,
            "repeat_penalty": 1.2,
            "seed": 7,
            "stop": "x",
            "logit_bias": {"1": 2},
        },
    )

    assert koboldcpp.encode_request(call) == {
        "prompt": "hi",
        "max_length": 5,
        "rep_pen": 1.2,
        "sampler_seed": 7,
        "stop_sequence": ["x"],
        "images": ["AA"],
    }


def test_images_of_presets_are_discarded() -> None:
    call = ModelCall(prompt="hi", parameters={"images": ["smuggled"]})

    assert koboldcpp.encode_request(call) == {"prompt": "hi"}


@dataclass(frozen=True)
class Says:
    id: str
    stream: str
    expected: list[Event]


SAYS = [
    Says(
        "newer servers tell the reason",
        'event: message\ndata: {"token":"Hel","finish_reason":null}\n\n'
        'event: message\ndata: {"token":"lö","finish_reason":"length"}\n\n',
        [TextDelta("Hel"), TextDelta("lö"), Finish("length")],
    ),
    Says(
        "of older ones the end of the body is all there is",
        'event: message\ndata: {"token":"Hel"}\n\nevent: message\ndata:{"token":"lo"}\n\n',
        [TextDelta("Hel"), TextDelta("lo"), Finish("stop")],
    ),
    Says(
        "other events do not count",
        'event: ping\ndata: {"token":"no"}\n\nevent: message\ndata: {"token":"yes"}\n\n',
        [TextDelta("yes"), Finish("stop")],
    ),
]


@pytest.mark.parametrize("size", [1, 10**6])
@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SAYS])
def test_parse_stream_wherever_it_is_cut(case: Says, size: int) -> None:
    data, decoder = case.stream.encode(), SseDecoder()

    events = [
        event
        for piece in pieces(data, range(0, len(data), size))
        for event in decoder.feed_events(piece)
    ]

    assert list(koboldcpp.parse_stream(events, VOICE)) == case.expected


@pytest.mark.parametrize(
    "stream",
    [b"", b'event: message\ndata: {"token":"Hel","finish_reason":null}\n\n'],
    ids=["nothing came", "the reason never came"],
)
def test_a_stream_that_was_cut_off(stream: bytes) -> None:
    with pytest.raises(BackendBadReply):
        collect(koboldcpp.parse_stream(SseDecoder().feed_events(stream), VOICE))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"results":[{"text":"Hi"}]}', Reply(text="Hi")),
        (
            b'{"results":[{"text":"Hi","finish_reason":"length","prompt_tokens":1,'
            b'"completion_tokens":2}]}',
            Reply(
                text="Hi",
                finish_reason="length",
                usage=Usage(prompt_tokens=1, completion_tokens=2),
            ),
        ),
    ],
)
def test_parse_reply(body: bytes, expected: Reply) -> None:
    assert koboldcpp.parse_reply(body, VOICE) == expected


@pytest.mark.parametrize("body", [b"", b"x", b"{}", b'{"results":[]}', b'{"results":[{}]}'])
def test_a_whole_answer_that_is_none(body: bytes) -> None:
    with pytest.raises(BackendBadReply):
        koboldcpp.parse_reply(body, VOICE)


def test_an_error_at_status_200() -> None:
    body = (
        b'{"detail":{"msg":"Server is busy; please try again later.","type":"service_unavailable"}}'
    )

    with pytest.raises(BackendRejected, match="Server is busy") as caught:
        koboldcpp.parse_reply(body, VOICE)
    assert caught.value.status == 503
