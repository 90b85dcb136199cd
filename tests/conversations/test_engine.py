"""The durable engine itself, in processes of its own: load, bounds, and its known traps."""

import itertools
import json
import random
import shutil
import sqlite3
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import inspect, text

from Middleware.conversations.models import Receipt
from Middleware.conversations.page import Page
from tests.fakes import postgres
from tests.fakes.conversation_client import MESSAGES, Client
from tests.fakes.conversation_worker import Job, Outside, wait_for, worker


def run_threads(count: int, body: Any) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            body(number)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def transcript(client: Client, name: str) -> list[dict[str, Any]]:
    found = client.reader.transcript(name, Page(limit=1000))
    assert found is not None
    turns: list[dict[str, Any]] = found["turns"]
    return turns


@pytest.mark.slow
def test_sixty_four_senders_to_sixteen_conversations_who_lose_answers_and_repeat(
    database_url: str, outside: Outside
) -> None:
    client = Client(database_url)
    names = [client.start(f"talk{number}", turns_per_run=3) for number in range(16)]
    sequences: dict[str, dict[str, int]] = {name: {} for name in names}

    def sender(number: int) -> None:
        name = names[number % 16]
        chance = random.Random(number)
        for count in range(2):
            said = f"{number}:{count}"
            receipts = []
            # The answers that were lost come first; only then the one that is read.
            for _ in range(chance.choice([1, 1, 2, 3])):
                receipts.append(client.message(name, said, request_id=said))
            (sequence,) = {one.sequence for one in receipts if isinstance(one, Receipt)}
            assert [one.duplicate for one in receipts if isinstance(one, Receipt)] == [
                False,
                *[True] * (len(receipts) - 1),
            ]
            sequences[name][said] = sequence

    job = Job(url=database_url, folder=str(outside.folder), turns_at_once=8, lease_seconds=30)
    with worker(job):
        run_threads(64, sender)
        for name in names:
            client.settle(name, seconds=60)

    for name in names:
        accepted = sorted(sequences[name], key=lambda said: sequences[name][said])
        assert [turn["text"] for turn in transcript(client, name)] == accepted
        assert len(accepted) == 8
    client.close()


@pytest.mark.slow
def test_sends_that_race_with_new_generations_are_never_lost_and_never_doubled(
    file_url: str, outside: Outside
) -> None:
    client = Client(file_url)
    client.start("talk", turns_per_run=5)

    def sender(number: int) -> None:
        for count in range(25):
            client.message("talk", f"{number}:{count}")

    with worker(Job(url=file_url, folder=str(outside.folder), lease_seconds=30)):
        run_threads(4, sender)
        client.settle("talk", seconds=60)

    turns = transcript(client, "talk")
    assert len(turns) == 100
    assert client.status("talk")["generation"] == 21
    for number in range(4):
        mine = [turn["text"] for turn in turns if turn["text"].startswith(f"{number}:")]
        assert mine == [f"{number}:{count}" for count in range(25)]
    client.close()


@pytest.mark.slow
def test_each_process_keeps_to_its_own_bound_whatever_another_has_written(
    file_url: str, outside: Outside
) -> None:
    """The library keeps queue settings in the database, where the last writer wins."""
    client = Client(file_url)
    narrow = Job(
        url=file_url,
        folder=str(outside.folder),
        turns_at_once=1,
        model_seconds=0.1,
        lease_seconds=30,
    )
    names = [client.start(f"talk{number}") for number in range(6)]
    with worker(narrow) as first:
        wait_for(lambda: len(outside.notes("ready")) == 1)
        folder = outside.folder / "wide"
        folder.mkdir()
        wide = Job(url=file_url, folder=str(folder), turns_at_once=8, lease_seconds=30)
        with worker(wide):
            wait_for(lambda: Outside(str(folder)).notes("ready"))
        for name in names:
            client.message(name, "Hello")
        for name in names:
            client.settle(name)
        assert first.is_alive()

    begun = sorted(note["at"] for note in outside.notes("model"))
    assert len(begun) == 6
    assert min(later - sooner for sooner, later in itertools.pairwise(begun)) >= 0.1
    client.close()


@pytest.mark.slow
def test_what_the_engine_keeps_is_no_code_holds_no_reply_and_is_removed_in_time(
    database_url: str, outside: Outside
) -> None:
    """Removed even if the worker was lost when all was done but the engine did not know it."""
    client = Client(database_url)
    client.start("talk", turns_per_run=1)
    client.message("talk", "a secret of this test")
    dies = Job(url=database_url, folder=str(outside.folder), die_at="hand_over:committed")
    with worker(dies) as first:
        wait_for(lambda: not first.is_alive())
    assert client.is_idle("talk")

    schema = None if client.database.is_sqlite else "dbos"
    prefix = "" if schema is None else "dbos."
    reply = "you said"
    with client.database.transaction() as connection:
        for table in inspect(client.database.engine).get_table_names(schema=schema):
            if table.startswith("conversation"):
                continue
            rows = connection.execute(text(f"SELECT * FROM {prefix}{table}")).all()
            assert reply not in str(rows), table
            assert "secret" not in str(rows), table
        kinds = connection.execute(
            text(
                f"SELECT DISTINCT serialization FROM {prefix}workflow_status UNION "
                f"SELECT DISTINCT serialization FROM {prefix}operation_outputs"
            )
        ).scalars()
        assert set(kinds) == {"portable_json"}

    def kept() -> int:
        query = text(f"SELECT count(*) FROM {prefix}workflow_status")
        with client.database.transaction() as connection:
            return int(connection.execute(query).scalar_one())

    assert kept() > 0
    with worker(
        Job(url=database_url, folder=str(outside.folder), engine_seconds=0.0, lease_seconds=30)
    ):
        wait_for(lambda: kept() == 0)
    assert client.status("talk")["turn_count"] == 1
    client.close()


@pytest.mark.slow
def test_every_start_of_a_process_has_a_name_of_its_own(file_url: str, outside: Outside) -> None:
    client = Client(file_url)
    client.start("talk")
    for said in ("one", "two"):
        with worker(Job(url=file_url, folder=str(outside.folder), lease_seconds=30)):
            client.message("talk", said)
            client.settle("talk")

    owners = [event["owner"] for event in client.events("talk", "task_leased")]
    assert len(set(owners)) == len(owners) == 2
    client.close()


@pytest.mark.slow
def test_a_second_process_on_one_file_is_not_taken_for_dead(
    file_url: str, outside: Outside
) -> None:
    """Only who is alone may take older leases for ended."""
    client = Client(file_url)
    client.start("talk")
    job = Job(url=file_url, folder=str(outside.folder), lease_seconds=30, model_seconds=1.0)
    with worker(job):
        client.message("talk", "Hello")
        wait_for(lambda: outside.notes("model"))
        with worker(job):
            client.settle("talk")

    assert len(outside.notes("model")) == 1
    assert client.events("talk", "task_repaired") == []
    client.close()


@pytest.mark.slow
def test_a_deadline_is_kept_by_whoever_is_there(file_url: str, outside: Outside) -> None:
    client = Client(file_url)
    client.start("talk", inactivity_seconds=0.5)

    with worker(Job(url=file_url, folder=str(outside.folder))):
        wait_for(lambda: client.status("talk")["phase"] == "completed", 10)

    assert client.status("talk")["closed_reason"] == "inactivity"
    client.close()


@pytest.mark.slow
def test_a_database_that_is_gone_for_a_while(cluster: postgres.Cluster, outside: Outside) -> None:
    """`cluster` says whether there is PostgreSQL at all; this test needs one of its own."""
    own = postgres.make_cluster()
    try:
        url = own.new_database()
        job = Job(url=url, folder=str(outside.folder), model_seconds=1.0, lease_seconds=30)
        with worker(job):
            wait_for(lambda: outside.notes("ready"))
            client = Client(url)
            client.start("talk")
            for said in MESSAGES:
                client.message("talk", said)
            wait_for(lambda: outside.notes("model"))
            own.stop()
            with pytest.raises(Exception, match="store of conversations cannot be reached"):
                client.message("talk", "lost")
            own.start()
            wait_for(lambda: _answers(client), 20)
            client.settle("talk", seconds=60)

        assert [turn["text"] for turn in transcript(client, "talk")] == [*MESSAGES]
        assert len(outside.notes("action")) == 1
        client.close()
    finally:
        own.stop()
        shutil.rmtree(own.folder, ignore_errors=True)


def _answers(client: Client) -> bool:
    try:
        client.status("talk")
    except Exception:  # noqa: BLE001 - not there yet
        return False
    return True


STORES = Path(__file__).parent.parent / "cases" / "durable"


def _restored(store: Path, folder: Path) -> str:
    """The URL of a SQLite file with this content."""
    file = folder / "old.sqlite"
    connection = sqlite3.connect(file)
    connection.executescript(store.read_text(encoding="utf-8"))
    connection.close()
    return f"sqlite:///{file}"


def _goes_on(url: str, store: str, outside: Outside) -> None:
    """One conversation waited, one for a decision, and one was in the middle of a turn when the
    program was replaced."""
    expected = json.loads((STORES / f"{store}.json").read_text(encoding="utf-8"))
    with worker(Job(url=url, folder=str(outside.folder))):
        wait_for(lambda: outside.notes("ready"))
        client = Client(url)
        for name in expected:
            client.settle(name)
            client.message(name, "still there?")
            client.settle(name)

    said = {name: [turn["text"] for turn in transcript(client, name)] for name in expected}
    assert said == {name: [*texts, "still there?"] for name, texts in expected.items()}
    client.close()


EARLIER = sorted(path.stem for path in STORES.glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("store", EARLIER)
def test_a_file_of_an_earlier_release_goes_on(store: str, tmp_path: Path, outside: Outside) -> None:
    _goes_on(_restored(STORES / f"{store}.sql", tmp_path), store, outside)


@pytest.mark.slow
@pytest.mark.parametrize("store", EARLIER)
def test_a_postgresql_database_of_an_earlier_release_goes_on(
    store: str, cluster: postgres.Cluster, outside: Outside
) -> None:
    url = cluster.new_database()
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            dump = (STORES / f"{store}.postgresql.sql").read_bytes()
            connection.execute(dump)
        _goes_on(url, store, outside)
    finally:
        cluster.drop_database(url)


def _threads(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("Threads")).split()[1])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks the Linux kernel")
def test_conversations_that_wait_hold_no_thread_and_are_not_executed_again(
    file_url: str, outside: Outside
) -> None:
    client = Client(file_url)
    job = Job(url=file_url, folder=str(outside.folder), lease_seconds=30)
    with worker(job) as first:
        wait_for(lambda: outside.notes("ready"))
        assert first.pid is not None
        client.start("first")
        client.message("first", "Hello")
        client.settle("first")
        before = _threads(first.pid)
        for number in range(200):
            client.start(f"talk{number}")
        client.message("talk7", "Please refund my order")
        wait_for(lambda: client.status("talk7")["pending_proposal"])
        # One more thread at most: the one that took the last turn.
        assert _threads(first.pid) <= before + 1
    with worker(job):
        wait_for(lambda: len(outside.notes("ready")) == 2)
        client.message("first", "Are you there?")
        client.settle("first")

    query = text("SELECT conversation_id, count(*) FROM conversation_history GROUP BY 1")
    with client.database.transaction() as connection:
        events = {name: count for name, count in connection.execute(query).all()}
    # That they were started is all that ever happened to them.
    assert {events[f"talk{number}"] for number in range(200) if number != 7} == {1}
    client.close()
