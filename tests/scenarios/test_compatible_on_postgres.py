"""Responses, conversations and chats on two servers that share a PostgreSQL (§20, §21)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.headrace import Tree, wait_until
from tests.fakes.own_process import OwnProcess, own_process
from tests.scenarios.test_durable_responses import REFUND, desk, transcript

TEXT = "one two three four five"
PATIENCE = 40


@contextmanager
def two(tree: Tree, url: str) -> Iterator[tuple[OwnProcess, OwnProcess]]:
    tree.user(durable={"leaseSeconds": 2})
    words = ("--database", url)
    with (
        own_process(tree.public, *words) as one,
        own_process(tree.public, *words, log_name="other.log") as other,
    ):
        yield one, other


def create(server: OwnProcess, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    return server.ask("POST", "/v1/responses", {"model": "slow", **fields}, **(headers or {})).json


def test_a_server_that_is_lost_leaves_its_responses_to_the_other(
    tmp_path: Path, empty_postgres: str
) -> None:
    with two(desk(tmp_path), empty_postgres) as (one, other):
        begun = create(one, input="five", background=True)
        ordinary = create(one, model="slow talk", input="five", background=True)
        path = f"/v1/responses/{begun['id']}"
        wait_until(lambda: other.ask("GET", path).json["status"] == "in_progress", PATIENCE)
        one.kill()
        wait_until(lambda: other.ask("GET", path).json["status"] == "completed", PATIENCE)
        final = other.ask("GET", path).json
        resumed = other.ask("GET", f"{path}?stream=true&starting_after=6").body.decode()
        lost = other.ask("GET", f"/v1/responses/{ordinary['id']}").json
        told = transcript(other, begun["conversation"]["id"])

    assert final["output"][0]["content"][0]["text"] == TEXT
    assert f'"delta":"{TEXT[3:]}"' in resumed
    assert told == [("five", "replied")]
    assert lost["status"] == "failed"


def test_parallel_senders_with_retries_make_one_turn_for_each_key(
    tmp_path: Path, empty_postgres: str
) -> None:
    with two(desk(tmp_path), empty_postgres) as servers:
        id = (
            servers[0]
            .ask("POST", "/v1/conversations", {"metadata": {"profile": "desk"}})
            .json["id"]
        )
        answers: list[tuple[str, str]] = []

        def send(number: int) -> None:
            for server in (servers[number % 2], servers[(number + 1) % 2]):
                key = {"Idempotency-Key": f"key-{number}"}
                made = create(server, key, model="desk", conversation=id, input=f"say {number}")
                answers.append((made["id"], made["output"][0]["content"][0]["text"]))

        threads = [threading.Thread(target=send, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = transcript(servers[1], id)

    assert len(set(answers)) == 6
    assert sorted(told) == [(f"say {number}", "replied") for number in range(6)]


def test_a_proposal_made_at_one_server_is_approved_at_the_other(
    tmp_path: Path, empty_postgres: str
) -> None:
    with two(desk(tmp_path), empty_postgres) as (one, other):
        asked = create(one, model="desk", input=REFUND)
        (proposal,) = asked["output"]
        answer = {
            "type": "mcp_approval_response",
            "approval_request_id": proposal["id"],
            "approve": True,
        }
        done = create(other, model="desk", previous_response_id=asked["id"], input=[answer])
        told = transcript(one, asked["conversation"]["id"])

    assert done["status"] == "completed"
    assert told == [(REFUND, "approved")]


def test_both_servers_add_to_one_kept_conversation(tmp_path: Path, empty_postgres: str) -> None:
    with two(desk(tmp_path), empty_postgres) as servers:
        id = servers[0].ask("POST", "/v1/conversations", {}).json["id"]
        path = f"/v1/conversations/{id}/items"

        def add(number: int) -> None:
            item = {"type": "message", "role": "user", "content": f"say {number}"}
            assert servers[number % 2].ask("POST", path, {"items": [item]}).status == 200

        threads = [threading.Thread(target=add, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = servers[1].ask("GET", f"{path}?limit=100").json["data"]

    assert sorted(item["content"][0]["text"] for item in found) == sorted(
        f"say {number}" for number in range(12)
    )
