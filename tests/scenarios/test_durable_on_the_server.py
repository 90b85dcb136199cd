"""Durable conversations on the real server, and the script they share with endpoints."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Headrace, Tree, answers, wait_until

START = {"profile": "desk", "message": "Please refund my order"}


def desk(root: Path) -> Tree:
    tree = Tree(root).workflow("talk", [answers("Desk", allowTools=True)])
    tree.scripted("Desk", script="refund-desk", default=None)
    profile = {
        "workflow": "talk",
        "actions": {"refund": {"workflow": "talk", "schema": {"type": "object"}}},
    }
    return tree.write("Conversations/desk.json", profile)


def show(live: Headrace, id: str) -> Any:
    return live.ask("GET", f"/durable/v1/conversations/{id}").json


def test_a_conversation_proposes_waits_and_goes_on(tmp_path: Path) -> None:
    with desk(tmp_path).serve() as live:
        started = live.ask("POST", "/durable/v1/conversations", START)
        id = started.json["conversation_id"]
        listed = live.ask("GET", "/durable/v1/conversations").json
        wait_until(lambda: "awaiting_approval" in str(show(live, id)))

    assert started.status == 201
    assert [one["conversation_id"] for one in listed["conversations"]] == [id]


def test_it_is_still_there_after_a_restart(tmp_path: Path) -> None:
    tree = desk(tmp_path)
    with tree.serve() as live:
        id = live.ask("POST", "/durable/v1/conversations", START).json["conversation_id"]
        wait_until(lambda: "awaiting_approval" in str(show(live, id)))
    with tree.serve() as live:
        assert "awaiting_approval" in str(show(live, id))


@pytest.mark.parametrize(("text", "finish"), [("Hello", "stop"), ("A refund", "tool_calls")])
def test_the_script_of_the_refund_desk_serves_ordinary_chats_too(
    tmp_path: Path, text: str, finish: str
) -> None:
    with desk(tmp_path).serve() as live:
        received = live.chat(model="talk", messages=[{"role": "user", "content": text}])

    choice = received.json["choices"][0]
    assert choice["message"]["content"].startswith("Turn 1: ")
    assert choice["finish_reason"] == finish
