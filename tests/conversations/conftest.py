"""Databases for the tests of conversations: a file each, or a database each of one cluster."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from Middleware.conversations.database import Database
from tests.fakes import postgres
from tests.fakes.conversation_worker import Job, Outside, wait_for, worker


def _prepare(url: str, folder: Path) -> None:
    """Make all tables, in another process: the engine allows one start of it in each."""
    folder.mkdir()
    with worker(Job(url=url, folder=str(folder))):
        wait_for(lambda: Outside(str(folder)).notes("ready"))


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with all tables and no rows."""
    folder = tmp_path_factory.mktemp("empty")
    file = folder / "durable.sqlite"
    _prepare(f"sqlite:///{file}", folder / "outside")
    database = Database(f"sqlite:///{file}")
    with database.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM conversation_executors")
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return file


@pytest.fixture(scope="session")
def empty_template(cluster: postgres.Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a PostgreSQL database with all tables."""
    url = cluster.new_database()
    _prepare(url, tmp_path_factory.mktemp("template") / "outside")
    return url.rpartition("/")[2]


@pytest.fixture
def file_url(empty_file: Path, tmp_path: Path) -> str:
    copy = tmp_path / f"{uuid.uuid4().hex}.sqlite"
    shutil.copy(empty_file, copy)
    return f"sqlite:///{copy}"


@pytest.fixture
def postgres_url(cluster: postgres.Cluster, empty_template: str) -> Iterator[str]:
    url = cluster.new_database(empty_template)
    yield url
    cluster.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Each database in turn."""
    name = "file_url" if request.param == "sqlite" else "postgres_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    folder = tmp_path / "outside"
    folder.mkdir()
    return Outside(str(folder))
