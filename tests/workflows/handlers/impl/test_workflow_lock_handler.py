import sqlite3
from pathlib import Path

import pytest
from pydantic import ValidationError

from Middleware.core.errors import WorkflowError
from Middleware.storage.encryption import key_hash
from Middleware.workflows.models.early_end import RunEndsEarly
from tests.workflows.handlers.setups import context_of, handle, scope_in

KIND = "WorkflowLock"
CONFIG = {"workflowLockId": "memory-{agent1Output}"}


def names(database: Path) -> list[str]:
    connection = sqlite3.connect(database)
    found = connection.execute("SELECT WorkflowLockId FROM WorkflowLocks").fetchall()
    connection.close()
    return [name for (name,) in found]


def test_a_lock_is_taken_until_its_run_ends(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    database = tmp_path / "Public/SqlLiteDBs/WilmerDb.tester.sqlite"

    payload = handle(context_of(KIND, CONFIG, request_scope=scope))
    during = names(database)
    scope.at_end.run()

    assert payload.value is None
    assert during == ["memory-{agent1Output}"]
    assert names(database) == []


def test_a_lock_that_is_held_ends_the_run_with_a_notice(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    scope.server.workflow_locks.acquire(
        scope.server.lock_database(scope.config), CONFIG["workflowLockId"], run="another"
    )

    with pytest.raises(RunEndsEarly) as caught:
        handle(context_of(KIND, CONFIG, request_scope=scope))

    assert "try again" in caught.value.message
    scope.at_end.run()
    assert len(names(scope.server.lock_database(scope.config))) == 1


def test_people_with_keys_have_locks_of_their_own(tmp_path: Path) -> None:
    first = scope_in(tmp_path)
    second = scope_in(tmp_path, api_key="k")

    for scope in (first, second):
        handle(context_of(KIND, {"workflowLockId": "a"}, request_scope=scope))

    assert names(first.server.lock_database(first.config)) == ["a", f"{key_hash('k')}:a"]


def test_the_database_is_where_the_user_wants_it(tmp_path: Path) -> None:
    scope = scope_in(tmp_path, sqlLiteDirectory=str(tmp_path / "mine"))

    assert scope.server.lock_database(scope.config) == tmp_path / "mine/WilmerDb.tester.sqlite"


def test_an_old_database_is_used_while_there_is_no_new_one(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    old = scope.server.install / "WilmerDb.tester.sqlite"
    new = tmp_path / "Public/SqlLiteDBs/WilmerDb.tester.sqlite"
    old.parent.mkdir()
    old.write_bytes(b"")

    before = scope.server.lock_database(scope.config)
    new.parent.mkdir(parents=True)
    new.write_bytes(b"")

    assert (before, scope.server.lock_database(scope.config)) == (old, new)


@pytest.mark.parametrize("config", [{}, {"workflowLockId": ""}, {"workflowLockId": None}])
def test_a_name_is_needed(config: dict[str, str | None]) -> None:
    with pytest.raises(ValidationError, match="workflowLockId"):
        context_of(KIND, config)


def test_a_request_is_needed() -> None:
    with pytest.raises(WorkflowError):
        handle(context_of(KIND, CONFIG))
