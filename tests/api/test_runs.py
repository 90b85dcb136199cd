"""``/api/runs`` over HTTP, in front of real runs."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.doors import CHAT
from tests.fakes.headrace import Headrace, Tree, answers, calls, static, wait_until
from tests.fakes.live_site import Client
from tests.fakes.upstream import DONE, SILENCE, Pause, Upstream, delta, stream

KEYS = [{"name": "jane", "key": "key-of-jane"}, {"name": "joe", "key": "key-of-joe"}]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Headrace]:
    tree = Tree(tmp_path).scripted("Main", "You said: {input}")
    tree.scripted("Broken", default={"fail": {"status": 500, "message": "out of order"}})
    tree.workflow("assistant", [answers()])
    tree.workflow("broken", [static("one"), answers("Broken", title="Second")])
    tree.own("Child", [answers()])
    tree.workflow("parent", [calls("Child", title="Call")])
    with tree.serve() as served:
        yield served


def listed(live: Headrace, query: str = "", **headers: str) -> Any:
    received = live.ask("GET", f"/api/runs{query}", **headers)
    assert received.status == 200, received.body
    return received.json


def test_a_list_tells_of_each_run_what_decisions_promise(live: Headrace) -> None:
    assert live.chat(model="assistant").status == 200
    assert live.chat(model="broken").status == 502

    newest, oldest = listed(live)["runs"]

    assert oldest.keys() == {
        "id",
        "parentId",
        "workflow",
        "folder",
        "door",
        "user",
        "session",
        "status",
        "startedAt",
        "durationMs",
        "tokens",
        "cost",
        "error",
    }
    assert (oldest["workflow"], oldest["folder"]) == ("_DefaultWorkflow", "_shared/assistant")
    assert (oldest["user"], oldest["status"], oldest["error"]) == ("tester", "succeeded", None)
    assert oldest["durationMs"] > 0
    assert newest["status"] == "failed"
    assert "node 'Second'" in newest["error"]
    assert newest["startedAt"] >= oldest["startedAt"]


def test_the_runs_of_a_session_of_a_coding_agent_are_found_together(live: Headrace) -> None:
    def ask(model: str, **headers: str) -> None:
        assert CHAT.ask(live, model=model, stream=False, headers=headers).status == 200

    ask("parent", x_claude_code_session_id="s-1")
    ask("assistant")
    ask("assistant", session_id=" ", thread_id="s-1")
    ask("assistant", x_session_id="s-2")

    of_s1 = listed(live, "?session=s-1")["runs"]
    (child,) = listed(live, "?session=s-1&workflow=Child")["runs"]

    assert [run["folder"] for run in of_s1] == ["_shared/assistant", "_shared/parent"]
    assert child["session"] == "s-1"
    assert [run["session"] for run in listed(live)["runs"]] == ["s-2", "s-1", None, "s-1"]
    assert listed(live, "?session=nobody")["runs"] == []
    assert listed(live, "?session=s-1&limit=1&after=0")["runs"] == []


def test_lists_are_filtered_and_go_on_page_by_page(live: Headrace) -> None:
    for model in ("assistant", "broken", "parent", "assistant"):
        live.chat(model=model)

    first = listed(live, "?limit=2")
    second = listed(live, f"?limit=2&after={first['next']}")

    def names(body: Any) -> list[str]:
        return [run["folder"].removeprefix("_shared/") for run in body["runs"]]

    assert (names(first), names(second)) == (["assistant", "parent"], ["broken", "assistant"])
    assert second["next"] is None
    assert names(listed(live, "?workflow=assistant")) == ["assistant", "assistant"]
    assert names(listed(live, "?workflow=Child")) == ["tester"]
    assert names(listed(live, "?status=failed")) == ["broken"]
    since = second["runs"][0]["startedAt"]
    assert names(listed(live, f"?since={since}")) == ["assistant", "parent", "broken"]
    assert names(listed(live, "?since=2999-01-01")) == []


def test_one_run_has_its_context_and_its_children(live: Headrace) -> None:
    live.chat(model="parent")
    (run,) = listed(live)["runs"]

    received = live.ask("GET", f"/api/runs/{run['id']}")

    (child,) = received.json["children"]
    (step,) = received.json["context"]["steps"]
    assert step["meta"]["childRunId"] == child["id"]
    assert (child["workflow"], child["parentId"]) == ("Child", run["id"])
    assert child["context"]["steps"][0]["outputData"]["content"] == "You said: hello there world"
    memory = next(one for one in live.runs if one["id"] == run["id"])
    assert received.json["context"] == memory["context"]


def test_a_run_can_be_deleted(live: Headrace) -> None:
    live.chat(model="assistant")
    (run,) = listed(live)["runs"]

    deleted = live.ask("DELETE", f"/api/runs/{run['id']}")

    assert (deleted.status, deleted.json) == (200, {"id": run["id"], "deleted": True})
    assert live.ask("DELETE", f"/api/runs/{run['id']}").status == 404
    assert listed(live) == {"runs": [], "next": None}


@dataclass(frozen=True)
class Refusal:
    id: str
    method: str
    path: str
    status: int
    code: str
    param: str | None = None


REFUSALS = [
    Refusal("an unknown run", "GET", "/api/runs/nope", 404, "run_not_found"),
    Refusal("its events", "GET", "/api/runs/nope/events", 404, "run_not_found"),
    Refusal("to delete it", "DELETE", "/api/runs/nope", 404, "run_not_found"),
    Refusal("a limit", "GET", "/api/runs?limit=0", 400, "invalid_request_error", "limit"),
    Refusal("no limit", "GET", "/api/runs?limit=ten", 400, "invalid_request_error", "limit"),
    Refusal("a status", "GET", "/api/runs?status=done", 400, "invalid_request_error", "status"),
    Refusal("a time", "GET", "/api/runs?since=today", 400, "invalid_request_error", "since"),
    Refusal("no time", "GET", "/api/runs?since=nan", 400, "invalid_request_error", "since"),
    Refusal("a page", "GET", "/api/runs?after=x", 400, "invalid_request_error", "after"),
    Refusal("a method", "PUT", "/api/runs/x", 405, "method_not_allowed"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in REFUSALS])
def test_refusals_have_the_shape_of_openai(live: Headrace, case: Refusal) -> None:
    received = live.ask(case.method, case.path)

    assert received.status == case.status
    assert received.headers["content-type"] == "application/json"
    assert received.json.keys() == {"error"}
    error = received.json["error"]
    assert (error["code"], error["param"]) == (case.code, case.param)


def events_of(frames: list[str]) -> list[tuple[str, Any]]:
    found = []
    for frame in frames:
        if frame.startswith("event: "):
            name, data = frame.split("\n")
            found.append((name[7:], json.loads(data[6:])))
    return found


def test_a_finished_run_is_told_again(live: Headrace) -> None:
    live.chat(model="parent")
    (run,) = listed(live)["runs"]

    received = live.ask("GET", f"/api/runs/{run['id']}/events")

    assert received.headers["content-type"].startswith("text/event-stream")
    events = events_of(received.frames)
    assert [name for name, _ in events] == [
        "step_started",
        "step_started",
        "delta",
        "step_finished",
        "step_finished",
        "run_finished",
    ]
    assert events[-1][1] == live.ask("GET", f"/api/runs/{run['id']}").json


def _in_two(go_on: Pause) -> Any:
    return stream(delta("Hel"), go_on, delta("lo"), delta(finish_reason="stop"), DONE)


class Watched:
    """A streamed answer that stops in the middle until it is told to go on, and its run."""

    def __init__(self, live: Headrace, client: Client) -> None:
        self.client = client
        client.send_chat(model="assistant")
        client.read_until(b"Hel")
        (run,) = listed(live, "?status=running")["runs"]
        self.id = run["id"]


def test_a_running_run_is_followed_as_it_goes_on(tmp_path: Path) -> None:
    go_on = Pause()
    tree = Tree(tmp_path).workflow("assistant", [static("one", title="First"), answers()])
    with (
        Upstream(_in_two(go_on)) as model,
        tree.model("Main", model.url).serve() as live,
        live.connect() as client,
        live.connect() as reader,
    ):
        watched = Watched(live, client)
        shown = live.ask("GET", f"/api/runs/{watched.id}").json
        refused = live.ask("DELETE", f"/api/runs/{watched.id}")
        reader.send("GET", f"/api/runs/{watched.id}/events")
        before = reader.read_until(b'"text":"Hel"}').decode()
        go_on.set()
        after = reader.read_until(b"event: run_finished").decode()
        rest = reader.read_until(b"\n\n").decode()

    assert (shown["status"], shown["partialText"]) == ("running", "Hel")
    assert [moment["status"] for moment in shown["timeline"]] == ["succeeded", "running"]
    assert (refused.status, refused.json["error"]["code"]) == (409, "run_is_running")
    assert before.count("event: step_started") == 2
    assert before.count("event: step_finished") == 1
    assert '"text":"lo"' in after
    assert after.count("event: step_finished") == 1
    record = json.loads(rest.removeprefix("\ndata: ").strip())
    assert record["status"] == "succeeded"
    assert record["context"]["steps"][1]["outputData"]["content"] == "Hello"


def test_a_reader_who_leaves_gives_its_place_back(tmp_path: Path) -> None:
    go_on = Pause()
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with (
        Upstream(_in_two(go_on)) as model,
        tree.model("Main", model.url).serve() as live,
        live.connect() as client,
    ):
        watched = Watched(live, client)
        with live.connect() as reader:
            reader.send("GET", f"/api/runs/{watched.id}/events")
            reader.read_until(b'"text":"Hel"')
        go_on.set()
        client.read_until(b"[DONE]")
        client.close()

        wait_until(live.is_quiet)


def test_a_client_that_leaves_makes_a_cancelled_run(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [static("one"), answers()])
    tree.write("Prices.json", {"models": {"*": {"inputPerMillion": 1, "outputPerMillion": 1}}})
    with (
        Upstream(stream(delta("Hel"), SILENCE)) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        with live.connect() as client:
            watched = Watched(live, client)
        wait_until(lambda: listed(live, "?status=cancelled")["runs"])
        shown = live.ask("GET", f"/api/runs/{watched.id}").json

    assert (shown["status"], shown["partialText"]) == ("cancelled", "Hel")
    assert shown["error"] == shown["context"]["error"]
    assert "cancelled" in shown["error"]
    tokens = shown["tokens"]
    assert (tokens["completion"], tokens["estimated"]) == (1, True)
    assert shown["cost"] == pytest.approx(tokens["total"] / 1e6)
    assert [moment["status"] for moment in shown["timeline"]] == ["succeeded", "failed"]


def test_with_keys_everybody_sees_their_own_runs(tmp_path: Path) -> None:
    tree = Tree(tmp_path, apiKeys=KEYS).scripted("Main").workflow("assistant", [answers()])
    jane = {"Authorization": "Bearer key-of-jane"}
    joe = {"x_api_key": "key-of-joe"}
    owner = {"Authorization": "Bearer of-the-owner"}
    with tree.serve(api_key="of-the-owner") as live:
        body = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}
        assert live.ask("POST", "/v1/chat/completions", body, **jane).status == 200
        (run,) = listed(live, **jane)["runs"]
        path = f"/api/runs/{run['id']}"

        assert listed(live, **joe)["runs"] == []
        for method, where in (("GET", path), ("GET", f"{path}/events"), ("DELETE", path)):
            assert live.ask(method, where, **joe).json["error"]["code"] == "run_not_found"
        assert [one["id"] for one in listed(live, **owner)["runs"]] == [run["id"]]
        assert live.ask("GET", path, **jane).status == 200
        for where in ("/api/runs", path, "/metrics"):
            stranger = live.ask("GET", where)
            assert (stranger.status, stranger.json["error"]["code"]) == (401, "invalid_api_key")


def test_what_a_user_wants_redacted_is_redacted_everywhere(tmp_path: Path) -> None:
    tree = Tree(tmp_path, redactLogOutput=True).scripted("Main").workflow("assistant", [answers()])
    with tree.serve() as live:
        assert live.chat(model="assistant", stream=True).text == "hello there world"
        (run,) = listed(live)["runs"]
        shown = live.ask("GET", f"/api/runs/{run['id']}").body
        told = live.ask("GET", f"/api/runs/{run['id']}/events").body

    assert b"hello" not in shown + told
    assert b"event: delta" not in told
    assert b"[redacted: 17 characters]" in shown
    database = tmp_path / "Public" / "SqlLiteDBs" / "runs.sqlite"
    assert b"hello" not in database.read_bytes()


def test_a_key_that_encrypts_redacts_and_none_does_not(tmp_path: Path) -> None:
    tree = Tree(tmp_path, encryptUsingApiKey=True).scripted("Main")
    tree.workflow("assistant", [answers()])
    body = {"model": "assistant", "messages": [{"role": "user", "content": "hello"}]}
    with tree.serve() as live:
        live.ask("POST", "/v1/chat/completions", body, Authorization="Bearer of-a-client")
        live.ask("POST", "/v1/chat/completions", body)
        plain, private = (
            live.ask("GET", f"/api/runs/{run['id']}").body for run in listed(live)["runs"]
        )

    assert b"hello" in plain
    assert b"hello" not in private
    assert b"of-a-client" not in private


def test_who_switches_the_log_off_has_none(tmp_path: Path) -> None:
    tree = Tree(tmp_path, runLog={"enabled": False}).scripted("Main")
    tree.workflow("assistant", [answers()])
    with tree.serve() as live:
        assert live.chat(model="assistant").status == 200

        assert listed(live) == {"runs": [], "next": None}
    assert not (tmp_path / "Public" / "SqlLiteDBs" / "runs.sqlite").exists()


def test_the_log_lies_where_the_owner_says(tmp_path: Path) -> None:
    tree = Tree(tmp_path, sqlLiteDirectory=str(tmp_path / "of the user")).scripted("Main")
    tree.workflow("assistant", [answers()])
    with tree.serve() as live:
        live.chat(model="assistant")
    with tree.serve(sqlite_directory=tmp_path / "of the command line") as live:
        live.chat(model="assistant")

    assert (tmp_path / "of the user" / "runs.sqlite").exists()
    assert (tmp_path / "of the command line" / "runs.sqlite").exists()
    assert not (tmp_path / "Public" / "SqlLiteDBs" / "runs.sqlite").exists()
