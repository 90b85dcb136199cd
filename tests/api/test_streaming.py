"""Streams over a real connection, in every phase of a run."""

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from Middleware.core.errors import (
    BackendBadReply,
    BackendRejected,
    BackendUnreachable,
    ConfigError,
    MiddlewareError,
    ServerStopping,
)
from Middleware.core.events import (
    Event,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from tests.fakes.live_site import make_site, serving, wait_until
from tests.fakes.runner import DEADLINE_SECONDS, FakeRunner, Turn, says

CUT = BackendBadReply("fast", "closed the connection in the middle of its answer.")


def deltas(frames: list[str]) -> list[dict[str, Any]]:
    chunks = [json.loads(frame[6:]) for frame in frames if frame.startswith("data: {")]
    return [choice["delta"] for chunk in chunks for choice in chunk.get("choices", ())]


def finish_reasons(frames: list[str]) -> list[str]:
    chunks = [json.loads(frame[6:]) for frame in frames if frame.startswith("data: {")]
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk.get("choices", ())]
    return [reason for reason in reasons if reason]


def error_of(frames: list[str]) -> Any:
    assert frames[-1] == "data: [DONE]"
    return json.loads(frames[-2][6:])["error"]


def test_a_stream_is_role_text_finish_and_done() -> None:
    runner = FakeRunner(says(TextDelta("Hel"), TextDelta("lo"), Finish("stop")))
    with serving(make_site(runner)) as live:
        received = live.chat(stream=True)

    assert received.status == 200
    assert received.complete
    assert received.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert received.headers["cache-control"] == "no-cache"
    assert received.headers["x-accel-buffering"] == "no"
    assert received.headers["x-request-id"] == runner.turn.request_id
    assert deltas(received.frames) == [
        {"role": "assistant", "content": ""},
        {"content": "Hel"},
        {"content": "lo"},
        {},
    ]
    assert finish_reasons(received.frames) == ["stop"]
    assert received.frames[-1] == "data: [DONE]"
    assert runner.turn.door == "openaichatcompletion"


def test_the_usage_chunk_is_sent_when_asked_for() -> None:
    runner = FakeRunner(
        says(TextDelta("x"), Finish("stop", Usage(prompt_tokens=3, completion_tokens=4)))
    )
    with serving(make_site(runner)) as live:
        asked = live.chat(stream=True, stream_options={"include_usage": True})
        unasked = live.chat(stream=True)

    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert json.loads(asked.frames[-2][6:])["usage"] == usage
    assert json.loads(asked.frames[-2][6:])["choices"] == []
    assert "usage" not in unasked.body.decode()


def test_each_event_leaves_at_once_in_a_chunk_of_its_own() -> None:
    go_on = threading.Event()

    def script(turn: Turn) -> Iterator[Event]:
        for word in ("one", "two", "three"):
            yield TextDelta(word)
            assert go_on.wait(DEADLINE_SECONDS)
            go_on.clear()
        yield Finish()

    with serving(make_site(FakeRunner(script))) as live, live.connect() as client:
        client.send_chat()
        client.receive_head()
        for word in (b"one", b"two", b"three"):
            assert word in client.read_until(b'"' + word + b'"')
            go_on.set()
        assert client.read_until(b"\r\n0\r\n\r\n")


def test_tool_calls_and_reasoning_are_streamed() -> None:
    events = (
        ReasoningDelta("hmm"),
        ToolCallDelta(0, "", "call_1", "weather"),
        ToolCallDelta(0, '{"city":'),
        Finish("tool_calls"),
    )
    with serving(make_site(FakeRunner(says(*events)))) as live:
        received = live.chat(stream=True)

    assert deltas(received.frames)[1] == {"reasoning_content": "hmm"}
    assert finish_reasons(received.frames) == ["tool_calls"]


@dataclass(frozen=True)
class EarlyFailure:
    id: str
    error: Exception
    status: int
    code: str
    headers: dict[str, str] = field(default_factory=dict)


EARLY_FAILURES = [
    EarlyFailure("unreachable", BackendUnreachable("fast"), 503, "backend_unreachable"),
    EarlyFailure(
        "rate limit",
        BackendRejected("fast", 429, "slow down", retry_after="7"),
        429,
        "backend_rejected",
        {"retry-after": "7"},
    ),
    EarlyFailure(
        "configuration",
        ConfigError("is missing.", file="Endpoints/fast.json"),
        400,
        "configuration_error",
        {"x-should-retry": "false"},
    ),
    EarlyFailure("a fault of ours", ZeroDivisionError("secret"), 500, "internal_error"),
    EarlyFailure("no finish", StopIteration(), 500, "internal_error"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in EARLY_FAILURES])
def test_a_failure_before_the_first_event_keeps_its_status(case: EarlyFailure) -> None:
    runner = FakeRunner(says(case.error))
    with serving(make_site(runner)) as live:
        streamed = live.chat(stream=True)
        whole = live.chat(stream=False)
        wait_until(live.is_quiet)

    for received in (streamed, whole):
        assert received.status == case.status
        assert received.headers["content-type"] == "application/json"
        assert received.json["error"]["code"] == case.code
        assert received.headers.items() >= case.headers.items()
        assert b"secret" not in received.body
        assert b"Traceback" not in received.body


def test_a_fault_of_ours_names_the_request_and_logs_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with serving(make_site(FakeRunner(says(ZeroDivisionError("secret"))))) as live:
        received = live.chat(stream=True)

    assert received.headers["x-request-id"] in received.json["error"]["message"]
    assert "ZeroDivisionError: secret" in caplog.text
    assert received.headers["x-request-id"] in caplog.text


def test_a_failure_after_the_first_event_is_an_error_frame_and_done() -> None:
    """Field case C-01."""
    runner = FakeRunner(says(TextDelta("Hel"), TextDelta("lo"), CUT))
    with serving(make_site(runner)) as live:
        received = live.chat(stream=True)
        wait_until(live.is_quiet)

    assert received.status == 200
    assert received.complete
    assert received.text == "Hello"
    assert error_of(received.frames) == {
        "message": CUT.message,
        "type": "server_error",
        "param": None,
        "code": "backend_bad_reply",
    }
    assert finish_reasons(received.frames) == []


def test_a_run_that_ends_without_a_finish_is_not_called_complete() -> None:
    with serving(make_site(FakeRunner(says(TextDelta("half"))))) as live:
        streamed = live.chat(stream=True)
        whole = live.chat()

    assert finish_reasons(streamed.frames) == []
    assert error_of(streamed.frames)["code"] == "backend_error"
    assert whole.status == 502


def test_silence_before_the_first_event_brings_headers_and_heartbeats() -> None:
    """Field case C-22."""
    go_on = threading.Event()

    def script(turn: Turn) -> Iterator[Event]:
        assert go_on.wait(DEADLINE_SECONDS)
        yield TextDelta("at last")
        yield Finish()

    runner = FakeRunner(script, heartbeat_seconds=0.1, ignored=("seed",), conversation_id="c1")
    with serving(make_site(runner)) as live, live.connect() as client:
        client.send_chat()
        version, status, headers = client.receive_head()
        early = client.read_until(b":\n\n") + client.read_until(b":\n\n")
        go_on.set()
        rest = client.read_until(b"\r\n0\r\n\r\n")

    assert (version, status) == ("HTTP/1.1", 200)
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["x-headrace-ignored"] == "seed"
    assert headers["x-conversation-id"] == "c1"
    assert b"data" not in early
    assert rest.count(b'"role":"assistant"') == 1
    assert b"at last" in rest


def test_silence_in_the_middle_brings_heartbeats_that_are_no_content() -> None:
    def script(turn: Turn) -> Iterator[Event]:
        yield TextDelta("a")
        turn.cancel.wait(0.4)
        yield TextDelta("b")
        yield Finish()

    with serving(make_site(FakeRunner(script, heartbeat_seconds=0.1))) as live:
        received = live.chat(stream=True)

    assert 2 <= received.frames.count(":") <= 4
    assert received.text == "ab"


def test_a_busy_stream_has_no_heartbeats_and_neither_has_one_that_wants_none() -> None:
    def busy(turn: Turn) -> Iterator[Event]:
        for _ in range(10):
            turn.cancel.wait(0.03)
            yield TextDelta("x")
        yield Finish()

    def silent(turn: Turn) -> Iterator[Event]:
        turn.cancel.wait(0.3)
        yield Finish()

    with serving(make_site(FakeRunner(busy, heartbeat_seconds=0.2))) as live:
        assert ":" not in live.chat(stream=True).frames
    with serving(make_site(FakeRunner(silent, heartbeat_seconds=0))) as live:
        assert ":" not in live.chat(stream=True).frames


def test_a_failure_after_a_heartbeat_is_an_error_frame() -> None:
    go_on = threading.Event()

    def script(turn: Turn) -> Iterator[Event]:
        assert go_on.wait(DEADLINE_SECONDS)
        raise CUT
        yield

    runner = FakeRunner(script, heartbeat_seconds=0.1)
    with serving(make_site(runner)) as live, live.connect() as client:
        client.send_chat()
        _, status, _ = client.receive_head()
        client.read_until(b":\n\n")
        go_on.set()
        rest = client.read_until(b"\r\n0\r\n\r\n")

    assert status == 200
    assert b'"code":"backend_bad_reply"' in rest
    assert b"data: [DONE]" in rest


def test_heartbeats_and_events_never_mix_up_their_bytes() -> None:
    def script(turn: Turn) -> Iterator[Event]:
        for number in range(400):
            if number % 20 == 0:
                turn.cancel.wait(0.012)
            yield TextDelta(f"{number},")
        yield Finish()

    runner = FakeRunner(script, heartbeat_seconds=0.01)
    with serving(make_site(runner)) as live:
        streams: list[Any] = [None] * 8
        threads = [
            threading.Thread(target=lambda i=i: streams.__setitem__(i, live.chat(stream=True)))
            for i in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)

    expected = "".join(f"{number}," for number in range(400))
    assert [stream.text for stream in streams] == [expected] * 8


def test_a_connection_goes_on_after_an_error_and_is_closed_after_a_stream() -> None:
    runner = FakeRunner(refusal=ConfigError("is broken."))
    with serving(make_site(runner)) as live, live.connect() as client:
        client.send_chat()
        assert client.receive().status == 400
        client.send_chat(stream=False)
        assert client.receive().status == 400
        runner.refusal = None
        client.send_chat(stream=False)
        assert client.receive().json["choices"][0]["message"]["content"] == "hellothereworld"
        client.send_chat()
        streamed = client.receive()
        assert client.read_to_end() == b""

    assert streamed.complete
    assert streamed.headers["connection"] == "close"


@pytest.mark.parametrize("fails", [False, True], ids=["streamed", "failing"])
def test_an_http_1_0_client_gets_a_body_that_ends_with_the_connection(fails: bool) -> None:
    script = says(TextDelta("old"), CUT if fails else Finish())
    with serving(make_site(FakeRunner(script))) as live, live.connect() as client:
        body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
        client.send("POST", "/v1/chat/completions", body, version="1.0")
        received = client.receive()

    assert received.version == "HTTP/1.0"
    assert "transfer-encoding" not in received.headers
    assert received.text == "old"
    assert received.frames[-1] == "data: [DONE]"


def test_a_stopped_server_ends_its_streams_with_an_error_frame() -> None:
    def script(turn: Turn) -> Iterator[Event]:
        yield TextDelta("begun")
        turn.silence()

    runner = FakeRunner(script)
    with serving(make_site(runner)) as live, live.connect() as client:
        client.send_chat()
        client.read_until(b"begun")
        live.site.pulse.stop_all(ServerStopping)
        rest = client.read_until(b"\r\n0\r\n\r\n")

    assert b'"code":"server_stopping"' in rest
    assert b"data: [DONE]" in rest


def test_names_of_ignored_fields_cannot_break_headers_or_log_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    evil = {"seed\r\nSet-Cookie: a=b": 1, "größe": 2, "x" * 5000: 3}
    with serving(make_site(FakeRunner())) as live:
        for stream in (True, False):
            received = live.chat(stream=stream, **evil)
            assert received.status == 200
            assert "set-cookie" not in received.headers
            assert received.headers["x-headrace-ignored"].startswith("seed??Set-Cookie: a=b, gr??e")

    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("ignored fields")]
    assert len(lines) == 2
    assert not any("\n" in line for line in lines)


def test_a_request_writes_at_most_three_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with serving(make_site(FakeRunner(ignored=("seed", "foo")))) as live:
        received = live.chat(stream=True)

    lines = [r.getMessage() for r in caplog.records if r.name.startswith("Middleware")]
    assert len(lines) == 2
    assert lines[0].startswith(f"answered request={received.headers['x-request-id']}")
    assert lines[1].startswith("ignored fields: seed, foo request=")


def test_every_error_of_the_tree_can_end_a_stream() -> None:
    def leaves(cls: type[MiddlewareError]) -> Iterator[type[MiddlewareError]]:
        yield cls
        for child in cls.__subclasses__():
            yield from leaves(child)

    for cls in leaves(MiddlewareError):
        error = cls.__new__(cls)
        MiddlewareError.__init__(error, "told")
        with serving(make_site(FakeRunner(says(TextDelta("x"), error)))) as live:
            assert error_of(live.chat(stream=True).frames)["message"] == "told"
