"""A conversation whose own logic fails: tried again, told, and at last ended as `failed`."""

from typing import Any

import pytest
from sqlalchemy import delete, insert, select

from Middleware.conversations import tables
from Middleware.conversations.page import Page
from tests.fakes.conversation_client import Client
from tests.fakes.conversation_worker import Job, Outside, wait_for, worker


def lose_the_turn(client: Client) -> dict[str, Any]:
    """Takes away the row of the turn that waits for a decision, as by hand, and approves."""
    client.start("talk")
    client.message("talk", "Please refund my order")
    proposal = wait_for(lambda: client.status("talk")["pending_proposal"])
    here = tables.turns.c.conversation_id == "talk"
    with client.database.transaction() as connection:
        row = dict(connection.execute(select(tables.turns).where(here)).mappings().one())
        connection.execute(delete(tables.turns).where(here))
    # No step can go on without the row.
    client.decide("talk", proposal["id"], approved=True)
    return row


@pytest.mark.slow
def test_a_conversation_that_fails_again_and_again_ends_as_failed_and_others_go_on(
    database_url: str, outside: Outside
) -> None:
    client = Client(database_url)
    job = Job(url=database_url, folder=str(outside.folder), task_max_failures=3, lease_seconds=30)
    with worker(job):
        lose_the_turn(client)
        client.message("talk", "is anybody there?")
        wait_for(lambda: client.is_idle("talk"))
        client.start("other")
        client.message("other", "Hello")
        client.settle("other")

    assert client.status("talk")["closed_reason"] == "failed"
    failures = client.events("talk", "task_failed")
    assert [failure["count"] for failure in failures] == [1, 2, 3]
    assert failures[0]["error"] == "an internal error (NoResultFound)"
    assert [event["reason"] for event in client.events("talk", "run_completed")] == ["failed"]
    assert len(client.events("talk", "signal_rejected")) == 1
    listed = client.reader.conversations(Page(), status="failed")
    assert [one["conversation_id"] for one in listed["conversations"]] == ["talk"]
    assert listed["counts"] == {"running": 1, "completed": 0, "failed": 1}
    assert not client.message("talk", "late").accepted
    client.close()


@pytest.mark.slow
def test_what_was_mended_goes_on_although_its_worker_never_died(
    database_url: str, outside: Outside
) -> None:
    client = Client(database_url)
    with worker(Job(url=database_url, folder=str(outside.folder), lease_seconds=30)):
        row = lose_the_turn(client)
        wait_for(lambda: client.events("talk", "task_failed"))
        row |= {"decision": "approved"}
        with client.database.transaction() as connection:
            connection.execute(insert(tables.turns).values(row))
        client.settle("talk")

    assert client.status("talk")["turn_count"] == 1
    assert len(outside.notes("action")) == 1
    client.close()
