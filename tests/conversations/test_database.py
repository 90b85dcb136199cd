import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, text

from Middleware.conversations import tables
from Middleware.conversations.database import Database
from Middleware.conversations.migrations import MIGRATIONS
from Middleware.conversations.models import StorageUnavailable
from Middleware.core.errors import ConfigError
from tests.fakes import postgres


def test_the_migrations_make_the_tables_that_the_code_knows(database_url: str) -> None:
    database = Database(database_url)
    found = inspect(database.engine)

    for name, table in tables.metadata.tables.items():
        columns = {column["name"]: column["nullable"] for column in found.get_columns(name)}
        assert columns.keys() == set(table.columns.keys()), name
        indexes = {index["name"] for index in found.get_indexes(name)}
        assert {index.name for index in table.indexes} <= indexes, name
    database.close()


def m0002_later(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE conversations ADD COLUMN mood TEXT"))


def test_migrations_are_applied_once_and_later_ones_to_what_is_there(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'durable.sqlite'}")

    applied = [
        database.migrate(),
        database.migrate(),
        database.migrate((*MIGRATIONS, m0002_later)),
        database.migrate((*MIGRATIONS, m0002_later)),
    ]

    assert applied == [len(MIGRATIONS), 0, 1, 0]
    assert "mood" in {one["name"] for one in inspect(database.engine).get_columns("conversations")}
    database.close()


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'durable.sqlite'}")

    def breaks(connection: Connection) -> None:
        m0002_later(connection)
        raise ZeroDivisionError

    database.migrate()
    with pytest.raises(ZeroDivisionError):
        database.migrate((*MIGRATIONS, breaks))

    columns = {one["name"] for one in inspect(database.engine).get_columns("conversations")}
    assert "mood" not in columns
    database.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_several_processes_may_migrate_at_once(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path / 'durable.sqlite'}"
    else:
        cluster: postgres.Cluster = request.getfixturevalue("cluster")
        url = cluster.new_database()
    applied: list[int] = []

    def migrate() -> None:
        database = Database(url)
        applied.append(database.migrate())
        database.close()

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(applied) == [0, 0, 0, len(MIGRATIONS)]
    if kind == "postgresql":
        cluster.drop_database(url)


def test_the_time_of_the_engine_is_known_whatever_sqlite_is_there(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'durable.sqlite'}")

    with database.transaction() as connection:
        now = connection.execute(text("SELECT unixepoch('subsec')")).scalar_one()
        assert abs(now - database.now(connection)) < 5
    database.close()


@pytest.mark.parametrize("url", ["nonsense", "mysql://host/name"])
def test_databases_that_there_is_no_support_for(url: str) -> None:
    with pytest.raises(ConfigError):
        Database(url)


def test_a_database_that_is_not_there_is_told_without_its_address() -> None:
    database = Database("postgresql://user:secret@127.0.0.1:9/name")

    with pytest.raises(StorageUnavailable) as caught:
        database.migrate()

    assert caught.value.status == 503
    assert "127.0.0.1" not in caught.value.message
    database.close()
