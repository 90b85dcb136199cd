"""`runs`, where `run` has been before, and `run --trace`."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from Middleware.cli.dispatch import main
from tests.fakes.headrace import Tree, answers, calls, static
from tests.fakes.recorded import run_log, used
from tests.fakes.terminal import Ran

Command = Callable[..., Ran]

SECONDS = re.compile(r"\b\d+\.\d\d\b")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path).scripted("Main", "You said: {input}")
    tree.scripted("Broken", default={"fail": {"status": 429, "message": "slow down"}})
    tree.own("Child", [answers(systemPrompt="Be kind.\nAlways.")])
    tree.workflow("assistant", [calls("Child", title="Outer", is_responder=True)])
    tree.workflow("broken", [static("one", title="First"), answers("Broken", title="Second")])
    return tree


@pytest.fixture
def command(tree: Tree, capsys: pytest.CaptureFixture[str]) -> Command:
    """A command of `python -m Middleware` on this tree."""

    def run(*words: str) -> Ran:
        code = main([*words, "--PublicDirectory", str(tree.public)])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


def test_what_ran_in_the_terminal_is_listed_and_shown(command: Command) -> None:
    command("run", "assistant", "-m", "hi")
    command("run", "broken", "-m", "hi")

    listed = command("runs")
    as_json = json.loads(command("runs", "--json", "--limit", "1").out)
    (newest,) = as_json["runs"]
    oldest = json.loads(command("runs", "--json", "--after", as_json["next"]).out)["runs"][0]
    shown = command("runs", oldest["id"][:12])
    failed = command("runs", newest["id"])

    head, first, why, second = listed.out.splitlines()
    assert why.startswith("  ! Workflow 'broken', node 'Second': Endpoint 'Broken' answered 429")
    assert head.split() == ["STARTED", "RUN", "WORKFLOW", "STATUS", "SECONDS", "TOKENS"]
    assert (newest["id"][:12] in first, " broken  " in first, " failed " in first) == (True,) * 3
    assert (" assistant  " in second, " succeeded " in second) == (True,) * 2
    assert newest["door"] == "terminal"
    assert SECONDS.sub("T", "\n".join(shown.out.splitlines()[2:])) == (
        "> assistant\n"
        "  > tester/Child\n"
        "    Answer (Standard on Main, T s)\n"
        "      system: Be kind.\n"
        "              Always.\n"
        "      user: hi\n"
        "      output: You said: hi\n"
        f"      {oldest['tokens']['prompt']} + {oldest['tokens']['completion']} tokens"
        f"{', estimated' * oldest['tokens']['estimated']}, first piece after T s\n"
        "  < tester/Child succeeded, T s\n"
        "  Outer (CustomWorkflow, T s)\n"
        "    output: You said: hi\n"
        "< assistant succeeded, T s"
    )
    assert "! Workflow 'broken', node 'Second': Endpoint 'Broken' answered 429" in failed.out
    assert [ran.code for ran in (listed, shown, failed)] == [0, 0, 0]


def test_one_run_as_json_is_what_the_api_gives(command: Command) -> None:
    command("run", "assistant", "-m", "hi")
    (listed,) = json.loads(command("runs", "--json").out)["runs"]

    shown = json.loads(command("runs", listed["id"], "--json").out)

    assert shown["children"][0]["workflow"] == "Child"
    assert shown["context"]["steps"][0]["outputData"]["content"] == "You said: hi"


def test_runs_are_filtered(command: Command) -> None:
    command("run", "assistant", "-m", "hi")
    command("run", "broken", "-m", "hi")

    def workflows(*words: str) -> list[str]:
        found = json.loads(command("runs", "--json", *words).out)["runs"]
        return [one["folder"].removeprefix("_shared/") for one in found]

    assert workflows("--status", "failed") == ["broken"]
    assert workflows("--workflow", "Child") == ["tester"]
    assert workflows("--since", "2999-01-01") == []
    assert command("runs", "--since", "2999-01-01").out == "There are no such runs.\n"


def test_a_run_that_a_crash_has_left_open_is_not_shown_as_running(
    tree: Tree, command: Command
) -> None:
    folder = tree.public
    with run_log(folder, users={"tester": folder / "SqlLiteDBs" / "runs.sqlite"}) as log:
        log.start_step(log.begin(), "node_1")
        log.log.flush()
        assert " running" in command("runs").out
        log.log.close()

    assert " interrupted" in command("runs").out


def test_the_runs_of_a_session_are_found(tree: Tree, command: Command) -> None:
    file = tree.public / "SqlLiteDBs" / "runs.sqlite"
    with run_log(tree.public, users={"tester": file}) as log:
        log.finished()
        run = log.finished(session="s-1")

    head, first, second = command("runs").out.splitlines()
    found = command("runs", "--session", "s-1").out.splitlines()
    shown = command("runs", run.id)

    assert (head.split()[-1], first.split()[-1], "s-1" in second) == ("SESSION", "s-1", False)
    assert found == [head, first]
    assert "session  s-1" in shown.out.splitlines()
    assert command("runs", "--session", "s-2").out == "There are no such runs.\n"


@pytest.mark.parametrize("columns", [80, 120])
def test_what_is_shown_fits_the_screen(
    tree: Tree, command: Command, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = "many words " * 20
    tree.workflow("a-workflow-with-a-very-long-name-that-nobody-wants", [answers(prompt=said)])
    long = command("run", "a-workflow-with-a-very-long-name-that-nobody-wants", "-m", "x")
    broken = command("run", "broken", "-m", said, "--trace")
    with run_log(tree.public, users={"tester": tree.public / "SqlLiteDBs" / "runs.sqlite"}) as log:
        log.finished(session="0199a6f2-1111-2222-3333-444455556666")
    listed = command("runs")
    shown = [
        command("runs", one["id"]) for one in json.loads(command("runs", "--json").out)["runs"]
    ]

    for ran in (broken, listed, *shown):
        assert [line for line in (ran.out + ran.err).splitlines() if len(line) > columns] == []
    assert [line for line in long.err.splitlines() if len(line) > columns] == []
    told = " ".join(" ".join(ran.out for ran in shown).split())
    assert said.strip() in told, "wrapped, and nothing left out"
    head, *lines = listed.out.splitlines()
    assert "SESSION" in head
    assert any("0199a6f2" in line for line in lines)
    assert any("a-workflow" in line for line in lines)


def test_numbers_stand_below_each_other_and_costs_are_shown_where_there_are_any(
    tree: Tree, command: Command
) -> None:
    with run_log(tree.public, users={"tester": tree.public / "SqlLiteDBs" / "runs.sqlite"}) as log:
        log.finished(cost=0.25, usage=used(5, 5))
        log.finished(cost=12.5, usage=used(900, 100))

    ends = [line.partition("  1.50")[2] or line[-14:] for line in command("runs").out.splitlines()]

    assert ends == ["  TOKENS  COST", "    1000  12.5", "      10  0.25"]


def test_wrong_use_is_told(
    tree: Tree, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = command("runs", "beef")
    with pytest.raises(SystemExit) as wrong:
        command("runs", "--status", "done")

    assert (unknown.code, unknown.out) == (1, "")
    assert "no run 'beef'" in unknown.err
    assert wrong.value.code == 2
    assert "interrupted" in capsys.readouterr().err
    assert not (tree.public / "SqlLiteDBs" / "runs.sqlite").exists()


def test_a_trace_tells_what_went_in_and_what_came_out(command: Command) -> None:
    ran = command("run", "assistant", "-m", "hi", "--trace")

    assert (ran.code, ran.out) == (0, "You said: hi\n")
    told = [line.strip() for line in ran.err.splitlines()]
    assert "system: Be kind." in told
    assert "user: hi" in told
    assert "output: You said: hi" in told
    assert any("tokens" in line and "first piece after" in line for line in told)
    # A line that is rewritten is for terminals.
    assert "\r" not in ran.err
