"""Rules that nothing else asks after, each by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert

from Middleware.conversations import tables
from Middleware.conversations.database import Database
from Middleware.conversations.inbox import Start
from Middleware.conversations.leases import Duty, Lease, living
from Middleware.conversations.models import Options
from Middleware.conversations.page import Page
from Middleware.llm.backends.refund_desk import SUMMARY_CHARS, refund_desk
from tests.fakes.conversation_client import Client
from tests.fakes.conversation_worker import Job, Outside, wait_for, worker
from tests.fakes.headrace import Tree, static
from tests.fakes.stepping import SteppingEngine


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def timed(tmp_path: Path, hand: Hand) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'timed.sqlite'}", clock=hand)
    database.migrate()
    yield database
    database.close()


def alive(database: Database) -> set[str]:
    with database.transaction() as connection:
        return living(database, connection)


def test_a_lease_counts_until_its_end_and_cannot_be_renewed_after_it(
    timed: Database, hand: Hand
) -> None:
    lease = Lease(timed, "one", 10)
    lease.take()
    hand.time = 109.5
    before = alive(timed)
    renewed = lease.renew()
    hand.time = 119.5
    at_its_end = alive(timed)
    late = lease.renew()

    assert (before, renewed) == ({"one"}, True)
    assert (at_its_end, late) == (set(), False)


def test_one_process_repairs_at_a_time_and_not_too_often(timed: Database, hand: Hand) -> None:
    for name in ("one", "other"):
        Lease(timed, name, 1000).take()
    one, other = (Duty(timed, "repair", name) for name in ("one", "other"))

    taken = [one.take(30, 5), other.take(30, 5)]
    one.done()
    taken.append(other.take(30, 5))
    hand.time += 5
    taken.append(other.take(30, 5))
    hand.time += 30
    # It never came back: another one goes on.
    taken.append(Duty(timed, "repair", "one").take(30, 5))

    assert taken == [True, False, False, True, True]


@pytest.mark.slow
def test_a_long_model_call_keeps_its_lease(database_url: str, outside: Outside) -> None:
    client = Client(database_url)
    client.start("talk")
    job = Job(url=database_url, folder=str(outside.folder), lease_seconds=1, model_seconds=4)
    with worker(job), worker(job):
        client.message("talk", "Hello")
        wait_for(lambda: outside.notes("model"))
        client.settle("talk")

    assert len(outside.notes("model")) == 1
    assert client.events("talk", "task_repaired") == []
    client.close()


def test_a_second_reply_with_other_words_changes_nothing_and_is_told(tmp_path: Path) -> None:
    engine = SteppingEngine(tmp_path)
    begun = Start(profile="refund-desk", options=Options(), conversation_id="c", message="Hello")
    engine.inbox.start(begun)
    row = {
        **{"reference": "c:1", "conversation_id": "c", "run_id": "run-x", "turn": 1},
        **{"outcome": "replied", "text": "the first words", "created_at": 1.0},
    }
    with engine.database.transaction() as connection:
        connection.execute(insert(tables.records).values(row))

    engine.run()

    assert [one["text"] for one in engine.rows(tables.records)] == ["the first words"]
    history = engine.reader.history("c", Page(limit=100))
    assert history is not None
    (anomaly,) = [one for one in history["events"] if one["type"] == "anomaly"]
    assert anomaly["reference"] == "c:1"
    engine.database.close()


def test_the_fake_model_is_the_same_for_the_same_input() -> None:
    plain, asked = refund_desk("Hello", 1), refund_desk("a ReFuNd, please", 2, "before")

    assert refund_desk("a ReFuNd, please", 2, "before") == asked
    assert (plain.action, plain.reply) == (None, "Turn 1: you said 'Hello'.")
    assert (asked.action, asked.arguments) == ("refund", {"request": "a ReFuNd, please"})
    assert asked.replies.keys() == {"approved", "declined", "timed_out"}
    assert len({asked.reply, *asked.replies.values()}) == 4
    assert all("Turn 2" in text for text in asked.replies.values())
    long = refund_desk("the end", 3, "x" * 1000).summary
    assert len(long) == SUMMARY_CHARS
    assert long.endswith("Turn 3: the end")


def test_a_response_hands_instructions_on_and_names_what_is_not_used(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("say", [static("told: {{instructions}}")], placeholders=True)
    tree.write("Conversations/desk.json", {"workflow": "say"})
    asked = {"model": "desk", "input": "Hello", "instructions": "be brief", "temperature": 0.5}
    with tree.serve() as live:
        answer = live.ask("POST", "/v1/responses", asked)

    assert answer.status == 200, answer.body
    assert answer.json["output"][0]["content"][0]["text"] == "told: be brief"
    assert "temperature" in answer.headers["x-headrace-ignored"]
    assert "instructions" not in answer.headers["x-headrace-ignored"]


def test_the_idempotency_key_of_a_turn_is_a_variable(tmp_path: Path) -> None:
    words = "{{idempotency_key}} {{turn}} {{attempt}}"
    tree = Tree(tmp_path).workflow("say", [static(words)], placeholders=True)
    tree.write("Conversations/desk.json", {"workflow": "say"})
    begun = {"profile": "desk", "conversation_id": "c", "message": "Hello"}
    with tree.serve() as live:
        live.ask("POST", "/durable/v1/conversations", begun)
        path = "/durable/v1/conversations/c"
        wait_for(lambda: live.ask("GET", f"{path}/status").json["turn_count"] == 1)
        record = live.ask("GET", f"{path}/records/1").json

    assert record["text"] == "c:1:model 1 1"


def test_whom_a_client_calls_its_user_is_the_label_of_a_decision(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("Conversations/desk.json", {"actions": {"refund": {}}})
    with tree.serve() as live:
        asked = live.ask("POST", "/v1/responses", {"model": "desk", "input": "refund"}).json
        (proposal,) = asked["output"]
        approval = {"type": "mcp_approval_response", "approval_request_id": proposal["id"]}
        decision = {
            **{"model": "desk", "previous_response_id": asked["id"], "safety_identifier": "Ann"},
            "input": [{**approval, "approve": True}],
        }
        decided = live.ask("POST", "/v1/responses", decision)
        name = asked["conversation"]["id"]
        turns = live.ask("GET", f"/durable/v1/conversations/{name}/transcript").json["turns"]

    assert decided.status == 200, decided.body
    assert turns[0]["outcome"] == "approved"
    assert "Ann" in turns[0]["action"]["reviewer"]
