"""What else may go wrong: senders that are killed, a database that restarts under load, profiles
that are taken away from living conversations."""

import itertools
import random
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from Middleware.conversations.models import Receipt, StorageUnavailable
from Middleware.conversations.page import Page
from tests.fakes import postgres
from tests.fakes.conversation_client import Client
from tests.fakes.conversation_worker import Job, Outside, own_process, wait_for, worker
from tests.fakes.headrace import Headrace, Tree, static, wait_until

BASE = "/durable/v1/conversations"


def send_without_end(url: str, folder: str, sender: int) -> None:
    """Notes each receipt, until the process is killed."""
    client, outside = Client(url), Outside(folder)
    for number in itertools.count():
        said = f"{sender}:{number}"
        receipt = client.message("talk", said, request_id=said)
        assert isinstance(receipt, Receipt)
        outside.note("receipt", said=said, sequence=receipt.sequence)


def has_receipts(outside: Outside, count: int) -> bool:
    return len(outside.notes("receipt")) >= count


@pytest.mark.slow
def test_senders_who_are_killed_while_they_send_lose_nothing_that_was_accepted(
    database_url: str, outside: Outside
) -> None:
    client = Client(database_url)
    client.start("talk", turns_per_run=10)
    for sender in range(4):
        enough = len(outside.notes("receipt")) + 5 + sender
        with own_process(send_without_end, database_url, str(outside.folder), sender) as process:
            wait_for(partial(has_receipts, outside, enough))
            process.kill()
            process.join()
    receipts = {note["said"]: note["sequence"] for note in outside.notes("receipt")}
    again = {said: client.message("talk", said, request_id=said) for said in receipts}
    signals = client.reader.signals("talk", Page(limit=1000))
    assert signals is not None
    accepted = {one["arguments"]["text"]: one["sequence"] for one in signals["signals"]}

    assert {said: one.sequence for said, one in again.items() if isinstance(one, Receipt)} == (
        receipts
    )
    assert receipts.items() <= accepted.items()
    # At most one of each sender was recorded without its receipt having been seen.
    assert len(accepted) <= len(receipts) + 4
    assert sorted(accepted.values()) == list(range(1, len(accepted) + 1))
    with worker(Job(url=database_url, folder=str(outside.folder), lease_seconds=30)):
        client.settle("talk", seconds=60)
    assert client.status("talk")["turn_count"] == len(accepted)
    client.close()


def say_until_accepted(client: Client, name: str, said: str) -> None:
    """As a sender should: again under the same key."""

    def accepted() -> bool:
        try:
            return client.message(name, said, request_id=said).accepted
        except StorageUnavailable:
            return False

    wait_for(accepted, 60)


@pytest.mark.slow
def test_a_database_that_restarts_twice_under_load_loses_and_doubles_nothing(
    cluster: postgres.Cluster, outside: Outside
) -> None:
    """`cluster` says whether there is PostgreSQL at all; this test ends one of its own."""
    own = postgres.make_cluster()
    try:
        url = own.new_database()
        job = Job(url=url, folder=str(outside.folder), lease_seconds=5, model_seconds=0.05)
        client = Client(url)
        with worker(job), worker(job):
            wait_for(lambda: len(outside.notes("ready")) == 2)
            names = [client.start(f"talk{number}", turns_per_run=3) for number in range(8)]

            def sender(number: int) -> None:
                for count in range(8):
                    say_until_accepted(client, names[number], f"{number}:{count}")

            senders = [threading.Thread(target=sender, args=(number,)) for number in range(8)]
            for thread in senders:
                thread.start()
            chance = random.Random(7)
            for turns in (5, 25):
                wait_for(partial(has_calls, outside, turns + chance.randrange(3)), 60)
                own.stop()
                own.start()
            for thread in senders:
                thread.join()
            for number in range(8):
                wait_for(partial(has_turns, client, names[number], 8), 60)

        for number, name in enumerate(names):
            transcript = client.reader.transcript(name, Page(limit=100))
            assert transcript is not None
            said = [turn["text"] for turn in transcript["turns"]]
            assert said == [f"{number}:{count}" for count in range(8)]
            assert {turn["outcome"] for turn in transcript["turns"]} == {"replied"}
        client.close()
    finally:
        own.stop()
        shutil.rmtree(own.folder, ignore_errors=True)


def has_calls(outside: Outside, count: int) -> bool:
    return len(outside.notes("model")) >= count


def has_turns(client: Client, name: str, count: int) -> bool:
    try:
        return bool(client.status(name)["turn_count"] == count)
    except StorageUnavailable:
        return False


def turn(live: Headrace, id: str, number: int) -> Any:
    """The record of this turn, for which a message is sent."""
    sent = live.ask("POST", f"{BASE}/{id}/signals/message", {"arguments": ["Hello"]})
    assert sent.status == 202, sent.body
    wait_until(lambda: live.ask("GET", f"{BASE}/{id}/status").json["turn_count"] == number)
    return live.ask("GET", f"{BASE}/{id}/records/{number}").json


@pytest.mark.slow
def test_a_profile_that_is_broken_and_then_taken_away_from_a_living_conversation(
    tmp_path: Path,
) -> None:
    """The last good version stays in use while the server runs; without any, nothing is accepted,
    and the conversation goes on when the profile is back."""
    tree = Tree(tmp_path).workflow("say", [static("Good.")])
    tree.write("Conversations/desk.json", {"workflow": "say"})
    with tree.serve() as live:
        id = live.ask("POST", BASE, {"profile": "desk"}).json["conversation_id"]
        good = [turn(live, id, 1)]
        tree.write("Conversations/desk.json", '{"workflow": ')
        tree.clock.advance(5)
        good.append(turn(live, id, 2))
        (tree.configs / "Conversations" / "desk.json").unlink()
    with tree.serve() as live:
        gone = live.ask("POST", f"{BASE}/{id}/signals/message", {"arguments": ["Hello"]})
        tree.write("Conversations/desk.json", {"workflow": "say"})
        tree.clock.advance(5)
        good.append(turn(live, id, 3))

    assert [one["text"] for one in good] == ["Good."] * 3
    assert (gone.status, gone.json["error"]["code"]) == (403, "profile_gone")
    assert gone.headers["x-should-retry"] == "false"


@pytest.mark.slow
def test_without_its_profile_nobody_decides_in_a_conversation(tmp_path: Path) -> None:
    """The list of who may approve went with the file; that must not make everybody one of them."""
    keys = [{"name": name, "key": f"key-{name}"} for name in ("ann", "other")]
    tree = Tree(tmp_path).user(apiKeys=keys)
    tree.write("Conversations/desk.json", {"mayApprove": ["ann"], "actions": {"refund": {}}})
    file = tree.configs / "Conversations" / "desk.json"

    def ask(live: Headrace, key: str, method: str, path: str, body: Any = None) -> Any:
        bearer = {"Authorization": f"Bearer key-{key}"}
        return live.ask(method, f"{BASE}{path}", body, **bearer)

    def decide(live: Headrace, key: str) -> Any:
        return ask(live, key, "POST", "/c/signals/decision", {"arguments": [proposal, True, key]})

    with tree.serve() as live:
        begun = {"profile": "desk", "conversation_id": "c", "message": "Please refund my order"}
        assert ask(live, "other", "POST", "", begun).status == 201
        wait_until(lambda: ask(live, "ann", "GET", "/c/status").json["pending_proposal"])
        proposal = ask(live, "ann", "GET", "/c/status").json["pending_proposal"]["id"]
        kept = file.read_text(encoding="utf-8")
        file.unlink()
    with tree.serve() as live:
        refused = [decide(live, key) for key in ("other", "ann")]
        # Nor by way of a profile that lets everybody send.
        again = {"profile": "refund-desk", "conversation_id": "c", "message": "/end"}
        other_profile = ask(live, "other", "POST", "", again | {"return_existing_active": True})
        signals = ask(live, "ann", "GET", "/c/signals").json["signals"]
        file.write_text(kept, encoding="utf-8")
        tree.clock.advance(5)
        not_ann, ann = decide(live, "other"), decide(live, "ann")
        wait_until(lambda: ask(live, "ann", "GET", "/c/status").json["turn_count"] == 1)
        record = ask(live, "ann", "GET", "/c/records/1").json

    assert [one.status for one in (*refused, other_profile)] == [403, 403, 409]
    told = refused[0].json["error"]["message"]
    assert "'desk'" in told
    assert "Conversations/desk.json" in told
    assert [signal["name"] for signal in signals] == ["message"]
    assert (not_ann.status, ann.status, record["outcome"]) == (403, 202, "approved")


@pytest.mark.slow
def test_odd_texts_come_back_as_they_were_sent(database_url: str, outside: Outside) -> None:
    texts = [
        "\u202eright to left\u2069",
        "\U0001f469\u200d\U0001f469\u200d\U0001f466" * 50,
        "\ufeff\u0301a",
        "\x01\x7f\u2028{}'\"%s\\",
    ]
    client = Client(database_url)
    client.start("talk", turns_per_run=2)
    for said in texts:
        assert client.message("talk", said).accepted
    nul = client.message("talk", "a\x00b")
    half = client.message("talk", "a\ud800b")
    large = client.message("talk", "x" * 1_000_000)
    with worker(Job(url=database_url, folder=str(outside.folder), lease_seconds=30)):
        client.settle("talk")

    transcript = client.reader.transcript("talk", Page())
    assert transcript is not None
    assert [turn["text"] for turn in transcript["turns"]] == texts
    outcomes = [one.to_dict()["outcome"] for one in (nul, half, large)]
    assert outcomes == ["rejected_invalid_arguments"] * 2 + ["rejected_structural_limit"]
    client.close()
