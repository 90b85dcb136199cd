"""One table of answers through all doors: the same workflow, text, finish and usage (issue 3)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.doors import DOORS, Door, every_door, every_tool_door
from tests.fakes.headrace import Headrace, Tree, answers
from tests.fakes.upstream import (
    CUT,
    DONE,
    SILENCE,
    Answer,
    Asked,
    Step,
    Upstream,
    chat,
    delta,
    refuses,
    reply,
    stream,
    usage_chunk,
    whole,
)
from tests.scenarios.modes import both_modes

TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}},
]


def tools_of(door: Door) -> list[Any]:
    if door.id == "responses":
        return [{"type": "function", **tool["function"]} for tool in TOOLS]
    if door.id == "messages":
        return [
            {"name": tool["function"]["name"], "input_schema": {"type": "object"}} for tool in TOOLS
        ]
    return TOOLS


@contextmanager
def serving(
    root: Path, *plays: Answer, node: dict[str, Any] | None = None, **user: Any
) -> Iterator[tuple[Headrace, Upstream]]:
    tree = Tree(root, **user).workflow("assistant", [answers(**(node or {}))])
    with Upstream(*plays) as model, tree.model("Main", model.url).serve() as live:
        yield live, model


def thinking(asked: Asked) -> list[Step]:
    if not asked.json.get("stream"):
        return whole(reply("Hello", reasoning_content="hm"))
    return stream(
        {"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]},
        delta("Hello"),
        delta(finish_reason="stop"),
        usage_chunk(5, 7),
        DONE,
    )


@dataclass(frozen=True)
class Case:
    id: str
    play: Any
    text: str
    finish: str = "stop"
    reasoning: str = ""


CASES = [
    Case("text", chat("Hel", "lo"), "Hello"),
    Case("unicode", chat("Grüße ", "🌊\n", "\u2028x"), "Grüße 🌊\n\u2028x"),
    Case("length", chat("Hel", finish_reason="length"), "Hel", finish="length"),
    Case("thoughts", thinking, "Hello", reasoning="hm"),
    Case("white space", chat("```\n", "  x\n", "```"), "```\n  x\n```"),
    Case("empty", chat(""), ""),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@both_modes
@every_door
def test_all_doors_tell_the_same(door: Door, stream: bool, case: Case, tmp_path: Path) -> None:
    with serving(tmp_path, case.play) as (live, model):
        fields = {"stream_options": {"include_usage": True}} if stream else {}
        told = door.ask(live, "hi", stream=stream, **fields)

    assert told.status == 200
    assert (told.text, told.finish) == (case.text, case.finish)
    assert told.usage == (5, 7)
    assert told.ended == stream
    if door.id != "completions":
        assert told.reasoning == case.reasoning
    assert model.asked[0].json["messages"][-1] == {"role": "user", "content": "hi"}


def calling(asked: Asked) -> list[Step]:
    """Two calls, with the faults of C-09 to C-13: an index used twice, names null, objects."""
    if not asked.json.get("stream"):
        calls = [
            {"id": "a1", "function": {"name": "f", "arguments": {"x": 1}}},
            {"id": "a2", "type": "function", "function": {"name": "g", "arguments": ""}},
        ]
        return whole(reply(None, tool_calls=calls))
    return stream(
        delta(tool_calls=[{"index": 0, "id": "a1", "function": {"name": "f", "arguments": ""}}]),
        delta(tool_calls=[{"index": 0, "function": {"name": None, "arguments": '{"x"'}}]),
        delta(tool_calls=[{"index": 0, "function": {"name": "", "arguments": ": 1}"}}]),
        delta(tool_calls=[{"index": 0, "id": "a2", "function": {"name": "g", "arguments": ""}}]),
        delta(finish_reason="stop"),
        usage_chunk(5, 7),
        DONE,
    )


@both_modes
@every_tool_door
def test_tool_calls_of_a_sloppy_backend_arrive_whole_at_every_door(
    door: Door, stream: bool, tmp_path: Path
) -> None:
    with serving(tmp_path, calling, node={"allowTools": True}) as (live, model):
        told = door.ask(live, stream=stream, tools=tools_of(door))

    assert told.calls == [("f", {"x": 1}), ("g", {})]
    assert told.finish == "tool_calls"
    assert [tool["function"]["name"] for tool in model.asked[0].json["tools"]] == ["f", "g"]


@dataclass(frozen=True)
class Failure:
    id: str
    play: Any
    status: int
    says: str
    retry: str | None = None


FAILURES = [
    Failure("bad request", refuses(400, "too long"), 400, "too long"),
    Failure("their key", refuses(401, "bad key"), 502, "bad key", "false"),
    Failure("rate limit", refuses(429, "slow down", {"Retry-After": "7"}), 429, "slow down"),
    Failure("broken", refuses(500, "oh no"), 502, "oh no", "false"),
    Failure("overloaded", refuses(529, "busy"), 503, "busy"),
    Failure("error in a 200", whole({"error": {"message": "odd", "code": 429}}), 429, "odd"),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.id)
@both_modes
@every_door
def test_a_failure_before_the_first_byte_keeps_its_status(
    door: Door, stream: bool, failure: Failure, tmp_path: Path
) -> None:
    with serving(tmp_path, failure.play) as (live, model):
        told = door.ask(live, stream=stream)

    assert told.status == failure.status
    assert told.error is not None
    assert failure.says in told.error
    assert told.headers.get("x-should-retry") == failure.retry
    assert told.headers["x-request-id"]
    if failure.status == 429 and failure.id == "rate limit":
        assert told.headers["retry-after"] == "7"
    assert len(model.asked) == 1


@every_door
def test_a_failure_after_the_first_byte_is_an_error_frame_and_a_proper_end(
    door: Door, tmp_path: Path
) -> None:
    with serving(tmp_path, stream(delta("Hel"), delta("lo"), CUT)) as (live, _):
        told = door.ask(live, stream=True)

    assert told.text == "Hello"
    assert told.error is not None
    assert told.finish is None
    assert told.ended


@every_door
def test_silence_is_filled_with_signs_of_life(door: Door, tmp_path: Path) -> None:
    with serving(tmp_path, stream(SILENCE), heartbeatSeconds=0.1) as (live, model):
        with live.connect() as client:
            door.send(client, stream=True)
            _, status, headers = client.receive_head()
            assert status == 200
            kind = headers["content-type"]
            seen = b""
            mark = {
                "chat": b":\n\n",
                "completions": b":\n\n",
                "responses": b"event: response.in_progress",
                "messages": b"event: ping",
            }.get(door.id, b'"done":false')
            for _ in range(3):
                seen += client.read_until(mark)
        assert model.asked[0].left.wait(2), "the backend was not told that the client left"

    wanted = "application/x-ndjson" if door.id.startswith("ollama") else "text/event-stream"
    assert kind.startswith(wanted)


@both_modes
@every_door
def test_a_client_that_leaves_ends_the_backend_call(
    door: Door, stream: bool, tmp_path: Path
) -> None:
    with serving(tmp_path, [SILENCE]) as (live, model):
        with live.connect() as client:
            door.send(client, stream=stream)
            asked = model.wait_for(1)
        assert asked.left.wait(1), "the backend call went on for more than a second"
        assert live.finished()[0]["status"] == "cancelled"


@pytest.mark.parametrize("door", [door for door in DOORS if door.cancels], ids=str)
def test_a_request_is_cancelled_by_its_id(door: Door, tmp_path: Path) -> None:
    with serving(tmp_path, stream(delta("Hel"), SILENCE)) as (live, model):
        with live.connect() as client:
            door.send(client, stream=True)
            client.read_until(b'"request_id":"')
            request_id = client.read_until(b'"')[:-1].decode()
            strange = live.ask("DELETE", door.path, {"request_id": request_id}, x_api_key="other")
            assert strange.status == 200
            assert not model.asked[0].left.wait(0.3)
            received = live.ask("DELETE", door.path, {"request_id": request_id})
            rest = client.read_until(b'"done":true')
        assert model.asked[0].left.wait(1)

    assert received.json == {"status": "cancelled", "request_id": request_id}
    assert b"The request was cancelled." in rest


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"request_id": 5}', b"{"])
def test_a_cancellation_without_an_id_is_malformed(body: bytes, tmp_path: Path) -> None:
    with serving(tmp_path) as (live, _):
        received = live.ask("DELETE", "/api/chat", body)

    assert received.status == 400
    assert isinstance(received.json["error"], str)
