import threading
from pathlib import Path

import pytest

from Middleware.storage.files import (
    PathLocks,
    decode_text,
    find_in_any_case,
    read_text,
    write_atomically,
)


def test_folders_are_made_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a/b/c.txt"

    write_atomically(path, b"x")

    assert path.read_bytes() == b"x"
    assert [entry.name for entry in path.parent.iterdir()] == ["c.txt"]


def test_a_mode_that_is_given_is_that_of_a_new_and_of_an_old_file(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_bytes(b"")
    old.chmod(0o644)

    write_atomically(old, b"", mode=0o600)
    write_atomically(tmp_path / "new", b"", mode=0o600)

    assert old.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_what_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    (target / "inside").mkdir(parents=True)

    with pytest.raises(OSError, match="directory"):
        write_atomically(target, b"x")

    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"\xef\xbb\xbfa", "a"), ("é".encode(), "é"), (b"\xe9", "é"), (b"", ""), (b"\x81", "\ufffd")],
)
def test_bytes_of_old_systems_become_text(data: bytes, text: str) -> None:
    assert decode_text(data) == text


def test_all_line_ends_are_read_alike(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\r\nb\rc\n")

    assert read_text(tmp_path / "f") == "a\nb\nc\n"


def test_the_exact_name_wins_over_one_in_another_case(tmp_path: Path) -> None:
    for name in ("Name", "name", "NAME"):
        (tmp_path / name).write_text(name, encoding="utf-8")

    assert find_in_any_case(tmp_path / "name") == tmp_path / "name"
    assert find_in_any_case(tmp_path / "nAme") in (tmp_path / "NAME", tmp_path / "Name")
    assert find_in_any_case(tmp_path / "other") is None
    assert find_in_any_case(tmp_path / "nowhere" / "name") is None


def test_a_path_is_held_by_one_at_a_time_however_it_is_spelled(tmp_path: Path) -> None:
    locks = PathLocks()
    inside = 0
    most = 0
    guard = threading.Lock()

    def work(path: Path) -> None:
        nonlocal inside, most
        for _ in range(200):
            with locks.hold(path):
                with guard:
                    inside += 1
                    most = max(most, inside)
                with guard:
                    inside -= 1

    paths = [tmp_path / "f", tmp_path / "x" / ".." / "f"]
    (tmp_path / "x").mkdir()
    threads = [threading.Thread(target=work, args=[path]) for path in paths * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == 1


def test_who_does_not_want_to_wait_is_told_that_a_path_is_held(tmp_path: Path) -> None:
    locks = PathLocks()

    with locks.try_hold(tmp_path / "f") as first:
        with locks.try_hold(tmp_path / "f") as second, locks.try_hold(tmp_path / "g") as other:
            pass
        with locks.try_hold(tmp_path / "f") as third:
            pass
    with locks.try_hold(tmp_path / "f") as after:
        pass

    assert (first, second, other, third, after) == (True, False, True, False, True)
