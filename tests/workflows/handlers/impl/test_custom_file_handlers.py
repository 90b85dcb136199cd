import logging
import os
import stat
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.handlers.setups import context_of, handle, said, scope_in

ROOT = Path(__file__).parents[4]


@dataclass(frozen=True)
class Read:
    id: str
    content: str
    config: dict[str, Any]
    expected: str


READS = [
    Read("as it is", "a\nb\n", {}, "a\nb\n"),
    Read("an empty file", "", {}, "No additional information added"),
    Read("replaced", "a;b", {"delimiter": ";", "customReturnDelimiter": " | "}, "a | b"),
    Read("only the delimiter: no change", "a;b", {"delimiter": ";"}, "a;b"),
    Read("only its replacement: no change", "a;b", {"customReturnDelimiter": "|"}, "a;b"),
    Read(
        "an empty delimiter: no change",
        "ab",
        {"delimiter": "", "customReturnDelimiter": "\n"},
        "ab",
    ),
    Read("text cannot be deleted", "a;b", {"delimiter": ";", "customReturnDelimiter": ""}, "a;b"),
    Read("the first lines", "a\nb\nc", {"headCount": 2}, "a\nb"),
    Read("the last lines", "a\nb\nc", {"tailCount": 2}, "b\nc"),
    Read("more lines than there are", "a\nb", {"tailCount": 9}, "a\nb"),
    Read("the last line of a file that ends with a break is empty", "a\n", {"tailCount": 1}, ""),
    Read("parts of another kind", "a;b;c", {"headCount": 1, "chunkDelimiter": ";"}, "a"),
    Read(
        "an empty part separator is a line break",
        "a\nb",
        {"headCount": 1, "chunkDelimiter": ""},
        "a",
    ),
    Read(
        "cut before the replacement",
        "a;b;c",
        {"headCount": 2, "chunkDelimiter": ";", "delimiter": ";", "customReturnDelimiter": "\n"},
        "a\nb",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in READS])
def test_what_is_read(case: Read, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(case.content, encoding="utf-8", newline="")

    text = said(
        "GetCustomFile", {"filepath": "{agent1Output}/notes.md", **case.config}, outputs=[tmp_path]
    )

    assert text == case.expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbfa", "a"),
        ("é ☃".encode(), "é ☃"),
        (b"caf\xe9", "café"),
        (b"a\r\nb\rc\n", "a\nb\nc\n"),
    ],
    ids=["a byte order mark", "UTF-8", "an old code page", "line ends of other systems"],
)
def test_files_of_all_systems_are_read(data: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_bytes(data)

    assert said("GetCustomFile", {"filepath": str(tmp_path / "f.txt")}) == expected


def test_a_name_in_another_case_is_found(tmp_path: Path) -> None:
    (tmp_path / "Notes.MD").write_text("found", encoding="utf-8")

    assert said("GetCustomFile", {"filepath": str(tmp_path / "notes.md")}) == "found"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "No filepath specified"),
        ({"filepath": ""}, "No filepath specified"),
        ({"filepath": "/nowhere/at/all.txt"}, "Custom instruction file did not exist"),
        ({"filepath": "/nowhere/\0.txt"}, "Custom instruction file did not exist"),
        (
            {"filepath": "~nobody-of-that-name/x"},
            "GetCustomFile error: the file cannot be read (RuntimeError).",
        ),
    ],
)
def test_a_file_that_is_not_there_is_a_text(config: dict[str, Any], expected: str) -> None:
    assert said("GetCustomFile", config) == expected


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert (
        said("GetCustomFile", {"filepath": str(tmp_path)})
        == "Custom instruction file did not exist"
    )


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"headCount": 1, "tailCount": 1}, "`headCount` and `tailCount`"),
        ({"headCount": 0}, "`headCount`"),
        ({"headCount": "2"}, "`headCount`"),
        ({"tailCount": True}, "`tailCount`"),
        ({"tailCount": 1.5}, "`tailCount`"),
    ],
)
def test_a_wrong_count_is_the_output_and_an_error_in_the_log(
    config: dict[str, Any], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        text = said("GetCustomFile", {"filepath": "x", **config})

    assert named in text
    assert named in caplog.text


def test_the_home_folder_may_be_written_as_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    said("SaveCustomFile", {"filepath": "~/a/b.txt", "content": "x"})

    assert (tmp_path / "a/b.txt").read_text(encoding="utf-8") == "x"
    assert said("GetCustomFile", {"filepath": "~/a/b.txt"}) == "x"


# --------------------------------------------------------------------------------- writing


@dataclass(frozen=True)
class Write:
    id: str
    config: dict[str, Any]
    expected: str | None
    """What the file holds afterwards; None: there is none."""
    says: str
    before: str | None = "one\ntwo\n\ntwo three\n"


WRITES = [
    Write("overwrite is the default", {"content": "new {agent1Output}"}, "new é", "Saved"),
    Write("a file that was not there", {"content": "new"}, "new", "Saved", None),
    Write("an empty content empties", {"content": ""}, "", "Saved"),
    Write(
        "append puts nothing between",
        {"mode": "append", "content": "x"},
        "one\ntwo\n\ntwo three\nx",
        "Saved",
    ),
    Write("append makes a file", {"mode": "append", "content": "x"}, "x", "Saved", None),
    Write(
        "replace all",
        {"mode": "replace", "find": "two", "content": "2"},
        "one\n2\n\n2 three\n",
        "2 changes",
    ),
    Write(
        "replace by nothing",
        {"mode": "replace", "find": "two", "content": ""},
        "one\n\n\n three\n",
        "2 changes",
    ),
    Write(
        "replace is literal",
        {"mode": "replace", "find": "t.o", "content": ""},
        "one\ntwo\n\ntwo three\n",
        "Unchanged",
    ),
    Write("remove lines", {"mode": "remove", "find": "two"}, "one\n\n", "2 changes"),
    Write("remove one line", {"mode": "remove", "find": "three"}, "one\ntwo\n\n", "1 change"),
    Write(
        "remove nothing", {"mode": "remove", "find": "four"}, "one\ntwo\n\ntwo three\n", "Unchanged"
    ),
    Write("trim", {"mode": "trim"}, "one\ntwo\ntwo three\n", "1 change"),
    Write("trim nothing", {"mode": "trim"}, "a\nb", "Unchanged", "a\nb"),
    Write(
        "other line ends stay",
        {"mode": "remove", "find": "b"},
        "a\r\nc\r\n",
        "1 change",
        "a\r\nb\r\nc\r\n",
    ),
    Write(
        "replace in a missing file",
        {"mode": "replace", "find": "a", "content": "b"},
        None,
        "Unchanged",
        None,
    ),
    Write("remove in a missing file", {"mode": "remove", "find": "a"}, None, "Unchanged", None),
    Write("trim a missing file", {"mode": "trim"}, None, "Unchanged", None),
    Write("no content", {}, None, "No content specified", None),
    Write("no content to append", {"mode": "append"}, None, "No content specified", None),
    Write(
        "no content to replace by",
        {"mode": "replace", "find": "x"},
        None,
        "No content specified",
        None,
    ),
    Write("nothing to find", {"mode": "replace", "content": "x"}, None, "`find` is missing", None),
    Write("nothing to remove", {"mode": "remove"}, None, "`find` is missing", None),
    Write(
        "a find that turns out empty",
        {"mode": "remove", "find": "{agent2Output}"},
        "a",
        "`find` is empty",
        "a",
    ),
    Write(
        "an unknown mode",
        {"mode": "prepend", "content": "x"},
        None,
        "`mode` cannot be 'prepend'",
        None,
    ),
    Write("half a character", {"content": "\ud800"}, "a", "could not be written", "a"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in WRITES])
def test_what_is_written(case: Write, tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.txt"
    if case.before is not None:
        path.parent.mkdir()
        path.write_text(case.before, encoding="utf-8", newline="")

    text = said("SaveCustomFile", {"filepath": str(path), **case.config}, outputs=["é", ""])

    assert case.says in text
    after = path.read_bytes().decode() if path.exists() else None
    assert after == case.expected
    assert not case.expected or [entry.name for entry in path.parent.iterdir()] == ["log.txt"]


def test_without_a_path_nothing_is_written() -> None:
    assert said("SaveCustomFile", {"content": "x"}) == "No filepath specified"
    assert said("SaveCustomFile", {"filepath": "{agent1Output}", "content": "x"}, outputs=[""]) == (
        "No filepath specified"
    )


def test_a_path_in_which_a_variable_stayed_unknown_is_refused(tmp_path: Path) -> None:
    text = said("SaveCustomFile", {"filepath": f"{tmp_path}/{{agent9Output}}.txt", "content": "x"})

    assert "{agent9Output}" in text
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_a_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with caplog.at_level(logging.ERROR):
        text = said(
            "SaveCustomFile", {"filepath": str(tmp_path / "file/inside.txt"), "content": "x"}
        )

    assert "could not be written" in text
    assert "inside.txt" in caplog.text


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    real.write_text("old", encoding="utf-8")
    real.chmod(0o640)
    link.symlink_to(real)

    said("SaveCustomFile", {"filepath": str(link), "content": "new"})

    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_who_reads_meanwhile_sees_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    path.write_text("a" * 100_000, encoding="utf-8")
    seen: set[str] = set()
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            seen.add(path.read_text(encoding="utf-8"))

    reader = threading.Thread(target=read)
    reader.start()
    for letter in "bcdefgh":
        said("SaveCustomFile", {"filepath": str(path), "content": letter * 100_000})
    over.set()
    reader.join()

    assert {len(text) for text in seen} == {100_000}
    assert all(len(set(text)) == 1 for text in seen)


def test_nothing_is_lost_when_many_append_at_once(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    config = {"filepath": str(tmp_path / "log.txt"), "content": "line\n", "mode": "append"}

    def append() -> None:
        for _ in range(10):
            handle(context_of("SaveCustomFile", config, request_scope=scope))

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == "line\n" * 40


def test_a_relative_path_is_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    said("SaveCustomFile", {"filepath": "a.txt", "content": "x"})

    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    assert said("GetCustomFile", {"filepath": "a.txt"}) == "x"


@pytest.mark.skipif(os.name == "nt", reason="no pipes among files there")
@pytest.mark.parametrize("mode", ["overwrite", "append", "replace", "remove", "trim"])
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "a link to it"])
def test_a_pipe_or_a_device_is_neither_replaced_nor_waited_for(
    mode: str, linked: bool, tmp_path: Path
) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    path = str(link if linked else pipe)
    text = said("SaveCustomFile", {"filepath": path, "content": "x", "mode": mode, "find": "y"})

    assert text.startswith("SaveCustomFile error: " if mode in ("overwrite", "append") else "")
    assert "Saved" not in text
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link", "pipe"]
    assert said("GetCustomFile", {"filepath": path}) == "Custom instruction file did not exist"


@pytest.mark.skipif(os.name == "nt", reason="no limit for files there")
def test_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    """The server's own process may write no longer files than this: its disk is full."""
    (tmp_path / "a.txt").write_text("old", encoding="utf-8")
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from tests.workflows.handlers.setups import said\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "text = said('SaveCustomFile', {'filepath': sys.argv[1], 'content': 'x' * 5000})\n"
        "sys.stdout.write(text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.txt")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "SaveCustomFile error: the file could not be written (OSError)."
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]
