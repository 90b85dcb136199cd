from pathlib import Path
from typing import Any

import pytest

from Middleware.config.files import Snapshot
from Middleware.core.errors import ConfigError
from Middleware.storage.encryption import key_hash
from Middleware.workflows.models.server_parts import ServerParts
from tests.workflows.handlers.setups import scope_in


def config(root: Path, **keys: Any) -> Snapshot:
    return scope_in(root, **keys).config


def test_discussions_are_where_the_options_say_else_the_user_else_among_the_data(
    tmp_path: Path,
) -> None:
    user = config(tmp_path, discussionDirectory=str(tmp_path / "mine"))
    options = ServerParts(discussion_directory=tmp_path / "given")

    found = [
        options.discussion(user, "talk", None),
        ServerParts().discussion(user, "talk", None),
        ServerParts().discussion(config(tmp_path), "talk", None),
        ServerParts().discussion(config(tmp_path), "talk", "k"),
    ]

    assert [folder and folder.path for folder in found] == [
        tmp_path / "given/talk",
        tmp_path / "mine/talk",
        tmp_path / "Public/DiscussionIds/talk",
        tmp_path / "Public/DiscussionIds" / key_hash("k") / "talk",
    ]


@pytest.mark.parametrize("discussion_id", [None, ""])
def test_without_an_id_there_is_no_folder(discussion_id: str | None, tmp_path: Path) -> None:
    assert ServerParts().discussion(config(tmp_path), discussion_id, None) is None


def test_a_folder_of_nobodys_home_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        ServerParts().discussion(
            config(tmp_path, discussionDirectory="~nobody-of-that-name/x"), "talk", None
        )


def test_locks_of_dead_processes_are_free_after_a_start(tmp_path: Path) -> None:
    parts, own = ServerParts(), config(tmp_path)
    other = ServerParts()
    database = parts.lock_database(own)
    other.workflow_locks.acquire(database, "a", run="r1")
    # What a process leaves that has no time to say goodbye.
    for path in (database.parent / ".alive").iterdir():
        path.unlink()

    parts.start([own])

    assert parts.workflow_locks.acquire(database, "a", run="r2") is True
    parts.close()
