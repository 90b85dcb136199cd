"""What is PostgreSQL's own; what both databases do alike is tested where it is used."""

import threading
from collections.abc import Iterator

import psycopg
import pytest

from Middleware.core.errors import ConfigError
from Middleware.storage.places import PostgresTables, alive_at
from Middleware.storage.postgres import Postgres
from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable, RowRefused
from tests.fakes.headrace import wait_until

WORDS = PostgresTables("words", (("CREATE TABLE words (word TEXT PRIMARY KEY)",),))


@pytest.fixture
def database(empty_postgres: str) -> Iterator[Postgres]:
    made = Postgres(empty_postgres)
    yield made
    made.close()


def put(database: Postgres, word: str) -> None:
    with database.transaction(WORDS) as connection:
        connection.execute("INSERT INTO words VALUES (?)", (word,))


def words(database: Postgres) -> list[str]:
    with database.transaction(WORDS, named=True) as connection:
        found = connection.execute("SELECT word FROM words ORDER BY word").fetchall()
    return [row["word"] for row in found]


def test_a_name_that_is_none_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(ConfigError, match="postgresql://host/name"):
        Postgres("postgresql://host:port/name")


def test_text_with_a_null_in_it_is_kept_without_it(database: Postgres) -> None:
    put(database, "a\0b % ?")

    assert words(database) == ["a\ufffdb % ?"]


@pytest.mark.parametrize("word", ["once", "half \ud800 of a character"])
def test_a_row_that_cannot_be_stored_is_refused(database: Postgres, word: str) -> None:
    put(database, "once")

    with pytest.raises(RowRefused):
        put(database, word)
    assert words(database) == ["once"]


def test_what_fails_leaves_nothing_behind(database: Postgres) -> None:
    def fail() -> None:
        with database.transaction(WORDS) as connection:
            connection.execute("INSERT INTO words VALUES ('a')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert words(database) == []


def test_several_processes_may_make_the_tables_at_once(empty_postgres: str) -> None:
    servers = [Postgres(empty_postgres) for _ in range(4)]
    start = threading.Barrier(4)

    def begin(server: Postgres, word: str) -> None:
        start.wait()
        put(server, word)

    threads = [
        threading.Thread(target=begin, args=(server, str(number)))
        for number, server in enumerate(servers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert words(servers[0]) == ["0", "1", "2", "3"]
    for server in servers:
        server.close()


def test_tables_change_forward_only(database: Postgres, empty_postgres: str) -> None:
    put(database, "kept")
    changes = (*WORDS.changes, ("ALTER TABLE words ADD COLUMN note TEXT",))
    newer, older = Postgres(empty_postgres), Postgres(empty_postgres)
    with newer.transaction(PostgresTables("words", changes)) as connection:
        assert connection.execute("SELECT word, note FROM words").fetchall() == [("kept", None)]

    with pytest.raises(DatabaseUnavailable, match="newer version"), older.transaction(WORDS):
        pass
    newer.close()
    older.close()


def test_one_at_a_time_changes_what_must_not_be_changed_by_two(
    database: Postgres, empty_postgres: str
) -> None:
    other = Postgres(empty_postgres)
    put(other, "a")
    with (
        database.transaction(WORDS, alone=True),
        pytest.raises(DatabaseBusy),
        other.transaction(WORDS, alone=True, wait_seconds=0.01),
    ):
        pass
    with other.transaction(WORDS, alone=True, wait_seconds=0.01):
        pass
    other.close()


def test_a_database_that_is_not_there_is_told_as_an_error_of_ours() -> None:
    database = Postgres("postgresql://nobody@127.0.0.1:1/nothing")

    with pytest.raises(DatabaseUnavailable), database.transaction(WORDS):
        pass
    with pytest.raises(DatabaseUnavailable):
        alive_at(database, "me")


def test_who_holds_a_connection_lives(database: Postgres, empty_postgres: str) -> None:
    there = Postgres(empty_postgres)
    other, mine = alive_at(there, "other"), alive_at(database, "mine")

    assert mine.lives("other")
    assert not mine.lives("nobody")
    other.close()
    wait_until(lambda: not mine.lives("other"))
    mine.close()
    there.close()


def test_who_lost_the_connection_says_again_that_it_lives(
    database: Postgres, empty_postgres: str
) -> None:
    mine, other = alive_at(database, "mine"), alive_at(database, "other")
    with psycopg.connect(empty_postgres, autocommit=True) as master:
        master.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    mine.renew()
    other.renew()

    assert other.lives("mine")
    put(database, "works")
    assert words(database) == ["works"]
    mine.close()
    other.close()
