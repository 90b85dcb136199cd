import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from Middleware.core.clock import SystemClock
from Middleware.storage.locks import SqliteLocks, WorkflowLocks
from tests.fakes.headrace import wait_until


class Clock(SystemClock):
    """Real ids; the time is what the test says."""

    def __init__(self, at: float = 1_800_000_000.0) -> None:
        super().__init__()
        self.at = at

    def timestamp(self) -> float:
        return self.at


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "locks" / "WilmerDb.tester.sqlite"


@pytest.fixture
def locks() -> Iterator[WorkflowLocks]:
    made = SqliteLocks(Clock())
    yield made
    made.close()


@pytest.fixture
def others() -> Iterator[WorkflowLocks]:
    """Another process."""
    made = SqliteLocks(Clock())
    yield made
    made.close()


def rows(database: Path) -> list[tuple[str, str, str]]:
    with sqlite3.connect(database) as connection:
        found = connection.execute(
            "SELECT WilmerSessionId, WorkflowId, WorkflowLockId FROM WorkflowLocks"
        ).fetchall()
    connection.close()
    return found


def put(database: Path, name: str, expires: str, session: str = "another program") -> None:
    with sqlite3.connect(database) as connection:
        connection.execute(
            "INSERT INTO WorkflowLocks (WilmerSessionId, WorkflowId, WorkflowLockId,"
            " ExpirationDate) VALUES (?, 'run', ?, ?)",
            (session, name, expires),
        )
    connection.close()


def test_a_lock_that_is_held_cannot_be_taken(
    locks: WorkflowLocks, others: WorkflowLocks, database: Path
) -> None:
    assert locks.acquire(database, "a", run="r1") is True
    assert locks.acquire(database, "a", run="r2") is False
    assert others.acquire(database, "a", run="r3") is False
    assert others.acquire(database, "b", run="r3") is True
    assert rows(database) == [(locks.session, "r1", "a"), (others.session, "r3", "b")]


def test_a_lock_that_was_given_back_is_free(
    locks: WorkflowLocks, others: WorkflowLocks, database: Path
) -> None:
    locks.acquire(database, "a", run="r1")
    locks.acquire(database, "b", run="r1")
    locks.acquire(database, "c", run="r2")

    locks.release("r1")

    assert rows(database) == [(locks.session, "r2", "c")]
    assert others.acquire(database, "a", run="r3") is True


def test_a_run_may_take_its_lock_again_and_so_may_its_request(
    locks: WorkflowLocks, database: Path
) -> None:
    locks.acquire(database, "a", run="r1", request="q")

    assert locks.acquire(database, "a", run="r1") is True
    assert locks.acquire(database, "a", run="child", request="q") is True
    assert locks.acquire(database, "a", run="other", request="") is False
    assert len(rows(database)) == 1


@pytest.mark.parametrize(
    ("expires", "free"),
    [
        ("2027-01-15 07:59:59+00:00", True),
        ("2027-01-15 08:00:01+00:00", False),
        ("nonsense", True),
        (str(datetime.fromtimestamp(1_800_000_000 + 600)), False),
        (str(datetime.fromtimestamp(1_800_000_000 - 1)), True),
    ],
    ids=["over", "not over", "no time", "local time, not over", "local time, over"],
)
def test_a_lock_runs_out(locks: WorkflowLocks, database: Path, expires: str, free: bool) -> None:
    locks.acquire(database, "table", run="r0")
    put(database, "a", expires)

    assert locks.acquire(database, "a", run="r1") is free


def test_a_lock_is_taken_for_ten_minutes(
    locks: WorkflowLocks, others: WorkflowLocks, database: Path
) -> None:
    locks.acquire(database, "a", run="r1")
    later = SqliteLocks(Clock(1_800_000_000.0 + 599))
    latest = SqliteLocks(Clock(1_800_000_000.0 + 601))

    assert later.acquire(database, "a", run="r2") is False
    assert latest.acquire(database, "a", run="r2") is True
    latest.close()


def test_a_lock_is_renewed_while_its_run_works(database: Path) -> None:
    clock = Clock()
    locks = SqliteLocks(clock, renew_seconds=0.01)
    locks.acquire(database, "a", run="r1")
    clock.at += 599

    def expires() -> str:
        connection = sqlite3.connect(database)
        (found,) = connection.execute("SELECT ExpirationDate FROM WorkflowLocks").fetchone()
        connection.close()
        return str(found)

    wait_until(lambda: expires() == "2027-01-15 08:19:59+00:00")
    locks.close()
    assert rows(database) == []


def test_one_of_many_gets_it(database: Path) -> None:
    processes = [SqliteLocks() for _ in range(8)]
    got: list[bool] = []
    start = threading.Barrier(8)

    def take(locks: WorkflowLocks) -> None:
        start.wait()
        got.append(locks.acquire(database, "a", run=locks.session))

    threads = [threading.Thread(target=take, args=[one]) for one in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in processes:
        one.close()

    assert sorted(got) == [False] * 7 + [True]


def test_a_server_that_starts_frees_what_the_dead_have_locked_and_nothing_else(
    locks: WorkflowLocks, others: WorkflowLocks, database: Path
) -> None:
    others.acquire(database, "of one that lives", run="r1")
    put(database, "of one that is dead", "2099-01-01 00:00:00")

    locks.clean_up([database, database.with_name("missing.sqlite")])

    assert [name for _, _, name in rows(database)] == ["of one that lives"]
    assert not database.with_name("missing.sqlite").exists()


def test_a_process_that_was_killed_is_dead(database: Path, locks: WorkflowLocks) -> None:
    code = (
        "import sys, os, signal; from pathlib import Path\n"
        "from Middleware.storage.locks import SqliteLocks\n"
        "assert SqliteLocks().acquire(Path(sys.argv[1]), 'a', run='r')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(database)], check=False)
    before = rows(database)

    locks.clean_up([database])

    assert [name for _, _, name in before] == ["a"]
    assert rows(database) == []


def test_without_a_database_nothing_is_locked(locks: WorkflowLocks, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    broken = tmp_path / "file" / "db.sqlite"

    assert locks.acquire(broken, "a", run="r1") is True
    assert locks.acquire(broken, "a", run="r2") is True
    locks.release("r1")


def test_a_database_that_stays_busy_counts_as_a_lock_that_is_held(database: Path) -> None:
    locks = SqliteLocks(wait_seconds=0.01)
    locks.acquire(database, "table", run="r0")
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")

    assert locks.acquire(database, "a", run="r1") is False
    writer.close()
    locks.close()
