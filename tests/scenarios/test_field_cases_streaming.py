"""Field cases C-01 to C-04: how a model's stream ends, and what must not end it."""

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import (
    CUT,
    DONE,
    RESET,
    Asked,
    Ending,
    Step,
    Upstream,
    delta,
    head,
    reply,
    stream,
    whole,
)
from tests.scenarios.ways import COLLECTED, COLLECTED_WHOLE, STREAMED, WAYS, WHOLE, Way, answered

CUT_OFF = (
    "Workflow 'assistant', node 'Answer': "
    "Endpoint 'Main' closed the connection in the middle of its answer."
)


def cut_whole(asked: Asked) -> list[Step]:
    """Streamed: two chunks, then nothing. Whole: a body that is shorter than it says."""
    if asked.json["stream"]:
        return stream(delta("Hel"), delta("lo"), CUT)
    (data,) = whole(reply("Hello"))
    assert isinstance(data, bytes)
    return [data[:-9], CUT]


@pytest.mark.parametrize("ending", [CUT, RESET], ids=["closed", "reset"])
def test_c01_a_stream_that_dies_ends_with_an_error_frame_and_its_end_marker(
    ending: Ending, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    seen = threading.Event()
    play = stream(delta("Hel"), delta("lo"), seen, ending)
    with (
        Upstream(play) as model,
        tree.model("Main", model.url).serve() as live,
        live.connect() as client,
    ):
        client.send_chat(model="assistant")
        _, status, headers = client.receive_head()
        begun = client.read_until(b'"content":"lo"')
        seen.set()
        rest = client.read_until(b"\r\n0\r\n\r\n")
        run = live.runs[0]

    assert (status, headers["transfer-encoding"]) == (200, "chunked")
    assert b'"content":"Hel"' in begun
    assert b'data: {"error":{"message":"Workflow' in rest
    assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert b'"finish_reason":"' not in begun + rest
    assert (run["status"], run["partialText"], run["error"]) == ("failed", "Hello", CUT_OFF)


@pytest.mark.parametrize("way", [WHOLE, COLLECTED, COLLECTED_WHOLE], ids=str)
def test_c01_a_whole_answer_that_dies_is_a_502(way: Way, tmp_path: Path) -> None:
    with answered(way, tmp_path, cut_whole) as told:
        assert told.heard.status == 502
        assert told.heard.error == {
            "message": CUT_OFF,
            "type": "server_error",
            "param": None,
            "code": "backend_bad_reply",
        }
        assert told.heard.headers["x-should-retry"] == "false"
        assert (told.run["status"], told.run["error"]) == ("failed", CUT_OFF)
        assert len(told.run["context"]["steps"]) == 1


def test_c01_the_run_keeps_the_partial_text_and_names_the_node(tmp_path: Path) -> None:
    with answered(STREAMED, tmp_path, cut_whole) as told:
        assert told.heard.said == ("Hello", None)
        assert told.heard.error is not None
        assert told.heard.error["message"] == CUT_OFF
        assert told.run["partialText"] == "Hello"
        assert told.first_step["outputData"]["content"] == "Hello"
        assert told.first_step["meta"]["error"] == CUT_OFF


def test_c01_a_sub_workflow_that_dies_fails_its_parent_too(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow(
        "assistant",
        [{"title": "Ask", "type": "CustomWorkflow", "workflowName": "child"}],
    )
    tree.own("child", [answers()])
    with (
        Upstream(stream(delta("Hel"), delta("lo"), CUT)) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        heard = hear(live.chat(model="assistant", stream=True))
        child, parent = live.runs

    assert heard.said == ("Hello", None)
    assert heard.error is not None
    assert heard.error["message"].startswith("Workflow 'child', node 'Answer': ")
    assert [(run["status"], run["partialText"]) for run in (parent, child)] == [
        ("failed", "Hello")
    ] * 2


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_c02_an_answer_with_a_finish_reason_needs_no_end_marker(way: Way, tmp_path: Path) -> None:
    play = stream(delta("All of it."), delta(finish_reason="stop"))
    with answered(way, tmp_path, play) as told:
        assert told.heard.said == ("All of it.", "stop")
        assert told.run["status"] == "succeeded"


def test_c02_a_stream_without_any_ending_was_cut_off(tmp_path: Path) -> None:
    with answered(STREAMED, tmp_path, stream(delta("Half of"), delta(" it"))) as told:
        assert told.heard.said == ("Half of it", None)
        assert told.heard.error is not None
        assert told.heard.error["code"] == "backend_bad_reply"
        assert (told.run["status"], told.run["partialText"]) == ("failed", "Half of it")
        assert len(told.model.asked) == 1


@pytest.mark.parametrize("way", [WHOLE, COLLECTED, COLLECTED_WHOLE], ids=str)
@pytest.mark.parametrize(
    "play",
    [
        stream(delta("Half of"), delta(" it")),
        [head(headers={"Content-Type": "application/json"}) + b'{"choices":[{"mess', CUT],
    ],
    ids=["stream", "body-without-length"],
)
def test_c02_what_was_cut_off_is_no_answer_for_a_node_either(
    play: list[Step], way: Way, tmp_path: Path
) -> None:
    with answered(way, tmp_path, play) as told:
        assert told.heard.status == 502
        assert told.heard.error is not None
        assert told.heard.error["code"] == "backend_bad_reply"
        assert told.run["status"] == "failed"
        assert len(told.model.asked) == 1
        assert len(told.run["context"]["steps"]) == 1


def test_c02_half_a_tool_call_is_never_passed_on_as_a_whole_one(tmp_path: Path) -> None:
    call = {"index": 0, "id": "a1", "function": {"name": "f", "arguments": '{"x":'}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    with answered(
        STREAMED, tmp_path, stream(delta(tool_calls=[call])), node={"allowTools": True}, tools=tools
    ) as told:
        assert told.heard.finish_reason is None
        assert told.heard.error is not None
        assert told.run["status"] == "failed"


HALF_THEN_ALL = (
    stream(delta("Half of")),
    stream(delta("All of it."), delta(finish_reason="stop"), DONE),
)
TRIES_TWICE = {"retry": {"times": 2, "delaySeconds": 0}}


def test_c02_what_the_client_has_seen_is_not_tried_again(tmp_path: Path) -> None:
    with answered(STREAMED, tmp_path, *HALF_THEN_ALL, node=TRIES_TWICE) as told:
        assert told.heard.said == ("Half of", None)
        assert told.heard.error is not None
        assert len(told.model.asked) == 1


@pytest.mark.parametrize("way", [WHOLE, COLLECTED, COLLECTED_WHOLE], ids=str)
def test_c02_what_nobody_has_seen_may_be(way: Way, tmp_path: Path) -> None:
    with answered(way, tmp_path, *HALF_THEN_ALL, node=TRIES_TWICE) as told:
        assert told.heard.said == ("All of it.", "stop")
        assert len(told.model.asked) == 2


QUOTES_THE_END = stream(
    delta("It ends with "),
    delta("data: [DONE]"),
    delta(" on its own line."),
    delta(finish_reason="stop"),
    DONE,
)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_c03_the_end_marker_inside_an_answer_is_text(way: Way, tmp_path: Path) -> None:
    with answered(way, tmp_path, QUOTES_THE_END) as told:
        text = "It ends with data: [DONE] on its own line."
        assert told.heard.said == (text, "stop")
        assert told.first_step["outputData"]["content"] == text


def of(inner: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    """A chunk whose delta is exactly ``inner``."""
    return {"choices": [{"index": 0, "delta": inner, "finish_reason": finish_reason}]}


@dataclass(frozen=True)
class Emptiness:
    id: str
    delta: dict[str, Any]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(
    "empty",
    [
        Emptiness("null", {"content": None}),
        Emptiness("absent", {}),
        Emptiness("empty", {"content": ""}),
        Emptiness("everything-null", {"content": None, "tool_calls": None, "refusal": None}),
    ],
    ids=lambda empty: empty.id,
)
def test_c04_a_delta_without_text_adds_nothing(empty: Emptiness, way: Way, tmp_path: Path) -> None:
    play = stream(
        of({"role": "assistant", **empty.delta}),
        of({"content": "te"}),
        of(empty.delta),
        of({"content": "st"}),
        of(empty.delta, "stop"),
        DONE,
    )
    with answered(way, tmp_path, play) as told:
        assert told.heard.said == ("test", "stop")
        assert told.first_step["outputData"]["content"] == "test"


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_c04_the_reported_stream_gives_its_text(way: Way, tmp_path: Path) -> None:
    play = stream(
        of({"role": "assistant", "content": None}), of({"content": "test"}), of({}, "stop")
    )
    with answered(way, tmp_path, play) as told:
        assert told.heard.said == ("test", "stop")
