import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from Middleware.storage.sqlite import (
    DatabaseUnavailable,
    Migration,
    RowRefused,
    migrate,
    open_database,
    translated,
)


def first(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE a (id INTEGER PRIMARY KEY)")


def second(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE a ADD COLUMN name TEXT")


def broken(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO a (id) VALUES (7)")
    raise ValueError("half way")


def columns(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[1] for row in connection.execute("PRAGMA table_info(a)")]


def open_with(path: Path, *migrations: Migration) -> None:
    open_database(path, migrations, wait_seconds=1).close()


@pytest.mark.parametrize("released", [(), (first,)], ids=["from nothing", "from the last release"])
def test_tables_are_brought_up_to_date_once(
    tmp_path: Path, released: tuple[Migration, ...]
) -> None:
    path = tmp_path / "deep" / "x.sqlite"
    open_with(path, *released)

    open_with(path, first, second)
    open_with(path, first, second)

    assert columns(path) == ["id", "name"]


def test_a_migration_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    open_with(path, first)

    with pytest.raises(ValueError, match="half way"):
        open_with(path, first, broken)

    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM a").fetchone() == (0,)
        migrate(connection, (first, second))
    assert columns(path) == ["id", "name"]


def test_pages_that_become_free_can_be_given_back(tmp_path: Path) -> None:
    with closing(open_database(tmp_path / "x.sqlite", (first,), wait_seconds=1)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(DatabaseUnavailable):
        open_with(tmp_path / "file" / "x.sqlite", first)


def test_a_value_that_does_not_fit_is_told_apart_from_a_database_that_is_not_there() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        first(connection)
        with pytest.raises(RowRefused), translated():
            connection.execute("INSERT INTO a VALUES (?)", (10**30,))
