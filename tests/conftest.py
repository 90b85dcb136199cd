"""The order of the suite when it runs on several cores, and databases for its tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from Middleware.storage.places import Place
from Middleware.storage.postgres import Postgres
from tests.fakes import postgres

# How long an example takes is the machine's affair; what never ends, the time-out of pytest ends.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests first on a worker of xdist, so that none is left alone at the end."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session")
def meeting_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test session know."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def cluster(meeting_place: Path) -> Iterator[postgres.Cluster]:
    if postgres.programs() is None:
        if os.environ.get("HEADRACE_REQUIRE_POSTGRES"):
            pytest.fail("PostgreSQL must be installed here: its tests are not to be skipped")
        pytest.skip("no PostgreSQL on this machine; `apt-get install postgresql` brings it")
    with postgres.shared_cluster(meeting_place) as shared:
        yield shared


@pytest.fixture
def empty_postgres(cluster: postgres.Cluster) -> Iterator[str]:
    """The URL of a database without tables."""
    url = cluster.new_database()
    yield url
    cluster.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Each database in turn: a file that is not there yet, or a database without tables."""
    if request.param == "sqlite":
        yield tmp_path / "data" / "tables.sqlite"
        return
    database = Postgres(request.getfixturevalue("empty_postgres"))
    yield database
    database.close()
