"""Nodes that run at once (design §6)."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, wait_until
from tests.fakes.upstream import SILENCE, Asked, Pause, Step, Upstream, chat, refuses, reply, whole

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def draft(name: str, **options: Any) -> dict[str, Any]:
    return {"title": name, "type": "Standard", "endpointName": "Main", "prompt": name, **options}


JUDGE = {"title": "J", "type": "StaticResponse", "content": "{agent1Output}+{agent2Output}"}
PARALLEL = {"parallel": True}
BRANCHES = [
    draft("one", id="a"),
    draft("two", id="b"),
    {"type": "Parallel", "branches": [["a"], ["b"]]},
    JUDGE,
]


class Meeting:
    """A model that answers nobody before ``count`` have asked."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)

    def __call__(self, asked: Asked) -> list[Step]:
        self._barrier.wait(5)
        return whole(reply(asked.json["messages"][-1]["content"]))


@BOTH
@pytest.mark.parametrize(
    ("nodes", "variables"),
    [([draft("one"), draft("two"), JUDGE], PARALLEL), (BRANCHES, {})],
    ids=["parallel workflow", "Parallel node"],
)
def test_calls_that_do_not_need_each_other_are_made_at_once(
    tmp_path: Path, nodes: list[dict[str, Any]], variables: dict[str, Any], streamed: bool
) -> None:
    tree = Tree(tmp_path).workflow("w", nodes, **variables)
    with Upstream(Meeting(2)) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="w", stream=streamed)

    text = received.text if streamed else received.json["choices"][0]["message"]["content"]
    assert text == "one+two"
    names = [step["nodeName"] for step in live.runs[0]["context"]["steps"]]
    assert names == (
        ["a", "b", "node_3", "node_4"] if not variables else ["node_1", "node_2", "node_3"]
    )


def test_a_node_waits_for_the_outputs_it_names(tmp_path: Path) -> None:
    nodes = [draft("one"), draft("two {agent1Output}"), {**JUDGE, "content": "{agent2Output}"}]
    tree = Tree(tmp_path).workflow("w", nodes, parallel=True)
    with (
        Upstream(lambda asked: whole(reply(asked.json["messages"][-1]["content"]))) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        received = live.chat(model="w")

    assert received.json["choices"][0]["message"]["content"] == "two one"


def test_the_responder_waits_only_for_what_it_names(tmp_path: Path) -> None:
    slow = Pause()

    def answer(asked: Asked) -> list[Step]:
        text = asked.json["messages"][-1]["content"]
        return [slow, *whole(reply(text))] if text == "two" else whole(reply(text))

    nodes = [draft("one"), draft("two"), {**JUDGE, "content": "{agent1Output}"}]
    tree = Tree(tmp_path).workflow("w", nodes, parallel=True)
    with Upstream(answer) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="w", stream=True)
        assert received.text == "one"
        assert live.runs[0]["status"] == "running"
        slow.set()
        wait_until(lambda: live.runs[0]["status"] == "succeeded")


def test_the_first_failure_stops_the_others_and_is_what_the_client_is_told(tmp_path: Path) -> None:
    meeting = threading.Barrier(2)

    def answer(asked: Asked) -> list[Step]:
        # Both have asked before one of them fails.
        meeting.wait(5)
        bad = asked.json["messages"][-1]["content"] == "two"
        return refuses(500, "two is broken") if bad else [SILENCE]

    tree = Tree(tmp_path).workflow("w", [draft("one"), draft("two"), JUDGE], parallel=True)
    with Upstream(answer) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="w")
        assert model.left.wait(5)

    assert received.status == 502
    assert "two is broken" in received.json["error"]["message"]


@pytest.mark.parametrize("nodes", [[draft("one"), draft("two"), JUDGE], BRANCHES])
def test_a_client_that_leaves_cancels_all(tmp_path: Path, nodes: list[dict[str, Any]]) -> None:
    tree = Tree(tmp_path).workflow("w", nodes, parallel=True)
    with Upstream([SILENCE]) as model, tree.model("Main", model.url).serve() as live:
        with live.connect() as client:
            client.send_chat(model="w")
            model.wait_for(2)
        for asked in model.asked:
            assert asked.left.wait(5)
        wait_until(lambda: live.runs[0]["status"] == "cancelled")


def test_branches_run_their_nodes_in_order(tmp_path: Path) -> None:
    nodes = [
        draft("one", id="a"),
        draft("after {agent1Output}", id="b"),
        draft("two", id="c"),
        {"type": "Parallel", "branches": [["a", "b"], ["c"]]},
        {**JUDGE, "content": "{agent4Output}"},
    ]
    tree = Tree(tmp_path).workflow("w", nodes)
    with (
        Upstream(lambda asked: whole(reply(asked.json["messages"][-1]["content"]))) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        received = live.chat(model="w")

    assert received.json["choices"][0]["message"]["content"] == "after one\n\ntwo"


def test_a_branch_of_unknown_nodes_is_an_error_with_a_hint(tmp_path: Path) -> None:
    nodes = [draft("one", id="first"), {"type": "Parallel", "branches": [["frist"]]}, JUDGE]
    with Upstream(chat("x")) as model:
        tree = Tree(tmp_path).workflow("w", nodes).model("Main", model.url)
        with tree.serve() as live:
            received = live.chat(model="w")

    assert received.status == 400
    assert "Did you mean 'first'?" in received.json["error"]["message"]
