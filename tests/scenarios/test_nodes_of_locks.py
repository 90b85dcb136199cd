"""WorkflowLock through the front door (workflow-engine S2)."""

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest

from Middleware.workflows.handlers.impl.workflow_lock_handler import NOTICE
from tests.fakes.headrace import Headrace, Tree, answers, wait_until
from tests.fakes.own_process import OwnProcess, own_process
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Pause, Upstream, reply, whole
from tests.scenarios.modes import both_modes

LOCK = {"type": "WorkflowLock", "workflowLockId": "memory"}
SAYS = {"type": "StaticResponse", "content": "the answer", "is_responder": True}


def writes(path: Path) -> dict[str, Any]:
    return {"type": "SaveCustomFile", "filepath": str(path), "content": "x", "mode": "append"}


def locks(root: Path) -> list[str]:
    connection = sqlite3.connect(root / "Public/SqlLiteDBs/WilmerDb.tester.sqlite")
    found = connection.execute("SELECT WorkflowLockId FROM WorkflowLocks").fetchall()
    connection.close()
    return [name for (name,) in found]


def hold(live: Headrace) -> None:
    """What another process does that works just now."""
    server = live.parts.server
    config = live.parts.store.snapshot()
    assert server.workflow_locks.acquire(server.lock_database(config), "memory", run="another")


def finished(live: Headrace) -> list[str]:
    wait_until(lambda: all(run["status"] != "running" for run in live.runs))
    return [run["status"] for run in live.runs]


@both_modes
def test_a_lock_is_held_while_its_run_lasts_and_no_longer(stream: bool, tmp_path: Path) -> None:
    done = tmp_path / "done"
    tree = Tree(tmp_path).workflow("w", [LOCK, writes(done), SAYS])
    with tree.serve() as live:
        heard = [hear(live.chat(model="w", stream=stream)).said for _ in range(2)]
        statuses = finished(live)
        wait_until(lambda: locks(tmp_path) == [])

    assert heard == [("the answer", "stop")] * 2
    assert statuses == ["succeeded"] * 2
    assert done.read_text(encoding="utf-8") == "xx"


@both_modes
def test_behind_the_answer_a_held_lock_ends_the_run_quietly(stream: bool, tmp_path: Path) -> None:
    done = tmp_path / "done"
    tree = Tree(tmp_path).workflow("w", [SAYS, LOCK, writes(done)])
    with tree.serve() as live:
        hold(live)
        heard = hear(live.chat(model="w", stream=stream))
        statuses = finished(live)

    assert heard.said == ("the answer", "stop")
    assert statuses == ["succeeded"]
    assert not done.exists()


@both_modes
def test_in_front_of_the_answer_it_gives_a_notice_and_an_end(stream: bool, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [LOCK, SAYS])
    with tree.serve() as live:
        hold(live)
        heard = hear(live.chat(model="w", stream=stream))

    assert heard.said == (NOTICE, "stop")


@both_modes
def test_a_lock_in_a_sub_workflow_ends_the_runs_above_as_well(stream: bool, tmp_path: Path) -> None:
    done = tmp_path / "done"
    tree = Tree(tmp_path).own("Inner", [LOCK])
    tree.workflow("w", [{"type": "CustomWorkflow", "workflowName": "Inner"}, writes(done), SAYS])
    with tree.serve() as live:
        hold(live)
        heard = hear(live.chat(model="w", stream=stream))
        finished(live)

    assert heard.said == (NOTICE, "stop")
    assert not done.exists()


@both_modes
def test_behind_the_answer_of_a_sub_workflow_too(stream: bool, tmp_path: Path) -> None:
    done = tmp_path / "done"
    tree = Tree(tmp_path).own("Inner", [SAYS, LOCK, writes(done)])
    tree.workflow("w", [{"type": "CustomWorkflow", "workflowName": "Inner"}])
    with tree.serve() as live:
        hold(live)
        heard = hear(live.chat(model="w", stream=stream))
        finished(live)

    assert heard.said == ("the answer", "stop")
    assert not done.exists()


@pytest.mark.parametrize("fails", [True, False])
def test_a_lock_is_given_back_when_the_run_fails(fails: bool, tmp_path: Path) -> None:
    broken = {"type": "PythonModule", "module_path": "/no/such.py"}
    tree = Tree(tmp_path).workflow("w", [LOCK, broken if fails else SAYS])
    with tree.serve() as live:
        status = live.chat(model="w").status
        finished(live)
        wait_until(lambda: locks(tmp_path) == [])

    assert status == (400 if fails else 200)


def test_a_lock_that_a_dead_process_has_left_is_free_after_a_start(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [LOCK, SAYS])
    with tree.serve() as live:
        hear(live.chat(model="w"))
    connection = sqlite3.connect(tmp_path / "Public/SqlLiteDBs/WilmerDb.tester.sqlite")
    connection.execute(
        "INSERT INTO WorkflowLocks (WilmerSessionId, WorkflowId, WorkflowLockId, ExpirationDate)"
        " VALUES ('dead', 'run', 'memory', '2099-01-01 00:00:00')"
    )
    connection.commit()
    connection.close()

    with tree.serve() as live:
        assert hear(live.chat(model="w")).said == ("the answer", "stop")


def said(server: OwnProcess) -> str:
    return str(server.chat(model="w").json["choices"][0]["message"]["content"])


def test_servers_that_share_a_postgresql_share_its_locks(
    tmp_path: Path, empty_postgres: str
) -> None:
    first = Tree(tmp_path / "first").workflow("w", [LOCK, answers()])
    second = Tree(tmp_path / "second").workflow("w", [LOCK, SAYS])
    working = Pause()
    database = ("--database", empty_postgres)
    with Upstream([working, *whole(reply("done"))]) as model:
        first.model("Main", model.url)
        with (
            own_process(first.public, *database) as one,
            own_process(second.public, *database) as other,
            one.connect() as client,
        ):
            client.send_chat(model="w")
            model.wait_for(1)
            while_held = said(other)
            working.set()
            answer = client.receive().text
            wait_until(lambda: said(other) == "the answer")

    assert (while_held, answer) == (NOTICE, "done")
    assert not [*tmp_path.rglob("WilmerDb*")]


def test_what_a_killed_server_has_locked_is_free_once_another_starts(
    tmp_path: Path, empty_postgres: str
) -> None:
    first = Tree(tmp_path / "first").workflow("w", [LOCK, answers()])
    second = Tree(tmp_path / "second").workflow("w", [LOCK, SAYS])
    database = ("--database", empty_postgres)
    with Upstream([Pause()]) as model:
        first.model("Main", model.url)
        with own_process(first.public, *database) as one, one.connect() as client:
            client.send_chat(model="w")
            model.wait_for(1)
            one.kill()
    # The database has noticed that the killed one is gone, before the next one looks.
    wait_until(lambda: not connected(empty_postgres))
    with own_process(second.public, *database) as other:
        assert said(other) == "the answer"


def connected(url: str) -> int:
    query = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
    with psycopg.connect(url) as connection:
        return len(connection.execute(query + "pg_backend_pid()").fetchall())
