"""Field cases C-39, C-46 and C-47; a process that is killed, and a disk that is full."""

import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.options import ServerOptions
from Middleware.app import build_history
from Middleware.cli.dispatch import main
from Middleware.runs.reader import Query
from tests.fakes.doors import Door, every_door
from tests.fakes.headrace import Headrace, Tree, answers, calls, static, wait_until
from tests.fakes.own_process import OwnProcess, own_process
from tests.fakes.upstream import (
    SILENCE,
    Answer,
    Asked,
    Step,
    Upstream,
    chat,
    nobody_listens,
    refuses,
    whole,
)

NODES = 35
BAD = 20


def a_long_workflow(tree: Tree, **of_node_20: Any) -> None:
    """35 nodes that each ask a model, named by their number."""
    nodes = [
        answers(
            id=f"node_{number}",
            title=f"Step {number}",
            **{
                "prompt": f"Question {number}" + (": {agent1Output}" if number > 1 else ""),
                **(of_node_20 if number == BAD else {}),
            },
        )
        for number in range(1, NODES + 1)
    ]
    tree.workflow("assistant", nodes)


def newest(live: Headrace | OwnProcess) -> Any:
    """The newest run, whole."""
    (listed,) = live.ask("GET", "/api/runs").json["runs"]
    return live.ask("GET", f"/api/runs/{listed['id']}").json


def states(run: Any) -> list[tuple[str, str]]:
    return [(moment["nodeName"], moment["status"]) for moment in run["timeline"]]


def expected(last: str) -> list[tuple[str, str]]:
    done = [(f"node_{number}", "succeeded") for number in range(1, BAD)]
    return [*done, (f"node_{BAD}", last)]


def failing_at(call: int, answer: Answer) -> list[Answer]:
    return [*[chat("fine")] * (call - 1), answer]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_node_that_fails_is_recorded_with_its_input_and_nothing_after_it(
    tmp_path: Path, stream: bool
) -> None:
    tree = Tree(tmp_path)
    a_long_workflow(tree)
    with (
        Upstream(*failing_at(BAD, refuses(500, "out of order"))) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        received = live.chat(model="assistant", stream=stream)
        run = newest(live)
        events = live.ask("GET", f"/api/runs/{run['id']}/events").frames

    assert received.status == 502
    assert run["status"] == "failed"
    assert states(run) == expected("failed")
    failed, step = run["timeline"][-1], run["context"]["steps"][-1]
    assert "out of order" in failed["error"]
    assert failed["error"] == step["meta"]["error"] == run["error"] == run["context"]["error"]
    assert step["meta"]["resolvedPrompt"][-1] == {"role": "user", "content": "Question 20: fine"}
    assert failed["durationMs"] > 0
    assert failed["startedAt"] <= failed["finishedAt"]
    assert [step["nodeName"] for step in run["context"]["steps"]] == [
        f"node_{number}" for number in range(1, BAD + 1)
    ]
    assert sum(frame.startswith("event: step_finished") for frame in events) == BAD


def test_a_node_whose_template_is_broken_is_the_one_that_failed(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    a_long_workflow(tree, jinja2=True, prompt="{{ (1 / 0) ~ agent1Output }}")
    with Upstream(chat("fine")) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="assistant")
        run = newest(live)

    assert received.status == 400
    assert states(run) == expected("failed")
    assert "Step 20" in run["error"]


def test_an_unknown_variable_is_visible_in_what_was_sent(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    a_long_workflow(tree, prompt="Question 20: {no_such_thing}")
    with Upstream(chat("fine")) as model, tree.model("Main", model.url).serve() as live:
        live.chat(model="assistant")
        run = newest(live)

    prompt = run["context"]["steps"][BAD - 1]["meta"]["resolvedPrompt"]
    assert prompt[-1]["content"] == "Question 20: {no_such_thing}"
    assert [state for _, state in states(run)] == ["succeeded"] * NODES


@pytest.mark.skipif(sys.platform == "win32", reason="a kill that nothing can catch")
def test_a_server_that_is_killed_leaves_no_run_that_seems_to_run(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    a_long_workflow(tree)
    answers_ = failing_at(BAD, [SILENCE])
    with Upstream(*answers_) as model:
        tree.model("Main", model.url)
        with own_process(tree.public) as server, server.connect() as client:
            client.send_chat(model="assistant", stream=False)
            model.wait_for(BAD)
            wait_until(lambda: len(newest(server)["timeline"]) == BAD)
            assert states(newest(server)) == expected("running")
            server.kill()
        with own_process(tree.public, log_name="again.log") as server:
            run = newest(server)
            running = server.ask("GET", "/api/runs?status=running").json["runs"]

    assert running == []
    assert run["status"] == "interrupted"
    assert states(run) == expected("interrupted")
    assert run["error"] == "The server ended while this ran, at node 'node_20'."
    assert len(run["context"]["steps"]) == BAD - 1


@pytest.mark.skipif(sys.platform == "win32", reason="a kill that nothing can catch")
def test_what_finished_a_second_before_the_kill_is_kept(tmp_path: Path) -> None:
    tree = Tree(tmp_path).scripted("Main").workflow("assistant", [answers()])
    with own_process(tree.public) as server:
        for _ in range(5):
            assert server.chat(model="assistant").status == 200
        database = tree.public / "SqlLiteDBs" / "runs.sqlite"
        wait_until(lambda: database.exists() and len(_listed(tree)) == 5)
        server.kill()

    assert {run["status"] for run in _listed(tree)} == {"succeeded"}


def _listed(tree: Tree) -> list[Any]:
    return build_history(ServerOptions(public_directory=tree.public)).newest(Query()).runs


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_a_full_disk_costs_the_record_and_no_answer(tmp_path: Path) -> None:
    tree = Tree(tmp_path).scripted("Main", "x" * 20_000).workflow("assistant", [answers()])
    with own_process(tree.public, limit_bytes=300_000) as server:
        for _ in range(30):
            assert server.chat(model="assistant").status == 200
        wait_until(lambda: "cannot be written" in server.said())
        for _ in range(30):
            assert server.chat(model="assistant").status == 200
        assert server.ask("GET", "/health").json["status"] == "ok"

    assert server.said().count("cannot be written, runs may be missing") == 1


def test_what_ran_inside_a_sub_workflow_is_one_tree(tmp_path: Path) -> None:
    tree = Tree(tmp_path).scripted("Main")
    tree.scripted("Broken", default={"fail": {"status": 500, "message": "out of order"}})
    tree.own("Two", [static("one", title="First"), answers(title="Second")])
    tree.own("Good", [answers()])
    tree.own("Bad", [answers("Broken", title="Breaks")])
    tree.own(
        "Both",
        [
            {"type": "Parallel", "id": "both", "branches": [["left"], ["right"]]},
            calls("Good", id="left"),
            calls("Bad", id="right"),
        ],
    )
    choice = {
        "type": "ConditionalCustomWorkflow",
        "title": "Choose",
        "conditionalKey": "yes",
        "conditionalWorkflows": {"Yes": "Both"},
    }
    tree.workflow("assistant", [calls("Two", title="Ask"), choice, static("never")])
    with tree.serve() as live:
        assert live.chat(model="assistant").status == 502
        run = newest(live)
        children = {child["workflow"]: child for child in run["children"]}
        grandchildren = {child["workflow"]: child for child in children["Both"]["children"]}
        alone = live.ask("GET", f"/api/runs/{grandchildren['Bad']['id']}").json
        failed = live.ask("GET", "/api/runs?workflow=Bad&status=failed").json["runs"]

    assert states(run) == [("node_1", "succeeded"), ("node_2", "failed")]
    assert [moment["title"] for moment in run["timeline"]] == ["Ask", "Choose"]
    assert [moment["childRunId"] for moment in run["timeline"]] == [
        children["Two"]["id"],
        children["Both"]["id"],
    ]
    assert states(children["Two"]) == [("node_1", "succeeded"), ("node_2", "succeeded")]
    assert grandchildren.keys() == {"Good", "Bad"}
    assert {moment["childRunId"] for moment in children["Both"]["timeline"]} >= {
        grandchildren["Bad"]["id"]
    }
    assert grandchildren["Good"]["status"] in ("succeeded", "cancelled")
    assert states(grandchildren["Bad"]) == [("node_1", "failed")]
    assert "node 'Breaks'" in run["error"]
    assert alone["error"] == run["error"]
    assert [one["id"] for one in failed] == [grandchildren["Bad"]["id"]]
    for one in (run, *children.values(), *grandchildren.values()):
        assert one["startedAt"]
        assert one["durationMs"] is not None
        for moment in one["timeline"]:
            assert moment["startedAt"] <= moment["finishedAt"]
    assert children["Two"]["timeline"][1]["tokens"]["total"] > 0


# C-39

KEY = "sk-canary-123"
OF_CLIENT = "client-canary-456"


def echo(asked: Asked) -> list[Step]:
    """A model server that says in its error what it was sent."""
    told = {"error": {"message": f"bad request: {json.dumps(dict(asked.headers))}"}}
    return whole(told, 404)


def cut(asked: Asked) -> list[Step]:
    return whole(f"key {KEY} refused".encode(), 500, {"Content-Type": "text/plain"})


@dataclass(frozen=True)
class Fault:
    id: str
    answer: Answer | None
    """None: nobody listens."""
    status: int


FAULTS = [
    Fault("404 that echoes the headers", echo, 404),
    Fault("500 that names the key", cut, 502),
    Fault("silence", [SILENCE], 504),
    Fault("nobody there", None, 503),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in FAULTS])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@every_door
def test_no_key_of_anybody_is_in_the_log_or_in_what_is_made_of_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    door: Door,
    case: Fault,
    stream: bool,
) -> None:
    caplog.set_level(logging.DEBUG)
    tree = Tree(tmp_path, heartbeatSeconds=30).workflow("assistant", [answers()])
    client = {"Authorization": f"Bearer {OF_CLIENT}"}
    with Upstream(case.answer or chat("x")) as model:
        url = model.url if case.answer else nobody_listens()
        tree.model("Main", url, apiKey=KEY, readTimeoutInSeconds=1)
        with tree.serve() as live:
            received = live.ask("POST", door.path, door.body(stream=stream), **client)
            run = newest(live)
            shown = [
                live.ask("GET", path).body
                for path in (f"/api/runs/{run['id']}", f"/api/runs/{run['id']}/events", "/metrics")
            ]
    main(["runs", run["id"], "--PublicDirectory", str(tree.public)])
    printed = capsys.readouterr().out.encode()
    files = [path.read_bytes() for path in _files(tree.public / "SqlLiteDBs")]

    assert received.status == case.status
    assert run["status"] == "failed"
    assert run["id"].encode() in printed
    for text in (received.body, *shown, printed, *files, caplog.text.encode()):
        assert b"canary" not in text


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
