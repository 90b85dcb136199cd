"""Locks in PostgreSQL: the same as in SQLite, and between machines."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest

from Middleware.storage.postgres import Postgres
from Middleware.storage.postgres_locks import PostgresLocks
from tests.fakes import postgres
from tests.fakes.live_site import wait_until


@pytest.fixture
def make(empty_postgres: str) -> Iterator[Callable[..., PostgresLocks]]:
    """A process with locks; all are closed at the end."""
    made: list[PostgresLocks] = []
    databases: list[Postgres] = []

    def one(**seconds: float) -> PostgresLocks:
        databases.append(Postgres(empty_postgres))
        made.append(PostgresLocks(databases[-1], None, **seconds))
        return made[-1]

    yield one
    for locks, database in zip(made, databases, strict=True):
        locks.close()
        database.close()


@pytest.fixture
def locks(make: Callable[..., PostgresLocks]) -> PostgresLocks:
    return make()


@pytest.fixture
def others(make: Callable[..., PostgresLocks]) -> PostgresLocks:
    return make()


def rows(url: str) -> list[tuple[str, str, str]]:
    query = "SELECT owner, run, name FROM workflow_locks ORDER BY name, owner"
    return [(str(o), str(r), str(n)) for o, r, n in ask(url, query)]


def ask(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True, options="-c search_path=headrace") as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


def test_a_lock_that_is_held_cannot_be_taken(
    locks: PostgresLocks, others: PostgresLocks, empty_postgres: str
) -> None:
    assert locks.acquire("bob", "a", run="r1") is True
    assert locks.acquire("bob", "a", run="r2") is False
    assert others.acquire("bob", "a", run="r3") is False
    assert others.acquire("bob", "b", run="r3") is True
    assert others.acquire("eve", "a", run="r3") is True
    expected = [("bob", "r1", "a"), ("eve", "r3", "a"), ("bob", "r3", "b")]
    assert rows(empty_postgres) == expected


def test_a_lock_that_was_given_back_is_free(
    locks: PostgresLocks, others: PostgresLocks, empty_postgres: str
) -> None:
    locks.acquire("bob", "a", run="r1")
    locks.acquire("bob", "b", run="r1")
    locks.acquire("bob", "c", run="r2")

    locks.release("r1")

    assert rows(empty_postgres) == [("bob", "r2", "c")]
    assert others.acquire("bob", "a", run="r3") is True


def test_a_request_may_take_its_lock_again(locks: PostgresLocks, empty_postgres: str) -> None:
    locks.acquire("bob", "a", run="r1", request="q")

    assert locks.acquire("bob", "a", run="child", request="q") is True
    assert locks.acquire("bob", "a", run="other") is False
    assert len(rows(empty_postgres)) == 1


def test_a_lock_is_taken_for_ten_minutes_and_then_runs_out(
    locks: PostgresLocks, others: PostgresLocks, empty_postgres: str
) -> None:
    locks.acquire("bob", "a", run="r1")
    left = "SELECT extract(epoch FROM expires_at - now())::int FROM workflow_locks"
    ((seconds,),) = ask(empty_postgres, left)
    later = "UPDATE workflow_locks SET expires_at = now() + interval '1 minute'"
    over = "UPDATE workflow_locks SET expires_at = now()"

    ask(empty_postgres, later)
    assert others.acquire("bob", "a", run="r2") is False
    ask(empty_postgres, over)
    assert others.acquire("bob", "a", run="r2") is True
    assert rows(empty_postgres) == [("bob", "r2", "a")]
    assert isinstance(seconds, int)
    assert 590 <= seconds <= 600


def test_the_one_who_was_too_late_does_not_give_back_the_lock_of_the_next(
    locks: PostgresLocks, others: PostgresLocks, empty_postgres: str
) -> None:
    locks.acquire("bob", "a", run="r1")
    ask(empty_postgres, "UPDATE workflow_locks SET expires_at = now()")
    others.acquire("bob", "a", run="r2")

    locks.release("r1")

    assert rows(empty_postgres) == [("bob", "r2", "a")]


def test_a_lock_is_renewed_while_its_run_works(
    make: Callable[..., PostgresLocks], empty_postgres: str
) -> None:
    locks = make(renew_seconds=0.01)
    locks.acquire("bob", "a", run="r1")
    ask(empty_postgres, "UPDATE workflow_locks SET expires_at = now() + interval '1 second'")
    fresh = "SELECT expires_at > now() + interval '9 minutes' FROM workflow_locks"

    wait_until(lambda: ask(empty_postgres, fresh) == [(True,)])


def test_one_of_many_gets_it(make: Callable[..., PostgresLocks]) -> None:
    processes = [make() for _ in range(8)]
    got: list[bool] = []
    start = threading.Barrier(8)

    def take(locks: PostgresLocks) -> None:
        start.wait()
        # The table is made by whoever comes first.
        got.append(locks.acquire("bob", "a", run=locks.session))

    threads = [threading.Thread(target=take, args=[one]) for one in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(got) == [False] * 7 + [True]


def test_a_server_that_starts_frees_what_the_dead_have_locked_and_nothing_else(
    locks: PostgresLocks, others: PostgresLocks, empty_postgres: str
) -> None:
    code = (
        "import sys, os, signal\n"
        "from Middleware.storage.postgres import Postgres\n"
        "from Middleware.storage.postgres_locks import PostgresLocks\n"
        "assert PostgresLocks(Postgres(sys.argv[1])).acquire('bob', 'of the dead', run='r')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, empty_postgres], check=False)
    others.acquire("bob", "of the living", run="r1")
    before = rows(empty_postgres)

    def cleaned() -> bool:
        # The database notices a moment later that a process is gone.
        locks.clean_up(["bob"])
        return rows(empty_postgres) == [("bob", "r1", "of the living")]

    wait_until(cleaned)
    assert [name for _, _, name in before] == ["of the dead", "of the living"]


def test_a_connection_that_was_lost_is_made_again(
    locks: PostgresLocks, others: PostgresLocks, empty_postgres: str
) -> None:
    locks.acquire("bob", "a", run="r1")
    gone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
    ask(empty_postgres, gone + "'headrace'")

    assert others.acquire("bob", "a", run="r2") is False
    assert locks.acquire("bob", "b", run="r1") is True
    others.clean_up(["bob"])
    assert [name for _, _, name in rows(empty_postgres)] == ["a", "b"]


def test_a_name_may_be_anything_that_a_file_can_say(locks: PostgresLocks) -> None:
    names = ["a\0b", "\ud800", "Schloß 🔒", "a'b", "%s", "\\x00", ""]

    assert [locks.acquire("bob", name, run=str(i)) for i, name in enumerate(names)] == [True] * 7
    assert [locks.acquire("bob", name, run="other") for name in names] == [False] * 7


def test_without_a_database_nothing_is_locked() -> None:
    locks = PostgresLocks(Postgres("postgresql://headrace@127.0.0.1:1/x"))

    assert locks.acquire("bob", "a", run="r1") is True
    assert locks.acquire("bob", "a", run="r2") is True
    locks.release("r1")
    locks.clean_up(["bob"])
    locks.close()


def test_a_database_that_stays_busy_counts_as_a_lock_that_is_held(
    make: Callable[..., PostgresLocks], empty_postgres: str
) -> None:
    locks = make(wait_seconds=0.2)
    locks.acquire("bob", "other", run="r0")
    with psycopg.connect(empty_postgres) as writer:
        writer.execute("LOCK TABLE headrace.workflow_locks")
        assert locks.acquire("bob", "a", run="r1") is False
    assert locks.acquire("bob", "a", run="r1") is True


def test_a_database_that_was_restarted_is_used_again() -> None:
    if postgres.programs() is None:
        pytest.skip("no PostgreSQL on this machine")
    own = postgres.make_cluster()
    try:
        database = Postgres(own.url())
        locks = PostgresLocks(database)
        locks.acquire("bob", "a", run="r1")
        own.stop()
        assert locks.acquire("bob", "b", run="r2") is True
        own.start()
        assert locks.acquire("bob", "a", run="r3") is False
        locks.close()
        database.close()
    finally:
        with suppress(RuntimeError):
            own.stop()
