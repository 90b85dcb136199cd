"""What makes clients fail or hang, coming from a back end: no client notices (clients §2, §6.2)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.doors import Door, every_door, every_tool_door
from tests.fakes.headrace import Tree, answers
from tests.fakes.upstream import (
    DONE,
    LAST_CHUNK,
    Step,
    Upstream,
    chunk,
    delta,
    frame,
    head,
    reply,
    stream,
    usage_chunk,
    whole,
)
from tests.scenarios.test_doors_answers import tools_of

END = delta(finish_reason="stop")


def bare(*texts: str) -> list[dict[str, Any]]:
    """Chunks that hold nothing but what is said."""
    return [{"choices": [{"delta": {"content": text}}]} for text in texts]


def typed(kind: str | None, *pieces: bytes | dict[str, Any]) -> list[Step]:
    """A stream under another content type, or under none."""
    headers = {} if kind is None else {"Content-Type": kind}
    frames = [piece if isinstance(piece, bytes) else frame(piece) for piece in pieces]
    return [head(headers=headers, chunked=True), *map(chunk, frames), LAST_CHUNK]


def with_line_ends(steps: Sequence[Step]) -> list[Step]:
    data = b"".join(
        frame(piece).replace(b"data: ", b"event: message\r\ndata:").replace(b"\n\n", b"\r\n\r\n")
        for piece in (delta("Hel"), delta("lo"), END)
    )
    return typed("text/event-stream", b": ping\r\n\r\n:\r\n" + data)


@dataclass(frozen=True)
class Odd:
    id: str
    play: Any
    finish: str | None = "stop"
    error: str = ""
    text: str = "Hello"


ODD = [
    Odd("no role, index, id, model", stream(*bare("Hel", "lo"), END, DONE)),
    Odd("last chunk without delta", stream(
        delta("Hello"), {"choices": [{"index": 0, "finish_reason": "stop"}]}, DONE)),
    Odd("no finish reason, but [DONE]", stream(delta("Hel"), delta("lo"), DONE)),
    Odd("unknown finish reason", stream(delta("Hello"), delta(finish_reason="end_turn"), DONE)),
    Odd("max_tokens as reason", stream(
        delta("Hello"), delta(finish_reason="max_tokens"), DONE), finish="length"),
    Odd("no [DONE]", stream(delta("Hello"), END)),
    Odd("null content", stream(
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]},
        delta("Hello"), END, DONE)),
    Odd("chunks without choices", stream(
        {"choices": []}, delta("Hel"), {"id": "x"}, delta("lo"), END, {"choices": []}, DONE)),
    Odd("usage null everywhere", stream(
        *({**chunk_, "usage": None} for chunk_ in (delta("Hello"), END)), DONE)),
    Odd("comments, CRLF, event lines, no space", with_line_ends(())),
    Odd("no content type", typed(None, delta("Hello"), END, DONE)),
    Odd("content type text/plain", typed("text/plain", delta("Hello"), END, DONE)),
    Odd("content type json", typed("application/json", delta("Hello"), END, DONE)),
    Odd("a body in place of a stream", whole(reply("Hello"))),
    Odd("content as parts", whole(reply(None) | {"choices": [{"index": 0, "message": {
        "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]},
        "finish_reason": "stop"}]})),
    Odd("an error as a text", stream(delta("Hello"), {"error": "out of memory"}),
        finish=None, error="out of memory"),
    Odd("an error as an object", stream(delta("Hello"), {"error": {"message": "boom"}}),
        finish=None, error="boom"),
    Odd("FastAPI's detail", whole({"detail": "no such thing"}, 422),
        finish=None, error="no such thing", text=""),
    Odd("an error page", whole(b"<html><h1>Bad</h1></html>", 502, {"Content-Type": "text/html"}),
        finish=None, error="502", text=""),
    Odd("no choices", whole({"choices": []}), finish=None, error="Main", text=""),
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.id)
@every_door
def test_an_odd_stream_leaves_every_door_as_it_should_be(
    door: Door, odd: Odd, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with Upstream(odd.play) as model, tree.model("Main", model.url).serve() as live:
        told = door.ask(live, stream=True)
        assert len(model.asked) == 1

    assert told.text == odd.text
    assert told.finish == odd.finish
    if odd.error:
        assert told.error is not None
        assert odd.error in told.error
        assert "<html" not in told.error
    else:
        assert told.error is None
        assert told.ended


def calls(*fragments: dict[str, Any], reason: str = "tool_calls") -> list[Step]:
    return stream(
        *(delta(tool_calls=[fragment]) for fragment in fragments),
        delta(finish_reason=reason),
        usage_chunk(1, 1),
        DONE,
    )


def call(arguments: Any, name: str | None = "f", **others: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({} if name is None else {"name": name})}
    return {"function": function, **others}


X = json.dumps({"x": 1})

ODD_CALLS = [
    Odd("no index", calls(call(X, id="a"))),
    Odd("no id", calls(call(X, index=0))),
    Odd("no type", calls(call(X, index=0, id="a"))),
    Odd("id and name repeated", calls(
        call('{"x"', index=0, id="a"), call(": 1}", index=0, id="a"))),
    Odd("arguments as an object", calls(call({"x": 1}, index=0, id="a"))),
    Odd("finish reason stop", calls(call(X, index=0, id="a"), reason="stop")),
    Odd("null name later", calls(
        call('{"x"', index=0, id="a"),
        {"index": 0, "function": {"name": None, "arguments": ": 1}"}})),
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_CALLS, ids=lambda odd: odd.id)
@every_tool_door
def test_odd_tool_calls_leave_every_door_as_they_should_be(
    door: Door, odd: Odd, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers(allowTools=True)])
    with Upstream(odd.play) as model, tree.model("Main", model.url).serve() as live:
        told = door.ask(live, stream=True, tools=tools_of(door))

    assert told.calls == [("f", {"x": 1})]
    assert told.finish == "tool_calls"


@every_door
def test_one_line_of_broken_json_is_an_error_and_not_a_wrong_answer(
    door: Door, tmp_path: Path
) -> None:
    play = stream(delta("Hello"), b"data: {broken\n\n", delta(" there"), END, DONE)
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with Upstream(play) as model, tree.model("Main", model.url).serve() as live:
        told = door.ask(live, stream=True)

    # Either it is left out or it is said; never passed on.
    assert "broken" not in told.text
    assert told.ended
