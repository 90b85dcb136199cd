"""Clients that leave, read nothing or come in crowds, and what goes on behind their answers."""

import logging
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from werkzeug.test import EnvironBuilder

from Middleware.api.active import ActiveRequest
from Middleware.api.doors.openai import ChatFormat
from Middleware.api.streaming import AnswerStream, Streaming
from Middleware.core.clock import SystemClock
from Middleware.core.errors import BackendBadReply, ServerStopping
from Middleware.core.events import Event, Finish, TextDelta
from Middleware.core.messages import ChatRequest
from Middleware.workflows.managers.request_runner import RequestInfo
from tests.fakes.live_site import CHAT, HI, Client, Live, make_site, serving, wait_until
from tests.fakes.runner import DEADLINE_SECONDS, FakeRunner, Turn, says

CUT = BackendBadReply("fast", "closed the connection in the middle of its answer.")


@dataclass(frozen=True)
class Leaving:
    id: str
    before: int
    """Events that the client sees before it goes."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.id)
        for case in (
            Leaving("before the first byte", 0),
            Leaving("in the middle of a stream", 3),
        )
    ],
)
def test_a_client_that_leaves_cancels_the_run(
    case: Leaving, caplog: pytest.LogCaptureFixture
) -> None:
    """Field cases C-18 and C-19."""
    caplog.set_level(logging.INFO)

    def script(turn: Turn) -> Iterator[Event]:
        for _ in range(case.before):
            yield TextDelta("word ")
        turn.silence()
        yield Finish()

    rested = threading.Event()
    runner = FakeRunner(script, rest=lambda turn: rested.set())
    with serving(make_site(runner)) as live:
        client = live.connect()
        client.send_chat()
        turn = runner.turn
        for _ in range(case.before):
            client.read_until(b"word ")
        client.close()
        assert turn.ended.wait(2)
        wait_until(live.is_quiet)

    assert turn.outcome == "RunCancelled"
    assert turn.cancel.cancelled
    assert not rested.is_set()
    lines = [record for record in caplog.records if record.name.startswith("Middleware")]
    assert [record.getMessage() for record in lines] == [f"client left request={turn.request_id}"]
    assert [record.levelname for record in lines] == ["INFO"]
    assert "Traceback" not in caplog.text


def test_a_client_that_leaves_between_two_events_closes_the_run() -> None:
    """The run never looks at its token: the write is what fails."""
    gone = threading.Event()

    def script(turn: Turn) -> Iterator[Event]:
        yield TextDelta("first")
        assert gone.wait(DEADLINE_SECONDS)
        for _ in range(100_000):
            yield TextDelta("more " * 1000)
        yield Finish()

    runner = FakeRunner(script)
    with serving(make_site(runner)) as live:
        client = live.connect()
        client.send_chat()
        client.read_until(b"first")
        client.close()
        gone.set()
        assert runner.turn.ended.wait(DEADLINE_SECONDS)
        wait_until(live.is_quiet)

    assert runner.turn.outcome == "closed"
    assert runner.turn.cancel.cancelled


def test_a_client_that_leaves_while_a_whole_answer_is_made_cancels_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    def script(turn: Turn) -> Iterator[Event]:
        yield TextDelta("never seen")
        turn.silence()

    runner = FakeRunner(script)
    with serving(make_site(runner)) as live:
        client = live.connect()
        client.send_chat(stream=False)
        turn = runner.turn
        client.close()
        assert turn.ended.wait(2)
        wait_until(live.is_quiet)

    assert turn.outcome == "RunCancelled"
    messages = [r.getMessage() for r in caplog.records if r.name.startswith("Middleware")]
    assert messages == [f"client left request={turn.request_id}"]


def test_a_client_that_reads_nothing_holds_up_nobody_else() -> None:
    """The worker blocks on what the client does not take; heartbeats of others go on."""
    stuck = threading.Event()

    def script(turn: Turn) -> Iterator[Event]:
        if turn.asked.model == "flood":
            while True:
                yield TextDelta("x" * 1_000_000)
                stuck.set()
        turn.cancel.wait(0.5)
        yield Finish()

    runner = FakeRunner(script, heartbeat_seconds=0.1)
    with serving(make_site(runner)) as live:
        flooded = live.connect()
        flooded.send_chat(model="flood")
        assert stuck.wait(DEADLINE_SECONDS)
        beside = live.chat(stream=True)
        flooded.close()
        wait_until(live.is_quiet)

    assert ":" in beside.frames
    assert runner.turns[0].outcome in ("closed", "RunCancelled")


def test_nodes_behind_the_answer_run_in_the_background_and_outlive_the_client() -> None:
    go_on = threading.Event()
    runner = FakeRunner(rest=lambda turn: wait_for(go_on))
    with serving(make_site(runner)) as live:
        for stream in (True, False):
            received = live.chat(stream=stream)
            turn = runner.turns[-1]
            assert received.complete
            wait_until(lambda: not live.server.connections)
            assert not turn.rest_done.is_set()
            assert len(live.site.background) == 1
            go_on.set()
            assert turn.rest_done.wait(DEADLINE_SECONDS)
            wait_until(live.is_quiet)
            assert not turn.cancel.cancelled
            assert turn.rest_thread.startswith("after-")
            go_on.clear()


def wait_for(event: threading.Event) -> None:
    assert event.wait(DEADLINE_SECONDS)


def test_a_failure_in_the_background_is_logged_and_hurts_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(turn: Turn) -> None:
        raise CUT

    runner = FakeRunner(rest=fail)
    with serving(make_site(runner)) as live:
        received = live.chat(stream=True)
        wait_until(live.is_quiet)
        again = live.chat()

    assert received.frames[-1] == "data: [DONE]"
    assert again.status == 200
    assert "background nodes failed" in caplog.text


def test_without_nodes_behind_the_answer_the_run_is_cleaned_up_in_place() -> None:
    runner = FakeRunner()
    with serving(make_site(runner)) as live:
        live.chat(stream=True)
        assert runner.turn.rest_done.wait(DEADLINE_SECONDS)

    assert runner.turn.rest_thread == "worker"
    assert live.site.background.threads == 0


def test_a_failed_answer_has_no_rest() -> None:
    runner = FakeRunner(says(TextDelta("x"), CUT), rest=lambda turn: None)
    with serving(make_site(runner)) as live:
        live.chat(stream=True)
        live.chat()
        wait_until(live.is_quiet)

    assert not any(turn.rest_done.is_set() for turn in runner.turns)


def test_two_hundred_streams_half_of_them_cut_leave_nothing_behind() -> None:
    randomness = random.Random(7)

    def script(turn: Turn) -> Iterator[Event]:
        for number in range(10):
            turn.cancel.wait(0.01)
            yield TextDelta(f"{number} ")
        yield Finish()

    runner = FakeRunner(script, heartbeat_seconds=0.005, rest=lambda turn: None)
    results: list[str] = []
    with serving(make_site(runner), threads=220) as live:
        threads = [
            threading.Thread(
                target=one_of_many, args=(live, results, randomness.choice((None, 0, 3, 40)))
            )
            for _ in range(200)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        wait_until(live.is_quiet)
        assert live.site.background.wait_until_idle(0) is True

    expected = "".join(f"{number} " for number in range(10))
    whole = [result for result in results if result != "cut"]
    assert len(results) == 200
    assert len(whole) >= 30
    assert set(whole) == {expected}
    assert not [thread for thread in threading.enumerate() if thread.name == "worker"]
    wait_until(lambda: all(turn.ended.is_set() for turn in runner.turns))


def one_of_many(live: Live, results: list[str], cut_after: int | None) -> None:
    """A whole stream, or one that is given up after some bytes of it."""
    if cut_after is None:
        results.append(live.chat(stream=True).text)
        return
    with live.connect() as client:
        client.send_chat()
        client.read(cut_after)
    results.append("cut")


def test_the_server_stays_quick_while_many_requests_are_slow() -> None:
    """Field case C-32."""
    runner = FakeRunner(lambda turn: slow(turn))
    clients: list[Client] = []
    with serving(make_site(runner), threads=60) as live:
        for _ in range(50):
            client = live.connect()
            client.send_chat(stream=False)
            clients.append(client)
        wait_until(lambda: len(runner.turns) == 50)
        listed = live.ask("GET", "/v1/models")
        for client in clients:
            client.close()
        wait_until(live.is_quiet)

    assert listed.status == 200


def slow(turn: Turn) -> Iterator[Event]:
    turn.silence()
    yield Finish()


def stream_of(
    active: ActiveRequest, events: Iterator[Event], written: list[bytes], ended: list[bool]
) -> AnswerStream:
    """A stream without a server: what is written is kept in ``written``."""
    asked = ChatRequest(model="m", messages=())
    written_as = ChatFormat(SystemClock())

    def on_end(complete: bool) -> None:
        active.look(time.monotonic())
        ended.append(complete)

    parts = Streaming(
        active=active,
        answer=FakeRunner(lambda turn: events).answer(
            asked, RequestInfo(door="d", request_id="r1", cancel=active.cancel)
        ),
        format=written_as,
        encoder=written_as.encoder(asked, request_id="r1", model="m"),
        unsent_bytes=None,
        is_told_in_stream=lambda status: False,
        on_end=on_end,
    )
    return AnswerStream(parts, lambda *_: written.append, [])


def test_a_client_that_leaves_with_the_last_frame_has_its_whole_answer() -> None:
    """It hangs up before the worker is back from sending it."""
    written: list[bytes] = []
    ended: list[bool] = []
    active = ActiveRequest("r1", lambda: b"[DONE]" in b"".join(written))

    list(stream_of(active, iter((TextDelta("x"), Finish())), written, ended))

    assert ended == [True]
    assert not active.cancel.cancelled


def test_a_client_that_leaves_with_a_whole_answer_cancels_nothing() -> None:
    site = make_site(FakeRunner(rest=lambda turn: None))
    body = {"messages": list(HI)}
    environ = EnvironBuilder(CHAT, method="POST", json=body).get_environ()
    environ["waitress.client_disconnected"] = lambda: True

    iterable = site(environ, lambda *_: None)

    assert not site.pulse
    assert b"".join(iterable).startswith(b'{"id"')


def test_nothing_follows_the_last_words_of_an_abandoned_stream() -> None:
    written: list[bytes] = []
    ended: list[bool] = []
    active = ActiveRequest("r1", None)

    def events() -> Iterator[Event]:
        yield TextDelta("before")
        active.abandon(ServerStopping())
        yield TextDelta("after")
        yield Finish()

    list(stream_of(active, events(), written, ended))

    assert b"before" in written[0]
    assert b"server_stopping" in written[-1]
    assert written[-1].endswith(b"data: [DONE]\n\n")
    assert b"after" not in b"".join(written)
    assert ended == [False]


def test_heartbeats_do_not_wait_for_a_client_that_reads_nothing() -> None:
    """More is unsent than the server would take from the Pulse without blocking it."""
    sent = threading.Event()

    def script(turn: Turn) -> Iterator[Event]:
        if turn.asked.model == "flood":
            yield TextDelta("x" * 30_000_000)
            sent.set()
        turn.cancel.wait(0.5)
        yield Finish()

    with serving(make_site(FakeRunner(script, heartbeat_seconds=0.1))) as live:
        flooded = live.connect()
        flooded.send_chat(model="flood")
        assert sent.wait(DEADLINE_SECONDS)
        beside = live.chat(stream=True)
        flooded.close()
        wait_until(live.is_quiet)

    assert beside.frames.count(":") >= 3
