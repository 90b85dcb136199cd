"""Field cases C-42 and C-43: an approval in the middle of a piece of work, through the doors.

A profile's workflow is what comes before the approval, its action what comes after.
"""

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers, static, wait_until
from tests.fakes.own_process import OwnProcess, own_process
from tests.fakes.upstream import Upstream, chat

ID = "parked"
AT = f"/durable/v1/conversations/{ID}"
ASK = {"model": "clerk", "messages": [{"role": "user", "content": "Send the letter"}]}


def clerk(root: Path, before: str, after: str) -> Tree:
    """Node 1 asks a model, node 2 adds a line to a file, node 3 is the approval, node 4 asks a
    model again, with what node 1 said."""
    tree = Tree(root).model("Before", before).model("After", after)
    line = {
        "type": "SaveCustomFile",
        "filepath": str(root / "lines"),
        "content": "x",
        "mode": "append",
    }
    proposal = (
        '{"reply": "drafted", "action": {"name": "send", "arguments": {"draft": "{agent1Output}"}}}'
    )
    tree.workflow(
        "draft",
        [answers("Before", returnToUser=False), line, static(proposal, returnToUser=True)],
    )
    send = answers("After", prompt="Send {agent1Input}", returnToUser=True)
    tree.workflow("send", [send])
    actions = {"send": {"workflow": "send"}}
    return tree.write("Conversations/clerk.json", {"workflow": "draft", "actions": actions})


@contextmanager
def parked(server: OwnProcess) -> Any:
    """The conversation waits for its approval, and its front end has gone."""
    with server.connect() as front:
        body = {**ASK, "stream": True}
        front.send("POST", "/v1/chat/completions", body, **{"X-Conversation-Id": ID})
        wait_until(lambda: status(server).get("phase") == "awaiting_approval", 20)
    yield status(server)["pending_proposal"]


def status(server: OwnProcess) -> Any:
    return server.ask("GET", f"{AT}/status").json


def decide(server: OwnProcess, proposal: Any, *, approved: bool) -> None:
    arguments = {"proposalId": proposal["id"], "approved": approved, "reviewer": "Ann"}
    received = server.ask("POST", f"{AT}/signals/decision", {"arguments": arguments})
    assert received.status == 202
    wait_until(lambda: status(server)["turn_count"] == 1, 20)


def turn(server: OwnProcess) -> tuple[str, str]:
    (only,) = server.ask("GET", f"{AT}/transcript").json["turns"]
    return only["outcome"], only["reply"]


@pytest.mark.parametrize("approved", [True, False])
def test_c42_a_decision_counts_whether_or_not_anybody_is_connected(
    tmp_path: Path, approved: bool
) -> None:
    with Upstream(chat("Dear all")) as before, Upstream(chat("Sent")) as after:
        tree = clerk(tmp_path, before.url, after.url)
        with own_process(tree.public) as server, parked(server) as proposal:
            decide(server, proposal, approved=approved)
            outcome, reply = turn(server)

    assert outcome == ("approved" if approved else "declined")
    assert (reply == "Sent") is approved
    assert len(after.asked) == int(approved)
    assert len(before.asked) == 1


def test_c43_what_was_done_before_the_approval_is_not_done_again(tmp_path: Path) -> None:
    with Upstream(chat("Dear all")) as before, Upstream(chat("Sent")) as after:
        tree = clerk(tmp_path, before.url, after.url)
        with own_process(tree.public) as server, parked(server) as proposal:
            server.kill()
        with own_process(tree.public, log_name="second.log") as server:
            listed = server.ask("GET", "/durable/v1/conversations").json["conversations"]
            decide(server, proposal, approved=True)
            done = turn(server)

    assert [(one["conversation_id"], one["phase"]) for one in listed] == [(ID, "awaiting_approval")]
    assert done == ("approved", "Sent")
    assert len(before.asked) == 1
    assert (tmp_path / "lines").read_text() == "x"
    assert len(after.asked) == 1
    assert "Dear all" in str(after.asked[0].json["messages"])
