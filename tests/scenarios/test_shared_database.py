"""Two servers that share one PostgreSQL (``--database``): either knows what the other has done."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.cli.dispatch import main
from tests.fakes import postgres
from tests.fakes.headrace import Tree, answers, static, wait_until
from tests.fakes.live_site import Received
from tests.fakes.own_process import ROOT, OwnProcess, own_process
from tests.fakes.upstream import SILENCE, Asked, Step, Upstream, reply, whole

KEY = "k-jane"
LOCK = {"type": "WorkflowLock", "workflowLockId": "work"}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a kill that nothing can catch")


@dataclass
class Site:
    tree: Tree
    url: str
    model: Upstream
    go_on: threading.Event
    """Lets the answers go on that were asked to wait."""
    go_further: threading.Event
    """Lets those go on that were asked to wait longer."""
    stack: ExitStack

    def server(self, name: str) -> OwnProcess:
        words = ("--database", self.url, "--api-key", "k-all")
        return self.stack.enter_context(
            own_process(self.tree.public, *words, log_name=f"{name}.log")
        )


@pytest.fixture
def site(tmp_path: Path, cluster: postgres.Cluster) -> Iterator[Site]:
    url = cluster.new_database()
    go_on, go_further = threading.Event(), threading.Event()

    def answer(asked: Asked) -> list[Step]:
        messages = asked.json["messages"]
        if messages[-1]["content"] == "for ever":
            return [SILENCE]
        if messages[-1]["content"] == "wait":
            return [go_on, *whole(reply("at last"))]
        if messages[-1]["content"] == "wait longer":
            return [go_further, *whole(reply("in the end"))]
        return whole(reply(f"{len(messages)} messages"))

    with ExitStack() as stack:
        model = stack.enter_context(Upstream(answer))
        tree = Tree(tmp_path, apiKeys=[{"name": "jane", "key": KEY}]).model("Main", model.url)
        agent = {"id": "a", "type": "Agent", "endpointName": "Main", "prompt": "{{question}}"}
        tree.workflow("agent", [agent], edges=[])
        tree.workflow("chat", [answers()])
        tree.workflow("two", [static("first", id="one"), answers(id="two")])
        waits = [answers(prompt="wait"), answers(prompt="wait longer")]
        tree.workflow("waits", [static("first"), *waits])
        tree.workflow("locked", [LOCK, answers()])
        yield Site(tree, url, model, go_on, go_further, stack)
    cluster.drop_database(url)


def ask(server: OwnProcess, path: str, body: Any = None, method: str = "GET") -> Received:
    return server.ask(method, path, body, authorization=f"Bearer {KEY}")


def say(server: OwnProcess, text: str, model: str = "chat") -> Received:
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    return ask(server, "/v1/chat/completions", body, "POST")


def text_of(received: Received) -> str:
    assert received.status == 200, received.body
    return str(received.json["choices"][0]["message"]["content"])


def statuses(server: OwnProcess) -> list[str]:
    return [run["status"] for run in ask(server, "/api/runs").json["runs"]]


def test_what_one_has_done_the_other_knows(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = site.server("one"), site.server("two")

    # Runs
    assert text_of(say(one, "hi")) == "1 messages"
    # It is written a moment after the answer.
    wait_until(lambda: statuses(two) == ["succeeded"])
    (listed,) = ask(two, "/api/runs").json["runs"]
    shown = ask(two, f"/api/runs/{listed['id']}").json
    assert shown["context"]["steps"][0]["outputData"]["content"] == "1 messages"
    main(["runs", "--PublicDirectory", str(site.tree.public), "--database", site.url, "--json"])
    assert [run["id"] for run in json.loads(capsys.readouterr().out)["runs"]] == [listed["id"]]
    assert ask(two, f"/api/runs/{listed['id']}", method="DELETE").status == 200
    assert ask(one, f"/api/runs/{listed['id']}").status == 404

    # What agents remember
    assert [text_of(say(server, "hi", "agent")) for server in (one, two, one)] == [
        "1 messages",
        "3 messages",
        "5 messages",
    ]

    # Responses
    first = ask(one, "/v1/responses", {"model": "chat", "input": "hi"}, "POST").json
    assert ask(two, f"/v1/responses/{first['id']}").json["id"] == first["id"]
    later = {"model": "chat", "input": "and", "previous_response_id": first["id"]}
    second = ask(two, "/v1/responses", later, "POST").json
    assert second["output"][0]["content"][0]["text"] == "3 messages"
    assert ask(one, f"/v1/responses/{first['id']}", method="DELETE").status == 200
    assert ask(two, f"/v1/responses/{first['id']}").status == 404

    # Locks
    with one.connect() as client:
        body = {"model": "locked", "messages": [{"role": "user", "content": "wait"}]}
        client.send("POST", "/v1/chat/completions", body, authorization=f"Bearer {KEY}")
        asked = len(site.model.asked)
        site.model.wait_for(asked + 1)
        assert "try again" in text_of(say(two, "hi", "locked"))
        site.go_on.set()
        assert text_of(client.receive()) == "at last"
    assert text_of(say(two, "hi", "locked")) == "1 messages"

    kept = {path.name for path in (site.tree.public / "SqlLiteDBs").glob("*.sqlite")}
    assert kept == set()


def test_a_run_of_the_other_server_can_be_followed_to_its_end(site: Site) -> None:
    one, two = site.server("one"), site.server("two")
    with one.connect() as client:
        body = {"model": "waits", "messages": [{"role": "user", "content": "hi"}]}
        client.send("POST", "/v1/chat/completions", body, authorization=f"Bearer {KEY}")
        site.model.wait_for(1)
        wait_until(lambda: statuses(two) == ["running"])
        (run,) = ask(two, "/api/runs").json["runs"]
        with two.connect() as watcher:
            watcher.send("GET", f"/api/runs/{run['id']}/events", authorization=f"Bearer {KEY}")
            told = watcher.read_until(b"event: step_finished")
            site.go_on.set()
            told += watcher.read_until(b"event: step_finished")
            site.go_further.set()
            told += watcher.read_until(b"event: run_finished")
            told += watcher.read_until(b'"status":"succeeded"')
        assert text_of(client.receive()) == "in the end"

    named = [line for line in told.decode().split("\n") if line.startswith("event:")]
    assert named == [
        *["event: step_started", "event: step_finished"],
        *["event: step_started", "event: delta", "event: step_finished"] * 2,
        "event: run_finished",
    ]


def test_of_a_server_that_is_killed_the_runs_are_interrupted_and_no_others(site: Site) -> None:
    one, two = site.server("one"), site.server("two")
    with one.connect() as dying, two.connect() as living:
        for client in (dying, living):
            body = {"model": "two", "messages": [{"role": "user", "content": "for ever"}]}
            client.send("POST", "/v1/chat/completions", body, authorization=f"Bearer {KEY}")
        site.model.wait_for(2)
        wait_until(lambda: statuses(two) == ["running", "running"])
        one.kill()
        again = site.server("again")
        wait_until(lambda: sorted(statuses(again)) == ["interrupted", "running"])
        (dead,) = ask(two, "/api/runs?status=interrupted").json["runs"]
        steps = ask(two, f"/api/runs/{dead['id']}").json["context"]["steps"]

    assert dead["error"] == "The server ended while this ran, at node 'two'."
    assert [step["nodeName"] for step in steps] == ["one"]


def test_a_database_that_goes_away_costs_records_and_no_answers(
    site: Site, cluster: postgres.Cluster
) -> None:
    one = site.server("one")
    text_of(say(one, "hi"))
    wait_until(lambda: statuses(one) == ["succeeded"])
    cluster.drop_database(site.url)

    assert text_of(say(one, "hi")) == "1 messages"
    assert ask(one, "/api/runs").status == 503
    assert text_of(say(one, "hi")) == "1 messages"


def test_what_ran_while_the_database_was_away_is_written_when_it_is_back(tmp_path: Path) -> None:
    if postgres.programs() is None:
        pytest.skip("no PostgreSQL on this machine")
    own, go_on = postgres.make_cluster(), threading.Event()
    try:
        with Upstream(lambda asked: [go_on, *whole(reply("late"))]) as model:
            tree = Tree(tmp_path).model("Main", model.url).workflow("quick", [static("at once")])
            tree.workflow("slow", [static("first", id="one"), answers(id="two")])
            with own_process(tree.public, "--database", own.url()) as server:
                with server.connect() as client:
                    client.send_chat(model="slow", stream=False)
                    model.wait_for(1)
                    wait_until(lambda: statuses(server) == ["running"])
                    own.stop()
                    assert text_of(server.chat(model="quick")) == "at once"
                    assert server.ask("GET", "/api/runs").status == 503
                    own.start()
                    go_on.set()
                    assert text_of(client.receive()) == "late"
                wait_until(lambda: server.ask("GET", "/api/runs").status == 200)
                wait_until(lambda: statuses(server) == ["succeeded", "succeeded"])
    finally:
        with suppress(RuntimeError):
            own.stop()


def test_a_database_that_is_not_there_is_told_at_the_start(
    tmp_path: Path, cluster: postgres.Cluster
) -> None:
    url = cluster.new_database()
    cluster.drop_database(url)
    server = [sys.executable, "server.py", "--PublicDirectory", str(Tree(tmp_path).public)]
    done = subprocess.run(
        [*server, "--port", "0", "--database", url],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert "Cannot start: The database of --database cannot be used" in done.stderr
    assert "does not exist" in done.stderr
    assert f"`createdb {url.rpartition('/')[2].partition('?')[0]}`" in done.stderr
    assert "ready" not in done.stdout
