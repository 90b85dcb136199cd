"""``POST /api/workflows/{path}/test``: the test runner over HTTP."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Headrace, Tree, wait_until
from tests.fakes.live_site import Received
from tests.fakes.upstream import SILENCE, Upstream


def tree(root: Path) -> Tree:
    nodes = [
        {"id": "start", "type": "Start"},
        {"id": "look", "type": "StaticResponse", "content": "{{city}} for {{start}}"},
        {"id": "say", "type": "StaticResponse", "content": "<{{look}}>"},
    ]
    edges = [{"from": "start", "to": "look"}, {"from": "look", "to": "say"}]
    return Tree(root).workflow("w", nodes, edges=edges, globalVariables={"city": "Oslo"})


def run_test(live: Headrace, path: str = "w", **body: Any) -> Received:
    return live.ask("POST", f"/api/workflows/{path}/test", body)


def events_of(received: Received) -> list[tuple[str, Any]]:
    assert received.status == 200, received.body
    events = []
    for frame in received.frames:
        name, data = frame.split("\n", 1)
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


def outputs(received: Received) -> dict[str, str]:
    name, run = events_of(received)[-1]
    assert name == "run_finished"
    return {s["nodeName"]: s["outputData"]["content"] for s in run["context"]["steps"]}


@pytest.mark.parametrize(
    "path", ["w", "_shared/w/_DefaultWorkflow", "_shared%2Fw/_DefaultWorkflow"]
)
def test_steps_come_as_they_happen_and_the_context_last(tmp_path: Path, path: str) -> None:
    with tree(tmp_path).serve() as live:
        received = run_test(live, path, message="hi")

    names = [name for name, _ in events_of(received)]
    assert names.count("step_started") == names.count("step_finished") == 3
    assert outputs(received) == {"start": "hi", "look": "Oslo for hi", "say": "<Oslo for hi>"}


def test_global_variables_may_be_given(tmp_path: Path) -> None:
    with tree(tmp_path).serve() as live:
        received = run_test(live, message="hi", globalVariables={"city": "Rome"})

    assert outputs(received)["say"] == "<Rome for hi>"


def test_pinned_nodes_keep_their_output_and_do_not_run(tmp_path: Path) -> None:
    with tree(tmp_path).serve() as live:
        received = run_test(live, message="hi", pinned={"look": "pinned"})

    steps = events_of(received)[-1][1]["context"]["steps"]
    assert outputs(received)["say"] == "<pinned>"
    assert [step["meta"].get("pinned") for step in steps] == [None, True, None]


def test_one_node_runs_alone_on_pinned_outputs(tmp_path: Path) -> None:
    with tree(tmp_path).serve() as live:
        received = run_test(live, message="hi", node="say", pinned={"look": {"content": "seen"}})

    assert outputs(received) == {"look": "seen", "say": "<seen>"}


def test_a_failed_run_ends_with_its_context_too(tmp_path: Path) -> None:
    with tree(tmp_path).serve() as live:
        received = run_test(live, message="hi", node="sya")

    run = events_of(received)[-1][1]
    assert run["status"] == "failed"
    assert "Did you mean 'say'?" in run["error"]


def test_a_reader_that_leaves_stops_the_run(tmp_path: Path) -> None:
    node = {"id": "a", "type": "Standard", "endpointName": "Main", "prompt": "x"}
    with Upstream([SILENCE]) as model:
        files = Tree(tmp_path).workflow("w", [node]).model("Main", model.url)
        with files.serve() as live:
            with live.connect() as client:
                client.send("POST", "/api/workflows/w/test", {"message": "hi"})
                client.receive_head()
                model.wait_for(1)
            assert model.left.wait(15)
            wait_until(lambda: live.runs[0]["status"] == "cancelled")


BAD = [
    ({}, 400, "message"),
    ({"message": 5}, 400, "message"),
    ({"message": "x", "messages": []}, 400, "message"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, 400, "messages.0.role"),
    ({"message": "x", "globalVariables": []}, 400, "globalVariables"),
    ({"message": "x", "pined": {}}, 400, "pined"),
]


@pytest.mark.parametrize(("body", "status", "param"), BAD)
def test_a_bad_body_is_refused_by_name(
    tmp_path: Path, body: dict[str, Any], status: int, param: str
) -> None:
    with tree(tmp_path).serve() as live:
        received = run_test(live, **body)

    assert (received.status, received.json["error"]["param"]) == (status, param)


@pytest.mark.parametrize(
    ("path", "hint"), [("ww", "Did you mean 'w'?"), ("_shared/ww/_DefaultWorkflow", "folder 'w'?")]
)
def test_an_unknown_workflow_is_an_error_with_the_nearest_name(
    tmp_path: Path, path: str, hint: str
) -> None:
    with tree(tmp_path).serve() as live:
        received = run_test(live, path, message="x")

    assert (received.status, received.json["error"]["code"]) == (404, "workflow_not_found")
    assert hint in received.json["error"]["message"]


def test_a_broken_workflow_is_no_unknown_one(tmp_path: Path) -> None:
    broken = tree(tmp_path).workflow("b", [{"id": "a", "type": "Start"}], edges=[{"from": "a"}])
    with broken.serve() as live:
        received = run_test(live, "b", message="x")

    assert (received.status, received.json["error"]["code"]) == (400, "configuration_error")


def test_every_node_that_asks_a_model_is_heard(tmp_path: Path) -> None:
    nodes = [
        {"id": "draft", "type": "Standard", "endpointName": "Main", "prompt": "draft"},
        {"id": "plain", "type": "StaticResponse", "content": "{{draft}} {{drfat}}"},
        {"id": "say", "type": "Standard", "endpointName": "Main", "prompt": "{{plain}}"},
    ]
    files = Tree(tmp_path).scripted("Main", "You said {input}")
    files.workflow("w", nodes, globalVariables={})
    with files.serve() as live:
        received = run_test(live, message="hi")
        events = events_of(received)
        again = live.ask("GET", f"/api/runs/{events[-1][1]['id']}/events")

    said = {"draft": "You said draft", "say": "You said You said draft {drfat}"}
    for told in (events, events_of(again)):
        heard: dict[str, str] = {}
        for name, data in told:
            if name == "delta":
                heard[data["nodeName"]] = heard.get(data["nodeName"], "") + data["text"]
            elif name == "step_finished" and data["nodeName"] in said:
                assert heard[data["nodeName"]] == data["outputData"]["content"]
        assert heard == said
    metas = [step["meta"] for step in events[-1][1]["context"]["steps"]]
    assert [meta.get("unknownPlaceholders") for meta in metas] == [None, ["drfat"], None]
