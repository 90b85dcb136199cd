import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from Middleware.core.errors import ConfigError
from Middleware.storage.discussions import DiscussionKey, DiscussionRoot
from Middleware.storage.encryption import Cipher, key_hash

NOBODY = DiscussionKey()


def test_the_folder_of_an_id_and_of_an_id_with_a_key(tmp_path: Path) -> None:
    root = DiscussionRoot(path=tmp_path)

    assert root.folder("Talk ☃", NOBODY).path == tmp_path / "Talk ☃"
    assert root.folder("talk", DiscussionKey(api_key="k")).path == tmp_path / key_hash("k") / "talk"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "C:x", "x\0y", "../../etc"])
def test_an_id_that_is_no_plain_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        DiscussionRoot(path=tmp_path).folder(name, NOBODY)


def test_reading_creates_nothing(tmp_path: Path) -> None:
    folder = DiscussionRoot(path=tmp_path / "root").folder("talk", NOBODY)

    assert folder.read_list("memories.json") == []
    assert folder.read_object("vision_responses.json") == {}
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_can_be_read_and_has_the_form_of_the_reference(tmp_path: Path) -> None:
    folder = DiscussionRoot(path=tmp_path).folder("talk", NOBODY)

    folder.write("a.json", {"k": "é"})

    path = tmp_path / "talk/a.json"
    assert folder.read_object("a.json") == {"k": "é"}
    assert path.read_text(encoding="utf-8") == '{\n    "k": "\\u00e9"\n}'
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ['{"a": 1}', "3", "null"])
def test_a_list_file_that_holds_something_else_is_an_error(content: str, tmp_path: Path) -> None:
    folder = DiscussionRoot(path=tmp_path).folder("talk", NOBODY)
    (tmp_path / "talk").mkdir()
    (tmp_path / "talk/memories.json").write_text(content, encoding="utf-8")

    with pytest.raises(ConfigError, match=r"memories\.json"):
        folder.read_list("memories.json")


def test_a_name_in_another_case_is_found(tmp_path: Path) -> None:
    (tmp_path / "talk").mkdir()
    (tmp_path / "talk/Memories.JSON").write_text("[1]", encoding="utf-8")

    assert DiscussionRoot(path=tmp_path).folder("talk", NOBODY).read_list("memories.json") == [1]


def test_an_old_folder_is_used_while_there_is_no_new_one(tmp_path: Path) -> None:
    root = DiscussionRoot(path=tmp_path / "new", legacy=tmp_path / "old")
    (tmp_path / "old/talk").mkdir(parents=True)

    before = root.folder("talk", NOBODY).path
    (tmp_path / "new/talk").mkdir(parents=True)

    assert before == tmp_path / "old/talk"
    assert root.folder("talk", NOBODY).path == tmp_path / "new/talk"


def test_an_old_flat_file_is_read_and_written_while_there_is_no_other(tmp_path: Path) -> None:
    flat = tmp_path / "talk_memories.json"
    flat.write_text("[1]", encoding="utf-8")
    folder = DiscussionRoot(path=tmp_path).folder("talk", NOBODY)

    read = folder.read_list("memories.json")
    folder.write("memories.json", [1, 2])

    assert read == [1]
    assert json.loads(flat.read_text(encoding="utf-8")) == [1, 2]
    assert not (tmp_path / "talk").exists()


def test_flat_files_belong_to_nobody_who_shows_a_key(tmp_path: Path) -> None:
    (tmp_path / "talk_memories.json").write_text("[1]", encoding="utf-8")

    folder = DiscussionRoot(path=tmp_path).folder("talk", DiscussionKey(api_key="k"))

    assert folder.read_list("memories.json") == []


SECRET = DiscussionKey(api_key="k", user="alice", encrypts=True)


def test_with_encryption_nothing_can_be_read_on_the_disk(tmp_path: Path) -> None:
    folder = DiscussionRoot(path=tmp_path).folder("talk", SECRET)

    folder.write("a.json", {"word": "canary"})

    data = (folder.path / "a.json").read_bytes()
    assert b"canary" not in data
    assert json.loads(Cipher("k", "alice").decrypt(data)) == {"word": "canary"}
    assert folder.read_object("a.json") == {"word": "canary"}


def test_plain_files_are_read_and_encrypted_when_they_are_written_next(tmp_path: Path) -> None:
    plain = DiscussionRoot(path=tmp_path).folder("talk", DiscussionKey(api_key="k"))
    plain.write("a.json", {"word": "canary"})
    folder = DiscussionRoot(path=tmp_path).folder("talk", SECRET)

    folder.update_object("a.json", lambda value: value.update(n=1))

    assert folder.read_object("a.json") == {"word": "canary", "n": 1}
    assert b"canary" not in (folder.path / "a.json").read_bytes()


@pytest.mark.parametrize(
    "reader",
    [DiscussionKey(api_key="k"), DiscussionKey(api_key="k", user="bob", encrypts=True)],
    ids=["encryption was turned off", "the user was renamed"],
)
def test_what_cannot_be_decrypted_is_an_error_and_is_not_overwritten(
    reader: DiscussionKey, tmp_path: Path
) -> None:
    root = DiscussionRoot(path=tmp_path)
    root.folder("talk", SECRET).write("a.json", {"word": "canary"})
    folder = root.folder("talk", reader)

    with pytest.raises(ConfigError, match="encrypted for another key"):
        folder.update_object("a.json", lambda value: value.update(n=1))

    assert root.folder("talk", SECRET).read_object("a.json") == {"word": "canary"}


def test_encryption_without_a_key_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        DiscussionRoot(path=tmp_path).folder("talk", DiscussionKey(user="alice", encrypts=True))

    assert "plain text" in caplog.text


def test_two_who_change_a_file_at_once_lose_nothing(tmp_path: Path) -> None:
    root = DiscussionRoot(path=tmp_path)

    def add(name: str) -> None:
        for number in range(20):
            key = f"{name}{number}"

            def change(value: dict[str, Any], key: str = key) -> None:
                value[key] = 1

            root.folder("talk", NOBODY).update_object("a.json", change)

    threads = [threading.Thread(target=add, args=[name]) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(root.folder("talk", NOBODY).read_object("a.json")) == 40
