"""The runner (specification §14), with a worker in this process and against a server."""

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.durable_events import Waits
from Middleware.cli.conversation import main
from Middleware.cli.runs import main as runs
from Middleware.conversations.page import Page
from tests.api.test_durable import durable_server
from tests.fakes.headrace import Tree, answers

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ["--message", "Hello", "--message", "Please refund my order", "--message", "Thanks"]
TWO_A_RUN = [*SCRIPT, "--turns-per-run", "2"]


@pytest.fixture
def database(tmp_path: Path) -> list[str]:
    return [
        *("--database", f"sqlite:///{tmp_path / 'durable.sqlite'}"),
        *("--UserLevelSqlLiteDirectory", str(tmp_path)),
    ]


@contextmanager
def typed(text: str) -> Iterator[None]:
    """What a person types, then the end of input."""
    before, sys.stdin = sys.stdin, io.StringIO(text)
    try:
        yield
    finally:
        sys.stdin = before


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


EXPECTED = """\
Conversation ID has begun. `/end` ends it.
> Hello
[turn 1, generation 1] Turn 1: you said 'Hello'.
> Please refund my order
Proposal of turn 2: refund {"request": "Please refund my order"}
Approved.
[turn 2, generation 1] Turn 2: the refund was approved and issued for 'Please refund my order'.
Generation 2 begins.
> Thanks
[turn 3, generation 2] Turn 3: you said 'Thanks'.
Ended (ended): 3 turns, 2 generations.
"""


@pytest.mark.slow
def test_a_script_prints_the_same_every_time_but_for_the_id(
    database: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [main([*database, *TWO_A_RUN]) for _ in range(2)]
    out = re.sub(r"conv-[0-9a-f]{32}", "ID", capsys.readouterr().out)

    assert codes == [0, 0]
    assert out == EXPECTED * 2


@pytest.mark.slow
def test_what_turns_run_is_in_the_run_log_as_on_a_server(
    database: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = Tree(tmp_path).scripted("Main").workflow("talk", [answers()])
    tree.write("Conversations/desk.json", {"workflow": "talk"})
    where = ["--PublicDirectory", str(tree.public), *database[2:]]
    code = main([*database[:2], *where, "--profile", "desk", "--message", "Hello"])
    capsys.readouterr()
    runs([*where, "--json"])
    recorded = json.loads(capsys.readouterr().out)["runs"]

    assert code == 0
    assert [(run["folder"], run["door"], run["status"]) for run in recorded] == [
        ("_shared/talk", "durable", "succeeded")
    ]


@pytest.mark.slow
def test_declined_in_json(database: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        [*database, *TWO_A_RUN, "--decision", "decline", "--json", "--conversation-id", "c"]
    )
    said = lines(capsys.readouterr().out)
    proposal = next(line["id"] for line in said if line["type"] == "proposal")

    assert code == 0
    assert said == [
        {
            "type": "conversation_started",
            "conversation_id": "c",
            "generation": 1,
            "resumed": False,
        },
        {"type": "message_accepted", "sequence": 1, "text": "Hello", "generation": 1},
        {
            "type": "reply",
            "turn": 1,
            "generation": 1,
            "text": "Turn 1: you said 'Hello'.",
            "outcome": "replied",
            "reference": "c:1",
        },
        {
            "type": "message_accepted",
            "sequence": 2,
            "text": "Please refund my order",
            "generation": 1,
        },
        {
            "type": "proposal",
            "id": proposal,
            "action": "refund",
            "arguments": {"request": "Please refund my order"},
            "turn": 2,
            "generation": 1,
        },
        {"type": "decision", "proposalId": proposal, "approved": False, "generation": 1},
        {
            "type": "reply",
            "turn": 2,
            "generation": 1,
            "text": "Turn 2: the refund was declined for 'Please refund my order'.",
            "outcome": "declined",
            "reference": "c:2",
        },
        {"type": "continued", "generation": 2},
        {"type": "message_accepted", "sequence": 4, "text": "Thanks", "generation": 2},
        {
            "type": "reply",
            "turn": 3,
            "generation": 2,
            "text": "Turn 3: you said 'Thanks'.",
            "outcome": "replied",
            "reference": "c:3",
        },
        {"type": "ended", "turn_count": 3, "generation": 2, "reason": "ended"},
    ]


@pytest.mark.slow
def test_it_asks_a_person_and_goes_on_with_what_was_left(
    database: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [*database, "--conversation-id", "c", "--keep-open", "--json"]
    left = main([*kept, "--message", "Hello"])
    with typed("please refund me\ny\n"):
        ended = main([*database, "--conversation-id", "c"])
    out = capsys.readouterr().out
    refused = main([*database, "--conversation-id", "c"])

    assert (left, ended, refused) == (0, 0, 3)
    assert "Conversation c goes on in generation 1." in out
    assert "Proposal of turn 2: refund" in out
    assert "Approve? [y/N] Approved." in out
    assert out.endswith("Ended (ended): 2 turns, 1 generations.\n")
    assert "has ended" in capsys.readouterr().err


@pytest.mark.slow
def test_a_pending_proposal_is_shown_to_whoever_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with durable_server(tmp_path, Waits()) as server:
        name = server.start(message="refund")
        server.wait(name, lambda status: status["pending_proposal"])
        url = ["--url", f"http://127.0.0.1:{server.live.port}", "--conversation-id", name]
        with typed("n\n"):
            code = main(url)
        turns = server.conversations.reader.transcript(name, Page())

    assert code == 0
    assert "Proposal of turn 1: refund" in capsys.readouterr().out
    assert turns is not None
    assert turns["turns"][0]["outcome"] == "declined"


@pytest.mark.slow
def test_the_same_script_over_http(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with durable_server(tmp_path, Waits()) as server:
        code = main(["--url", f"http://127.0.0.1:{server.live.port}/", *TWO_A_RUN])

    assert code == 0
    assert re.sub(r"conv-[0-9a-f]{32}", "ID", capsys.readouterr().out) == EXPECTED


def test_nobody_at_the_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--url", "http://127.0.0.1:9", "--message", "Hello"]) == 4
    assert "cannot be reached" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--turns-per-run", "0"], 2),
        (["--profile", "nothing-like-that"], 3),
        (["--conversation-id", "not/an/id"], 2),
    ],
)
def test_wrong_use_and_refusals(
    database: list[str], options: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*database, "--message", "x", *options]) == code
    assert capsys.readouterr().err


def test_an_option_that_does_not_exist() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--colour", "red"])

    assert ended.value.code == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupting_it_leaves_the_conversation_open(database: list[str]) -> None:
    command = [sys.executable, "-m", "Middleware", "conversation", *database]
    with subprocess.Popen(
        [*command, "--conversation-id", "c"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("please refund me\n")
        process.stdin.flush()
        while "Proposal of turn 1" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)

    again = subprocess.run(
        [*command, "--conversation-id", "c"],
        cwd=ROOT,
        input="y\n",
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )

    assert process.returncode == 130
    assert "Go on with --conversation-id c" in told
    assert again.returncode == 0
    assert "Conversation c goes on in generation 1." in again.stdout
    assert "the refund was approved" in again.stdout
