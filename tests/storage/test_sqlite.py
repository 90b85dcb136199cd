import sqlite3
from pathlib import Path

import pytest

from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable, transaction

SCHEMA = "CREATE TABLE IF NOT EXISTS t (x INTEGER)"


def test_what_ends_well_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "d.sqlite"
    with transaction(path, SCHEMA) as rows:
        rows.execute("INSERT INTO t VALUES (1)")

    with transaction(path) as rows:
        assert rows.execute("SELECT x FROM t").fetchall() == [(1,)]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"

    def fail() -> None:
        with transaction(path, SCHEMA) as rows:
            rows.execute("INSERT INTO t VALUES (1)")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    with transaction(path, SCHEMA) as rows:
        assert rows.execute("SELECT x FROM t").fetchall() == []


def test_a_database_that_another_writes_to_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(DatabaseBusy), transaction(path, SCHEMA, wait_seconds=0.01):
        pass
    other.close()


def test_what_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all, whatever it is called", encoding="utf-8")

    with pytest.raises(DatabaseUnavailable), transaction(tmp_path / "text", SCHEMA):
        pass
    with pytest.raises(DatabaseUnavailable), transaction(tmp_path / "text" / "d.sqlite"):
        pass
