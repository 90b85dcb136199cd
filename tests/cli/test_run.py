"""`run` as a process: what it says where, and how it ends."""

import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from Middleware.cli.dispatch import main
from tests.fakes.headrace import Tree, answers, calls, static
from tests.fakes.terminal import Ran, command, started

SECONDS = re.compile(r"\d+\.\d\d s")


def tree_of(root: Path) -> Tree:
    tree = Tree(root).scripted("Main", "You said: {input}")
    tree.scripted("Broken", default={"fail": {"status": 429, "message": "slow down"}})
    tree.scripted("Slow", default={"reply": "one two", "tokenDelayMs": 60_000})
    tree.own("Child", [static("draft", title="Draft"), answers()])
    tree.workflow("assistant", [calls("Child", title="Outer", is_responder=True), static("after")])
    tree.workflow("broken", [static("one"), answers("Broken", title="Second")])
    tree.workflow("slow", [answers("Slow")])
    tree.workflow("inline", [{"type": "PythonCode", "code": "def run(c, p): return 'ran'"}])
    return tree


def run(root: Path, *words: str) -> Ran:
    return command("run", *words, "--PublicDirectory", tree_of(root).public)


def run_here(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Ran:
    """The same without a process of its own, which costs most of a second."""
    try:
        code = main(["run", *words, "--PublicDirectory", str(tree_of(root).public)])
    except SystemExit as ended:
        code = int(ended.code or 0)
    told = capsys.readouterr()
    return Ran(code, told.out, told.err)


STEPS = """\
> assistant
  > tester/Child
    Draft (StaticResponse, T): draft
    Answer (Standard on Main, T): You said: Grüße, {you}!
  < tester/Child succeeded, T
  Outer (CustomWorkflow, T): You said: Grüße, {you}!
  node_2 (StaticResponse, T): after
< assistant succeeded, T
"""


def test_the_answer_goes_to_standard_output_and_the_steps_beside_it(tmp_path: Path) -> None:
    ran = run(tmp_path, "assistant", "--message", "Grüße, {you}!")

    assert (ran.code, ran.out) == (0, "You said: Grüße, {you}!\n")
    assert SECONDS.sub("T", ran.err) == STEPS


@dataclass(frozen=True)
class Failure:
    id: str
    words: tuple[str, ...]
    code: int
    says: tuple[str, ...]


FAILURES = [
    Failure(
        "a failed run",
        ("broken", "-m", "hi"),
        1,
        (
            "< broken failed",
            "Workflow 'broken', node 'Second': Endpoint 'Broken' answered 429: slow down",
        ),
    ),
    Failure("an unknown workflow", ("asistant", "-m", "hi"), 1, ("'asistant'", "'assistant'")),
    Failure(
        "a user without a file", ("assistant", "-m", "hi", "--User", "testr"), 1, ("'tester'",)
    ),
    Failure("inline code", ("inline", "-m", "hi"), 1, ("start the server with --allow-inline",)),
    Failure("nothing to say", ("assistant",), 2, ("usage:", "--message")),
    Failure("no workflow", ("-m", "hi"), 2, ("usage:", "WORKFLOW")),
    Failure("an unknown option", ("assistant", "-m", "hi", "--loud"), 2, ("usage:", "--loud")),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in FAILURES])
def test_what_goes_wrong_is_told_and_counted(
    tmp_path: Path, case: Failure, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run_here(tmp_path, capsys, *case.words)

    assert (ran.code, ran.out) == (case.code, "")
    assert [part for part in case.says if part not in ran.err] == []
    assert "Traceback" not in ran.err


def test_a_failed_process_ends_in_one_and_wrong_use_in_two(tmp_path: Path) -> None:
    failed, misused = run(tmp_path, "broken", "-m", "hi"), command("run", "assistant")

    assert (failed.code, misused.code) == (1, 2)


@pytest.mark.parametrize("name", ["Child", "tester/Child", "_shared/assistant/_DefaultWorkflow"])
def test_a_workflow_is_named_in_every_way(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run_here(tmp_path, capsys, name, "-m", "hi")

    assert (ran.code, ran.out) == (0, "You said: hi\n")


def test_inline_code_runs_where_it_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run_here(tmp_path, capsys, "inline", "-m", "hi", "--allow-inline-python")

    assert (ran.code, ran.out) == (0, "ran\n")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interrupted_run_ends_at_once_with_what_it_has_said(tmp_path: Path) -> None:
    words = ("run", "slow", "-m", "hi", "--PublicDirectory", tree_of(tmp_path).public)
    with started(*words) as process:
        assert process.stdout is not None
        first = process.stdout.read(3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)

    assert (first, process.returncode) == ("one", 130)
    assert "Traceback" not in out + err
