"""Durable conversations on the real server, and the script they share with endpoints."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Headrace, Tree, answers, wait_until

HARMS: dict[str, Callable[[bytes], bytes]] = {
    "noise": lambda good: bytes(index % 251 for index in range(8192)),
    "half": lambda good: good[: len(good) // 2],
    "torn": lambda good: good[:100] + b"\xff" * 4000 + good[4100:],
}

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


@pytest.mark.parametrize("door", ["durable", "responses"])
@pytest.mark.parametrize("harm", ["noise", "half", "torn"])
def test_a_damaged_store_is_a_503_that_goes_when_the_file_is_mended(
    tmp_path: Path, harm: str, door: str
) -> None:
    tree = desk(tmp_path)
    with tree.serve() as live:
        id = live.ask("POST", "/durable/v1/conversations", START).json["conversation_id"]
        wait_until(lambda: "awaiting_approval" in str(show(live, id)))
    file = tree.public / "SqlLiteDBs" / "durable.sqlite"
    good = file.read_bytes()
    file.write_bytes(HARMS[harm](good))

    with tree.serve() as live:
        if door == "durable":
            refused = live.ask("POST", "/durable/v1/conversations", START)
        else:
            refused = live.ask("POST", "/v1/responses", {"model": "desk", "input": "Hello"})
        file.write_bytes(good)
        mended = live.ask("POST", "/durable/v1/conversations", START)

    assert refused.status == 503
    assert refused.json["error"]["code"] == "storage_unavailable"
    assert mended.status == 201


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of this kind")
def test_a_disk_that_is_full_when_the_engine_makes_its_tables_is_a_503(tmp_path: Path) -> None:
    import resource

    tree = desk(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with tree.serve() as live:
        try:
            # Enough for the tables of ours, and not for those of the library.
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
            refused = live.ask("POST", "/durable/v1/conversations", START)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        accepted = live.ask("POST", "/durable/v1/conversations", START)

    assert refused.status == 503
    assert refused.json["error"]["code"] == "storage_unavailable"
    assert accepted.status == 201


@pytest.mark.skipif(sys.platform == "win32", reason="open files stay there")
def test_nothing_is_accepted_into_a_store_that_was_taken_away(tmp_path: Path) -> None:
    tree = desk(tmp_path)
    asked = {"model": "talk", "input": "Hello"}
    with tree.serve() as live:
        assert live.ask("POST", "/durable/v1/conversations", START).status == 201
        before = live.ask("POST", "/v1/responses", asked).json["id"]
        shutil.rmtree(tree.public / "SqlLiteDBs")
        refused = live.ask("POST", "/durable/v1/conversations", START)
        kept = live.ask("POST", "/v1/responses", asked).json["id"]
        gone = live.ask("GET", f"/v1/responses/{before}")
    with tree.serve() as live:
        accepted = live.ask("POST", "/durable/v1/conversations", START)
        found = live.ask("GET", f"/v1/responses/{kept}")

    assert (refused.status, refused.json["error"]["code"]) == (503, "storage_unavailable")
    assert (gone.status, accepted.status, found.status) == (404, 201, 200)
