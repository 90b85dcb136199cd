"""A client that leaves: what it was waiting for is stopped, whatever that was (C-18, C-19)."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Headrace, Tree, answers, calls, static, wait_until
from tests.fakes.upstream import SILENCE, Pause, Step, Upstream, chat, delta, head, stream

SECONDS = 0.5
"""After which the model server must know."""


def node(title: str, endpoint: str = "Main", **options: Any) -> dict[str, Any]:
    return answers(endpoint, title=title, **options)


@dataclass(frozen=True)
class Phase:
    id: str
    nodes: list[dict[str, Any]]
    model: Sequence[Step] = (SILENCE,)
    """What ``Main`` says before the client leaves."""
    stream: bool = True
    read: bytes = b""
    """What the client has read when it leaves."""
    children: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    cancelled: tuple[str, ...] = ("'First'",)
    """The nodes that were running, outermost run first."""
    said: str = ""


LATER = [node("Second", "Later"), node("Third", "Later", is_responder=True)]
SILENT = [node("First"), *LATER]
THREE = {
    "Child": [calls("Grandchild", title="Second")],
    "Grandchild": [node("Third", is_responder=True), node("Fourth", "Later")],
}

PHASES = [
    Phase("before the answer begins", [node("First")]),
    Phase("before the answer begins, whole", [node("First")], stream=False),
    Phase("before the first token", [node("First")], stream(SILENCE)),
    Phase(
        "in the middle of a body",
        [node("First")],
        [head(headers={"Content-Length": "1000"}) + b'{"choices": [', SILENCE],
        stream=False,
    ),
    Phase(
        "between two tokens",
        [node("First")],
        stream(delta("Hel"), SILENCE),
        read=b"Hel",
        said="Hel",
    ),
    Phase("while headers and heartbeats have gone out", [node("First")], read=b": "),
    Phase("in a silent first node", SILENT),
    Phase(
        "in a silent first node that the run could do without",
        [node("First", onError="continue", retry={"times": 3}), *LATER],
    ),
    Phase("in a silent first node, whole", SILENT, stream=False),
    Phase("in a silent first node that has begun to answer", SILENT, stream(delta("Hel"), SILENCE)),
    Phase(
        "in a streaming sub-workflow",
        [calls("Child", title="First", is_responder=True), *LATER],
        stream(delta("Hel"), SILENCE),
        read=b"Hel",
        children=THREE,
        cancelled=("'First'", "'Second'", "'Third'"),
        said="Hel",
    ),
    Phase(
        "in a silent sub-workflow",
        [calls("Child", title="First"), *LATER],
        children=THREE,
        cancelled=("'First'", "'Second'", "'Third'"),
    ),
    Phase(
        "in a silent sub-workflow, whole",
        [calls("Child", title="First"), *LATER],
        stream=False,
        children=THREE,
        cancelled=("'First'", "'Second'", "'Third'"),
    ),
]


def leave(live: Headrace, model: Upstream, case: Phase) -> float:
    """Ask, wait until the phase is reached, and hang up. The moment of that."""
    with live.connect() as client:
        client.send_chat(model="assistant", stream=case.stream)
        model.wait_for(1)
        if case.read:
            client.read_until(case.read)
        return time.monotonic()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in PHASES])
def test_the_model_is_told_at_once_and_nothing_else_is_asked(
    tmp_path: Path, case: Phase, caplog: pytest.LogCaptureFixture
) -> None:
    tree = Tree(tmp_path, heartbeatSeconds=0.1).workflow("assistant", case.nodes)
    for name, nodes in case.children.items():
        tree.own(name, nodes)
    with (
        Upstream(case.model) as model,
        Upstream(chat("never")) as later,
        tree.model("Main", model.url).model("Later", later.url).serve() as live,
    ):
        gone = leave(live, model, case)
        (asked,) = model.asked
        assert asked.left.wait(SECONDS * 2)
        wait_until(live.is_quiet)
        runs = live.finished()[::-1]

    assert asked.left_at is not None
    assert asked.left_at - gone < SECONDS
    assert (len(model.asked), later.asked) == (1, [])
    assert [run["status"] for run in runs] == ["cancelled"] * len(case.cancelled)
    for run, title in zip(runs, case.cancelled, strict=True):
        (step,) = run["context"]["steps"]
        assert f"'{step['meta']['title']}'" == title
        assert step["meta"]["error"] == run["error"]
        assert step["outputData"]["content"] == (case.said or None)
    # The innermost node is the one that was stopped; the runs around it say so too.
    assert {run["error"] for run in runs} == {runs[-1]["error"]}
    assert case.cancelled[-1] in runs[-1]["error"]
    assert [one for one in caplog.records if one.levelno > logging.INFO] == []


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
def test_who_leaves_while_a_category_is_looked_for_gets_no_workflow(
    tmp_path: Path, streams: bool
) -> None:
    routing = {"routingConfig": "desk", "categorizationWorkflow": "Sort"}
    tree = Tree(tmp_path, maxCategorizationAttempts=3, **routing)
    tree.write("Routing/desk.json", {"ANY": {"description": "x", "workflow": "Answer"}})
    tree.own("Sort", [node("First")]).own("Answer", [node("Second", "Later")])
    with (
        Upstream([SILENCE]) as model,
        Upstream(chat("never")) as later,
        tree.model("Main", model.url).model("Later", later.url).serve() as live,
    ):
        with live.connect() as client:
            client.send_chat(model="tester", stream=streams)
            asked = model.wait_for(1)
        assert asked.left.wait(SECONDS)
        wait_until(live.is_quiet)
        (run,) = live.finished()

    assert (len(model.asked), later.asked) == (1, [])
    assert (run["workflow"], run["status"]) == ("Sort", "cancelled")
    assert "'First'" in run["error"]


@pytest.mark.parametrize("level", ["alone", "nested"])
def test_a_model_that_never_pauses_is_told_too(tmp_path: Path, level: str) -> None:
    endless = stream(*[delta("word ")] * 20_000, SILENCE)
    tree = Tree(tmp_path)
    tree.own("Child", [node("First", is_responder=True), node("Second", "Later")])
    tree.workflow("assistant", [calls("Child", title="Outer", is_responder=True), *LATER])
    if level == "alone":
        tree.workflow("assistant", [node("First", is_responder=True), *LATER])
    with (
        Upstream(endless) as model,
        Upstream(chat("never")) as later,
        tree.model("Main", model.url).model("Later", later.url).serve() as live,
    ):
        with live.connect() as client:
            client.send_chat(model="assistant")
            client.read_until(b"word")
            gone = time.monotonic()
        (asked,) = model.asked
        assert asked.left.wait(SECONDS * 2)
        wait_until(live.is_quiet)
        runs = live.finished()

    assert asked.left_at is not None
    assert asked.left_at - gone < SECONDS
    assert later.asked == []
    assert [run["status"] for run in runs] == ["cancelled"] * len(runs)
    assert "'First'" in runs[0]["error"]
    assert runs[0]["partialText"].startswith("word word")


def test_words_of_a_file_end_with_their_client(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [static("word " * 500, title="Long")])
    with tree.serve() as live:
        with live.connect() as client:
            client.send_chat(model="assistant")
            client.read_until(b"word")
        wait_until(live.is_quiet, 2)
        (run,) = live.finished()

    assert run["status"] == "cancelled"
    assert "'Long'" in run["error"]
    assert len(run["partialText"]) < len("word " * 250)


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
def test_who_leaves_with_the_answer_stops_nothing(tmp_path: Path, streams: bool) -> None:
    release = Pause()
    nodes = [node("First", is_responder=True), node("Second", "Later"), static("{agent2Output}!")]
    tree = Tree(tmp_path).workflow("assistant", nodes)
    with (
        Upstream(chat("Hello")) as model,
        Upstream(lambda asked: [release, *chat("done")(asked)]) as later,
        tree.model("Main", model.url).model("Later", later.url).serve() as live,
    ):
        said = live.says(stream=streams)
        later.wait_for(1)
        wait_until(lambda: not live.server.connections)
        release.set()
        outputs = live.outputs("_DefaultWorkflow")

    assert (said, outputs) == ("Hello", ["Hello", "done", "done!"])
    assert not later.left.is_set()
