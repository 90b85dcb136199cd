import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given

from Middleware.core.errors import BackendBadReply, BackendRejected, MalformedRequest
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
from Middleware.core.messages import ChatRequest, Message
from Middleware.wire import openai_completions
from Middleware.wire.framing import SseDecoder
from Middleware.wire.model_call import ModelCall
from tests.wire.answers import BROKEN, VOICE, answers, cuts, pieces


@dataclass(frozen=True)
class Accepts:
    id: str
    body: dict[str, Any]
    expected: ChatRequest


ACCEPTS = [
    Accepts(
        "plain text is one user message, and is not streamed",
        {"prompt": "hi"},
        ChatRequest(model="", messages=(Message("user", "hi"),)),
    ),
    Accepts(
        "LangChain: a list with one text, nulls",
        {"model": "m", "prompt": ["hi"], "seed": None, "logprobs": None, "n": 1, "best_of": 1},
        ChatRequest(model="m", messages=(Message("user", "hi"),)),
    ),
    Accepts(
        "SillyTavern: tags and samplers",
        {
            "model": "m",
            "prompt": "[Beg_Sys]Be kind.[Beg_User]hi[Beg_Assistant]",
            "max_tokens": 100,
            "temperature": 0.7,
            "stop": ["x"],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature_last": True,
        },
        ChatRequest(
            model="m",
            messages=(Message("system", "Be kind."), Message("user", "hi"), Message("assistant")),
            stream=True,
            include_usage=True,
            parameters={"max_tokens": 100, "temperature": 0.7, "stop": ["x"]},
            unknown_fields=("temperature_last",),
        ),
    ),
    Accepts(
        "what is not done is told",
        {"prompt": "hi", "logprobs": 2, "echo": True, "suffix": "x", "best_of": 3},
        ChatRequest(
            model="",
            messages=(Message("user", "hi"),),
            unknown_fields=("logprobs", "echo", "suffix", "best_of"),
        ),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in ACCEPTS])
def test_parse_request(case: Accepts) -> None:
    assert openai_completions.parse_request(case.body) == case.expected


def test_the_old_default_can_be_had_back() -> None:
    parse = openai_completions.parse_request

    assert parse({"prompt": "hi"}, stream_by_default=True).stream
    assert not parse({"prompt": "hi", "stream": False}, stream_by_default=True).stream


@pytest.mark.parametrize(
    ("change", "param", "said"),
    [
        ({"prompt": None}, "prompt", "is missing"),
        ({"prompt": []}, "prompt", "must be a text"),
        ({"prompt": [1, 2]}, "prompt", "tokens"),
        ({"prompt": ["a", "b"]}, "prompt", "several texts"),
        ({"prompt": {"a": 1}}, "prompt", "must be a text"),
        ({"model": 1}, "model", "must be a text"),
        ({"stream": "true"}, "stream", "true or false"),
        ({"temperature": "hot"}, "temperature", "must be a number"),
        ({"stop": 5}, "stop", "must be a text or a list"),
        ({"stream_options": 1}, "stream_options", "must be an object"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage", "true or"),
    ],
)
def test_a_wrong_field_is_refused_by_name(change: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(MalformedRequest, match=said) as caught:
        openai_completions.parse_request({"prompt": "hi", **change})

    assert caught.value.param == param


def stream(**options: Any) -> openai_completions.AnswerStream:
    return openai_completions.AnswerStream("cmpl-1", 1700000000, "bob", **options)


HEAD = {"id": "cmpl-1", "object": "text_completion", "created": 1700000000, "model": "bob"}


def frame(text: str, reason: str | None = None) -> dict[str, Any]:
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}
    return {**HEAD, "choices": [choice]}


def frames(data: bytes) -> list[Any]:
    payloads = SseDecoder().feed(data)
    return [payload if payload == b"[DONE]" else json.loads(payload) for payload in payloads]


def test_a_stream_carries_text_only() -> None:
    events: list[Event] = [
        ReasoningDelta("hm"),
        TextDelta('H"é'),
        ToolCallDelta(0, "{}", "c", "f"),
        Finish("tool_calls", Usage(prompt_tokens=1, completion_tokens=2)),
    ]

    assert frames(b"".join(map(stream().event, events))) == [
        frame('H"é'),
        frame("", "stop"),
        b"[DONE]",
    ]


def test_usage_is_told_to_who_asked_in_a_frame_without_choices() -> None:
    finish = Finish("length", Usage(prompt_tokens=1, completion_tokens=2))

    assert frames(stream(include_usage=True).event(finish)) == [
        frame("", "length"),
        {
            **HEAD,
            "choices": [],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        },
        b"[DONE]",
    ]


def test_heartbeats_are_comments_and_failures_are_told() -> None:
    assert stream().heartbeat().startswith(b":")
    (error, done) = frames(stream().failure(BROKEN))
    assert error["error"]["message"] == "It broke."
    assert done == b"[DONE]"


def test_a_whole_answer() -> None:
    reply = Reply(text="Hi", usage=Usage(prompt_tokens=1, completion_tokens=2))

    assert json.loads(stream().reply(reply)) == {
        **frame("Hi", "stop"),
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }


@given(answers(tools=False, reasoning=False), cuts)
def test_what_we_encode_we_can_parse(events: list[Event], places: list[int]) -> None:
    writer = stream(include_usage=True)
    data = writer.heartbeat() + b"".join(map(writer.event, events))
    decoder = SseDecoder()

    payloads = [payload for piece in pieces(data, places) for payload in decoder.feed(piece)]

    assert collect(openai_completions.parse_stream(payloads, VOICE)) == collect(events)
    assert openai_completions.parse_reply(stream().reply(collect(events)), VOICE) == collect(events)


def test_encode_request() -> None:
    call = ModelCall(
        model="m",
        prompt="<s>hi",
        parameters={"temperature": 0.5, "max_tokens": 400},
        client_parameters={"max_completion_tokens": 5, "stop": "x", "response_format": {}},
        stream=True,
        include_usage=True,
    )

    assert openai_completions.encode_request(call) == {
        "model": "m",
        "prompt": "<s>hi",
        "temperature": 0.5,
        "max_tokens": 5,
        "stop": "x",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@dataclass(frozen=True)
class Says:
    id: str
    payloads: list[bytes]
    expected: list[Event]


SAYS = [
    Says(
        "text, finish, usage after it",
        [
            b'{"choices":[{"index":0,"text":"Hi","finish_reason":null}]}',
            b'{"choices":[{"index":0,"text":"","finish_reason":"length"}]}',
            b'{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}',
            b"[DONE]",
            b'{"choices":[{"text":"late"}]}',
        ],
        [TextDelta("Hi"), Finish("length", Usage(prompt_tokens=1, completion_tokens=2))],
    ),
    Says(
        "the words [DONE] in a text, other choices, nonsense",
        [
            b'{"choices":[{"text":"data: [DONE]"}]}',
            b'{"choices":[{"index":1,"text":"other"}]}',
            b"nonsense",
            b"[]",
            b"[DONE]",
        ],
        [TextDelta("data: [DONE]"), Finish("stop")],
    ),
    Says(
        "no [DONE] but a reason",
        [b'{"choices":[{"text":"Hi","finish_reason":"eos"}]}'],
        [TextDelta("Hi"), Finish("stop")],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SAYS])
def test_parse_stream(case: Says) -> None:
    assert list(openai_completions.parse_stream(case.payloads, VOICE)) == case.expected


def test_a_stream_that_just_ends_was_cut_off() -> None:
    with pytest.raises(BackendBadReply, match="middle of its answer"):
        collect(openai_completions.parse_stream([b'{"choices":[{"text":"Hi"}]}'], VOICE))


def test_errors_inside_a_stream_and_inside_a_whole_answer() -> None:
    body = b'{"error":{"message":"slow down","code":429}}'

    with pytest.raises(BackendRejected, match="slow down") as caught:
        collect(openai_completions.parse_stream([body], VOICE))
    assert caught.value.status == 429
    with pytest.raises(BackendRejected, match="slow down"):
        openai_completions.parse_reply(body, VOICE)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"choices":[]}'])
def test_a_whole_answer_that_is_none(body: bytes) -> None:
    with pytest.raises(BackendBadReply):
        openai_completions.parse_reply(body, VOICE)
