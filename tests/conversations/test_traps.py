"""Each known trap of durable engines and of conversations on top of them, by its name."""

import ast
import re
from pathlib import Path

import pytest
from sqlalchemy import select, text, update

import Middleware
from Middleware.conversations import tables
from Middleware.conversations.inbox import Start
from Middleware.conversations.leases import Duty
from Middleware.conversations.models import Options, Receipt, Refusal
from Middleware.conversations.page import Page
from tests.fakes.conversation_client import Client
from tests.fakes.conversation_worker import Job, Outside, wait_for, worker
from tests.fakes.stepping import SteppingEngine


def said(client: Client) -> list[str]:
    found = client.reader.transcript("talk", Page(limit=100))
    assert found is not None
    return [turn["text"] for turn in found["turns"]]


@pytest.mark.slow
def test_messages_are_ordered_by_their_numbers_and_not_by_their_times(
    database_url: str, outside: Outside
) -> None:
    client = Client(database_url)
    client.start("talk")
    for word in ("first", "second", "third"):
        client.message("talk", word)
    signal = tables.signals
    with client.database.transaction() as connection:
        backwards = {"received_at": 1_000_000.0 - signal.c.sequence}
        connection.execute(update(signal).values(backwards))

    with worker(Job(url=database_url, folder=str(outside.folder), lease_seconds=30)):
        client.settle("talk")

    assert said(client) == ["first", "second", "third"]
    client.close()


@pytest.mark.slow
def test_request_ids_are_known_in_later_runs_and_after_the_end(
    database_url: str, outside: Outside
) -> None:
    client = Client(database_url)
    client.start("talk", turns_per_run=1)
    first = client.message("talk", "first", request_id="key-1")
    with worker(Job(url=database_url, folder=str(outside.folder), lease_seconds=30)):
        for word in ("second", "third"):
            client.message("talk", word)
        client.settle("talk")
        later = client.message("talk", "first", request_id="key-1")
        generation = client.status("talk")["generation"]
        client.message("talk", "/end")
        client.settle("talk")
    ended = client.message("talk", "first", request_id="key-1")
    changed = client.message("talk", "another", request_id="key-1")

    assert generation == 4
    assert isinstance(first, Receipt)
    for again in (later, ended):
        assert isinstance(again, Receipt)
        assert again.duplicate
        assert (again.signal_id, again.sequence) == (first.signal_id, first.sequence)
        assert again.run_id == first.run_id
    assert isinstance(changed, Refusal)
    assert changed.outcome == "request_id_conflict"
    assert said(client) == ["first", "second", "third"]
    client.close()


@pytest.mark.slow
def test_nothing_is_accepted_after_the_end(database_url: str, outside: Outside) -> None:
    client = Client(database_url)
    client.start("talk")
    client.message("talk", "/end")
    with worker(Job(url=database_url, folder=str(outside.folder), lease_seconds=30)):
        client.settle("talk")
        late = client.message("talk", "late", request_id="late")
        again = client.message("talk", "late", request_id="late")

    for refused in (late, again):
        assert isinstance(refused, Refusal)
        assert refused.outcome == "rejected_not_active"
    signals = client.reader.signals("talk", Page())
    assert signals is not None
    assert len(signals["signals"]) == 1
    client.close()


def open_tasks(client: Client, table: str) -> int:
    query = text(f"SELECT count(*) FROM {table} WHERE status IN ('ENQUEUED', 'PENDING')")
    with client.database.transaction() as connection:
        return int(connection.execute(query).scalar_one())


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True], ids=["waiting", "in the middle of a turn"])
def test_work_of_another_application_version_is_not_stranded(
    begun: bool, database_url: str, outside: Outside
) -> None:
    """The engine takes up no work of another version, not even after a restart."""
    client = Client(database_url)
    table = "workflow_status" if client.database.is_sqlite else "dbos.workflow_status"
    client.start("talk")
    client.message("talk", "Hello")
    folder = str(outside.folder)
    if begun:
        dies = Job(url=database_url, folder=folder, die_at="think:started")
        with worker(dies) as first:
            wait_for(lambda: not first.is_alive())
    with client.database.transaction() as connection:
        connection.execute(text(f"UPDATE {table} SET application_version = 'an-older-one'"))

    with worker(Job(url=database_url, folder=folder)):
        client.settle("talk")
        client.message("talk", "still there?")
        client.settle("talk")
        # Nor is what nobody will take left behind.
        wait_for(lambda: open_tasks(client, table) == 0)

    assert said(client) == ["Hello", "still there?"]
    client.close()


@pytest.mark.slow
def test_no_two_living_processes_have_one_executor_id(database_url: str, outside: Outside) -> None:
    """Or each would take the work of the other for its own, and do it a second time."""
    client = Client(database_url)
    job = Job(url=database_url, folder=str(outside.folder), lease_seconds=30, model_seconds=0.3)
    with worker(job) as one, worker(job) as other:
        wait_for(lambda: len(outside.notes("ready")) == 2)
        with client.database.transaction() as connection:
            rows = connection.execute(select(tables.executors.c.id, tables.executors.c.about)).all()
        names = [client.start(f"talk{number}") for number in range(6)]
        for name in names:
            client.message(name, "Hello")
        for name in names:
            client.settle(name)

    names_of = {int(row.about.rpartition(" ")[2]): row.id for row in rows}
    assert len({names_of[process.pid or 0] for process in (one, other)}) == 2
    assert len(outside.notes("model")) == 6
    client.close()


USED = {"run_step", "workflow", "listen_queues", "launch", "register_queue", "destroy"}
"""All of the library that may be used; what is missing has traps. Its ``get_result`` asks the
database once a second, its streams repeat what a repeated step wrote, its messages are ordered by
time, its recovery goes by executor and version."""
USED_BY_CLIENTS = {
    "enqueue_in_transaction",
    "list_workflows",
    "resume_workflow",
    "cancel_workflow",
    "delete_workflows",
    "destroy",
}


def test_nothing_of_the_engine_is_used_that_polls_streams_or_orders_by_time() -> None:
    """That no other module knows the library is a rule of ``tests/test_architecture.py``."""
    module = Path(Middleware.__file__).parent / "conversations" / "engine.py"
    source = module.read_text(encoding="utf-8")
    attributes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]

    def of(owner: str) -> set[str]:
        return {node.attr for node in attributes if ast.unparse(node.value) == owner}

    assert of("DBOS") == USED
    assert of("self._client") == USED_BY_CLIENTS
    assert not re.search(r"get_result|write_stream|read_stream|\.recv\b|set_event", source)


def test_a_clock_that_was_set_back_does_not_stop_the_repairs(tmp_path: Path) -> None:
    engine = SteppingEngine(tmp_path)
    duty = Duty(engine.database, "repair", engine.executor)
    taken = [duty.take(30, 0.0)]
    duty.done()
    engine.clock.pass_(-10_000)

    taken.append(Duty(engine.database, "repair", engine.executor).take(30, 5))

    assert taken == [True, True]
    engine.database.close()


@pytest.mark.parametrize("seconds", [-10_000, 10_000], ids=["back", "forward"])
def test_a_clock_that_is_set_in_the_middle_of_a_turn_doubles_nothing(
    seconds: float, tmp_path: Path
) -> None:
    """Set forward it makes a living worker look dead: what it brings late is discarded."""
    engine = SteppingEngine(tmp_path)
    begun = Start(profile="refund-desk", options=Options(), conversation_id="c", message="Hello")
    engine.inbox.start(begun)
    found = engine.next_task()
    assert found is not None
    first = engine.begin(*found)
    first.step()
    engine.clock.pass_(seconds)
    engine.start_process()
    handed_on = engine.repairer.run()
    while first.step():
        pass
    engine.run()

    status = engine.reader.status("c")
    assert status is not None
    assert (handed_on, status["turn_count"]) == (int(seconds > 0), 1)
    assert len(engine.rows(tables.records)) == 1
    history = engine.reader.history("c", Page(limit=100))
    assert history is not None
    assert [one["number"] for one in history["events"]] == list(
        range(1, len(history["events"]) + 1)
    )
    engine.database.close()
