import time
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import (
    BackendBadReply,
    BackendError,
    BackendRejected,
    ConfigError,
    RunCancelled,
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
from Middleware.llm.backends.openai_chat import OpenAIChatBackend
from Middleware.llm.connections import Connections
from tests.fakes.upstream import (
    CUT,
    DONE,
    RESET,
    SILENCE,
    Answer,
    Pause,
    Upstream,
    byte_by_byte,
    chat,
    delta,
    frame,
    head,
    refuses,
    reply,
    stream,
    usage_chunk,
    whole,
)
from tests.llm.setups import DEADLINE, HI, Background, ask, setup

FIVE_SEVEN = Usage(prompt_tokens=5, completion_tokens=7)
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
TOOL = {"type": "function", "function": {"name": "f"}}


def backend(connections: Connections, url: str, **others: Any) -> OpenAIChatBackend:
    return OpenAIChatBackend(setup(connections, url, **others))


def answers(connections: Connections, answer: Answer, *, streaming: bool = True) -> list[Event]:
    with Upstream(answer) as server:
        model = backend(connections, server.url, apiKey="sk-canary-123")
        return list(model.complete(ask(stream=streaming), CancelToken()))


# ------------------------------------------------------------------------------- what is sent


@dataclass(frozen=True)
class Sent:
    id: str
    asked: dict[str, Any]
    body: dict[str, Any]
    keys: dict[str, Any] | None = None
    type_keys: dict[str, Any] | None = None


MESSAGES = [{"role": "user", "content": "hi"}]
USAGE_WISH = {"stream_options": {"include_usage": True}}

SENT = [
    Sent("whole", {"stream": False}, {"model": "m", "messages": MESSAGES, "stream": False}),
    Sent("streamed", {}, {"model": "m", "messages": MESSAGES, "stream": True, **USAGE_WISH}),
    Sent(
        "the API type does not allow asking for usage",
        {},
        {"model": "m", "messages": MESSAGES, "stream": True},
        type_keys={"streamUsage": False},
    ),
    Sent(
        "the API type has no name for streaming",
        {},
        {"model": "m", "messages": MESSAGES},
        type_keys={"streamPropertyName": None},
    ),
    Sent(
        "parameters, the client's fields over them, tools",
        {
            "stream": False,
            "parameters": {"max_tokens": 400, "temperature": 1, "real_null": None},
            "client_parameters": {"temperature": 0.1, "max_tokens": 9},
            "tools": (TOOL,),
            "tool_choice": "auto",
        },
        {
            "model": "m",
            "messages": MESSAGES,
            "max_tokens": 9,
            "temperature": 0.1,
            "real_null": None,
            "stream": False,
            "tools": [TOOL],
            "tool_choice": "auto",
        },
    ),
    Sent(
        "a choice without tools is not sent",
        {"stream": False, "tool_choice": "auto"},
        {"model": "m", "messages": MESSAGES, "stream": False},
    ),
    Sent(
        "a preset may replace the model and ask for other things of a stream",
        {"parameters": {"model": "other", "stream_options": {"x": 1}}},
        {"model": "other", "messages": MESSAGES, "stream": True, "stream_options": {"x": 1}},
    ),
    Sent(
        "no model",
        {"stream": False},
        {"messages": MESSAGES, "stream": False},
        keys={"dontIncludeModel": True},
    ),
    Sent(
        "texts of the endpoint",
        {"stream": False},
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "[S]"},
                {"role": "user", "content": "[P]hi"},
            ],
            "stream": False,
        },
        keys={
            "addTextToStartOfSystem": True,
            "textToAddToStartOfSystem": "[S]",
            "addTextToStartOfPrompt": True,
            "textToAddToStartOfPrompt": "[P]",
        },
    ),
    Sent(
        "a prompt without messages, as after a text endpoint",
        {"messages": (), "prompt": "hi", "stream": False},
        {"model": "m", "messages": MESSAGES, "stream": False},
    ),
    Sent(
        "developer where the server knows it",
        {"messages": (Message("developer", "d"),), "stream": False},
        {"model": "m", "messages": [{"role": "developer", "content": "d"}], "stream": False},
        keys={"supportsDeveloperRole": True},
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SENT])
def test_the_request(case: Sent, connections: Connections) -> None:
    with Upstream(chat("ok")) as server:
        model = backend(
            connections, server.url, type_keys=case.type_keys or {}, **(case.keys or {})
        )
        collect(model.complete(ask(**case.asked), CancelToken()))

    assert server.asked[0].json == case.body
    assert server.asked[0].path == "/v1/chat/completions"


def test_the_headers(connections: Connections) -> None:
    with Upstream(chat("ok")) as server:
        for key in ("sk-1", ""):
            model = backend(connections, server.url, apiKey=key)
            collect(model.complete(ask(), CancelToken()))

    with_key, without = (asked.headers for asked in server.asked)
    assert with_key["authorization"] == "Bearer sk-1"
    assert with_key["content-type"] == "application/json"
    assert "authorization" not in without


# ------------------------------------------------------------------------------ what comes back


@dataclass(frozen=True)
class Answered:
    id: str
    answer: Answer
    expected: list[Event]


STOP = Finish("stop")
TEXT = "Grüße 使用 👩‍👩‍👧 🌍"
RAW = f'{{"choices":[{{"delta":{{"content":"{TEXT}"}},"finish_reason":"stop"}}]}}'

STREAMED = [
    Answered(
        "text", chat("Hel", "lo"), [TextDelta("Hel"), TextDelta("lo"), Finish("stop", FIVE_SEVEN)]
    ),
    Answered(
        "C-05: comments and other fields",
        stream(
            b": OPENROUTER PROCESSING\n\n",
            b":\n\n",
            b"event: ping\ndata: {}\n\n",
            b"id: 7\n\n",
            b"retry: 1000\n\n",
            delta("Hel"),
            b": again\n\n",
            delta("lo", "stop"),
            DONE,
        ),
        [TextDelta("Hel"), TextDelta("lo"), STOP],
    ),
    Answered(
        "C-06: no space after the colon",
        stream(
            b'data:{"choices":[{"delta":{"content":"x"}}]}\n\n',
            b"data:\n\n",
            b'data:{"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata:[DONE]\n\n',
        ),
        [TextDelta("x"), STOP],
    ),
    Answered(
        "C-07: a frame of 3 MiB",
        stream(delta("a" * 3 * 2**20), delta(None, "stop"), DONE),
        [TextDelta("a" * 3 * 2**20), STOP],
    ),
    Answered(
        "C-16: raw characters, byte by byte",
        byte_by_byte(stream(frame(RAW), DONE)),
        [TextDelta(TEXT), STOP],
    ),
    Answered("C-02a: no [DONE]", stream(delta("x", "stop")), [TextDelta("x"), STOP]),
    Answered(
        "no [DONE] and no last line end",
        stream(delta("x"), b'data: {"choices":[{"finish_reason":"stop"}]}'),
        [TextDelta("x"), STOP],
    ),
    Answered(
        "the connection breaks once the answer is complete",
        stream(delta("x", "stop"), RESET),
        [TextDelta("x"), STOP],
    ),
    Answered(
        "a body without length or chunks",
        [
            head(headers={"Content-Type": "text/event-stream"}),
            frame(delta("x", "stop")) + DONE,
            CUT,
        ],
        [TextDelta("x"), STOP],
    ),
    Answered(
        "one JSON text in place of a stream",
        whole(reply("Hello")),
        [TextDelta("Hello"), Finish("stop", FIVE_SEVEN)],
    ),
    Answered(
        "one JSON text after signs of life",
        [head(), b" ", b"\n ", b'{"choices":[{"message":{"content":"x"}', b"}]}", CUT],
        [TextDelta("x"), STOP],
    ),
    Answered(
        "reasoning, then a call",
        stream(delta(reasoning_content="hm"), delta(tool_calls=[CALL]), delta(None, "stop"), DONE),
        [ReasoningDelta("hm"), ToolCallDelta(0, '{"x":1}', "c1", "f"), Finish("tool_calls")],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in STREAMED])
def test_streamed_answers(case: Answered, connections: Connections) -> None:
    assert answers(connections, case.answer) == case.expected


def test_a_whole_answer(connections: Connections) -> None:
    body = reply("Hi", reasoning_content="hm", tool_calls=[CALL])

    events = answers(connections, byte_by_byte(whole(body)), streaming=False)

    assert collect(events) == Reply(
        text="Hi",
        reasoning="hm",
        tool_calls=(ToolCall(id="c1", name="f", arguments='{"x":1}'),),
        finish_reason="tool_calls",
        usage=FIVE_SEVEN,
    )


def test_an_event_is_there_before_the_next_bytes_are(connections: Connections) -> None:
    go_on = Pause()
    with Upstream(stream(delta("Hel"), go_on, delta("lo", "stop"), DONE)) as server:
        events = backend(connections, server.url).complete(ask(), CancelToken())
        first = next(events)
        go_on.set()

        assert [first, *events] == [TextDelta("Hel"), TextDelta("lo"), STOP]


def test_usage_may_come_late_but_not_too_late(connections: Connections) -> None:
    late = Pause()
    with Upstream(
        stream(delta("x", "stop"), late, usage_chunk(1, 2), DONE),
        stream(delta("x", "stop"), SILENCE),
    ) as server:
        model = backend(connections, server.url)
        events = model.complete(ask(), CancelToken())
        assert next(events) == TextDelta("x")
        late.set()
        assert list(events) == [Finish("stop", Usage(prompt_tokens=1, completion_tokens=2))]

        began = time.monotonic()
        assert list(model.complete(ask(), CancelToken())) == [TextDelta("x"), STOP]
        assert 1.5 < time.monotonic() - began < 4


def test_a_connection_is_used_again_after_either_kind_of_answer(connections: Connections) -> None:
    with Upstream(chat("ok")) as server:
        model = backend(connections, server.url)
        for streaming in (True, False, True):
            collect(model.complete(ask(stream=streaming), CancelToken()))

    assert server.connections == 1


# ----------------------------------------------------------------------------------- failures


@dataclass(frozen=True)
class Failed:
    id: str
    answer: Answer
    before: list[Event]
    kind: type[BackendError]
    status: int
    message: str


MIDDLE = "Endpoint 'fast' closed the connection in the middle of its answer."
NO_JSON = "Endpoint 'fast' did not answer with JSON."

FAILED = [
    Failed(
        "C-01: torn off",
        stream(delta("Hel"), delta("lo"), CUT),
        [TextDelta("Hel"), TextDelta("lo")],
        BackendBadReply,
        502,
        MIDDLE,
    ),
    Failed(
        "C-02b: just ends", stream(delta("Hel")), [TextDelta("Hel")], BackendBadReply, 502, MIDDLE
    ),
    Failed(
        "an error frame",
        stream(delta("Hel"), {"error": {"message": "busy", "code": 503}}),
        [TextDelta("Hel")],
        BackendRejected,
        503,
        "Endpoint 'fast' answered 503: busy",
    ),
    Failed(
        "C-23a in place of a stream",
        whole({"error": {"message": "slow", "code": 429}}),
        [],
        BackendRejected,
        429,
        "Endpoint 'fast' answered 429: slow",
    ),
    Failed("a page in place of a stream", whole(b"<html>hello"), [], BackendBadReply, 502, NO_JSON),
    Failed(
        "nothing in place of a stream",
        whole(b""),
        [],
        BackendBadReply,
        502,
        "Endpoint 'fast' did not answer with JSON but with an empty answer.",
    ),
    Failed("only comments", stream(b": hello\n\n"), [], BackendBadReply, 502, NO_JSON),
    Failed(
        "the key in a refusal",
        refuses(401, "wrong: Bearer sk-canary-123"),
        [],
        BackendRejected,
        502,
        "Endpoint 'fast' answered 401: wrong: Bearer ***",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in FAILED])
def test_failures_while_streaming(case: Failed, connections: Connections) -> None:
    passed: list[Event] = []
    with Upstream(case.answer) as server:
        model = backend(connections, server.url, apiKey="sk-canary-123")
        with pytest.raises(case.kind) as caught:
            passed += iter(model.complete(ask(), CancelToken()))

    assert passed == case.before
    assert (caught.value.status, caught.value.message) == (case.status, case.message)
    assert "canary" not in (caught.value.detail or "")


def test_c_20_the_time_to_wait_is_passed_on(connections: Connections) -> None:
    with pytest.raises(BackendRejected) as caught:
        answers(connections, refuses(429, "slow down", {"Retry-After": "7"}), streaming=False)

    assert (caught.value.status, caught.value.retry_after) == (429, "7")


def test_a_refused_request_is_not_sent_again(connections: Connections) -> None:
    with Upstream(refuses(400)) as server:
        with pytest.raises(BackendRejected):
            collect(backend(connections, server.url).complete(ask(), CancelToken()))

        assert len(server.asked) == 1


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "answer", [[SILENCE], stream(delta("Hel"), SILENCE)], ids=["before the first byte", "later"]
)
def test_cancelling_ends_the_call(
    answer: Answer, streaming: bool, connections: Connections
) -> None:
    cancel = CancelToken()
    with Upstream(answer) as server:
        model = backend(connections, server.url)
        call = Background(lambda: list(model.complete(ask(stream=streaming), cancel)))
        asked = server.wait_for(1)
        cancel.cancel()

        assert isinstance(call.result(), RunCancelled)
        assert asked.left.wait(DEADLINE)


def test_cancelling_wins_while_usage_is_awaited(connections: Connections) -> None:
    cancel = CancelToken()
    with Upstream(stream(delta("x", "stop"), SILENCE)) as server:
        events = backend(connections, server.url).complete(ask(), cancel)
        assert next(events) == TextDelta("x")
        cancel.cancel()

        with pytest.raises(RunCancelled):
            list(events)


def test_who_stops_reading_drops_the_connection(connections: Connections) -> None:
    with Upstream(stream(delta("Hel"), SILENCE)) as server:
        events = backend(connections, server.url).complete(ask(), CancelToken())
        next(events)
        events.close()  # type: ignore[attr-defined]

        assert server.asked[0].left.wait(DEADLINE)


def test_an_endpoint_that_cannot_work_is_refused_when_it_is_loaded(
    connections: Connections,
) -> None:
    with pytest.raises(ConfigError, match=r"Endpoints/fast\.json: endpoint: "):
        backend(connections, "localhost:8080")


def test_what_is_too_deeply_nested_is_no_crash(connections: Connections) -> None:
    deep: Any = {}
    for _ in range(900):
        deep = {"a": deep}
    with Upstream(chat("ok")) as server:
        model = backend(connections, server.url)
        asked = ask(messages=HI, tools=({**TOOL, "x": deep},))

        assert collect(model.complete(asked, CancelToken())).text == "ok"
