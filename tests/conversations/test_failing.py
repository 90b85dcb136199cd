"""A conversation whose own logic fails: tried again, told, and at last ended as `failed`."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from Middleware.conversations import tables
from Middleware.conversations.inbox import Start
from Middleware.conversations.models import Options, UnreadableConversation
from Middleware.conversations.page import Page
from tests.fakes.conversation_client import Client
from tests.fakes.conversation_worker import Job, Outside, wait_for, worker
from tests.fakes.stepping import SteppingEngine


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


@pytest.mark.slow
def test_a_failure_that_the_engine_could_not_note_is_gone_on_with(
    database_url: str, outside: Outside
) -> None:
    """As with a disk that was full: the engine takes the task for running, in a process that
    lives. Nobody but that process knows better."""
    client = Client(database_url)
    table = "workflow_status" if client.database.is_sqlite else "dbos.workflow_status"
    with worker(Job(url=database_url, folder=str(outside.folder), lease_seconds=30)):
        row = lose_the_turn(client)

        def put_back() -> bool:
            with client.database.transaction() as connection:
                changed = connection.exec_driver_sql(
                    f"UPDATE {table} SET status = 'PENDING' WHERE status = 'ERROR'"
                )
                return changed.rowcount > 0

        wait_for(put_back)
        with client.database.transaction() as connection:
            connection.execute(insert(tables.turns).values(row | {"decision": "approved"}))
        client.settle("talk")

    assert client.status("talk")["turn_count"] == 1
    client.close()


def write_options(client: Client, name: str, options: str) -> str:
    """Changes the row, as by hand or by a bad disk; what stood there before."""
    row = tables.conversations
    with client.database.transaction() as connection:
        here = row.c.id == name
        before: str = connection.execute(select(row.c.options).where(here)).scalar_one()
        connection.execute(update(row).where(here).values(options=options))
    return before


@pytest.mark.slow
def test_damaged_conversations_keep_nobody_from_being_repaired(
    database_url: str, outside: Outside
) -> None:
    """More of them than one pass looks at, and all in front of those that are sound."""
    client = Client(database_url)
    folder = str(outside.folder)
    damaged = [client.start(f"damaged{number}") for number in range(30)]
    for name in damaged:
        client.message(name, "Hello")
    kept = [write_options(client, name, '{"turns_per_run": ') for name in damaged]
    client.start("damaged-wait", inactivity_seconds=0.1)
    write_options(client, "damaged-wait", "[]")
    client.start("due", inactivity_seconds=0.1)
    client.start("lost")
    client.message("lost", "Hello")
    with worker(Job(url=database_url, folder=folder, model_seconds=60)) as first:
        wait_for(lambda: outside.notes("model"))
        first.kill()
        first.join()

    with worker(Job(url=database_url, folder=folder)):
        client.settle("lost")
        wait_for(lambda: client.status("due")["phase"] == "completed")
        with pytest.raises(UnreadableConversation, match=r"'damaged0' cannot .* backup"):
            client.message("damaged0", "Hello")
        listed = client.reader.conversations(Page(limit=100))["conversations"]
        for name, options in zip(damaged, kept, strict=True):
            write_options(client, name, options)
        for name in damaged:
            client.settle(name, seconds=60)

    assert len(client.events("lost", "task_repaired")) == 1
    assert {one["conversation_id"] for one in listed} >= {*damaged, "damaged-wait", "lost", "due"}
    assert {client.status(name)["turn_count"] for name in damaged} == {1}
    client.close()


def test_a_damaged_conversation_is_told_by_its_id_and_not_at_every_pass(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = SteppingEngine(tmp_path)
    for name in ("damaged", "sound"):
        begun = Start(profile="refund-desk", options=Options(), conversation_id=name, message="Hi")
        engine.inbox.start(begun)
        # As if no engine had ever heard of the task.
        found = engine.next_task()
        assert found is not None
        engine.finish(found[1], None)  # type: ignore[arg-type]
    row = tables.conversations
    with engine.database.transaction() as connection:
        broken = update(row).where(row.c.id == "damaged").values(options="{", task_retry_at=-1.0)
        connection.execute(broken)
    engine.clock.pass_(5)

    passes = [engine.repairer.run() for _ in range(2)]
    engine.run()

    assert passes == [1, 0]
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "'damaged'" in line
    assert "Mend the row" in line
    status = engine.reader.status("sound")
    assert status is not None
    assert status["turn_count"] == 1
    engine.database.close()
