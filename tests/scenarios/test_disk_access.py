"""What a request costs the disk: nothing while its files stay the same, and never more because
there are other files.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Headrace, Tree, answers, calls, static
from tests.fakes.upstream import Upstream, chat

_OPENING = {"open", "os.scandir", "os.listdir"}
_listeners: list[list[str]] = []


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    # A hook can never be removed again, so it stays idle while nobody listens.
    if _listeners and event in _OPENING:
        for opened in _listeners:
            opened.append(f"{event} {arguments[0]}")


sys.addaudithook(_listen)


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """What any thread of this process opens meanwhile."""
    opened: list[str] = []
    _listeners.append(opened)
    try:
        yield opened
    finally:
        _listeners.remove(opened)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths whose state was asked for; cleared by whoever wants to count."""
    looked: list[str] = []
    for name in ("stat", "lstat"):
        real = getattr(os, name)

        def counting(path: Any, *args: Any, real: Any = real, **options: Any) -> Any:
            looked.append(str(path))
            return real(path, *args, **options)

        monkeypatch.setattr(os, name, counting)
    return looked


def everything_used(tree: Tree, url: str) -> Tree:
    """A request that needs a file of each kind."""
    tree.user(userWideWorkflowVariables={"Model": "Main"})
    tree.write("Presets/Test/Warm.json", {"temperature": 0.5})
    tree.own("Child", [answers("{Model}", preset="Warm")])
    tree.workflow("assistant", [static("hi"), calls("Child")])
    return tree.model("Main", url)


def warm_up(tree: Tree, live: Headrace) -> None:
    for stream in (True, False):
        live.says(stream=stream)
    # A file that was changed a moment ago is looked at more closely than an old one.
    tree.clock.advance(10)
    for stream in (True, False):
        live.says(stream=stream)


def test_no_file_is_opened_for_requests_whose_files_have_not_changed(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    with Upstream(chat("Hello")) as model, everything_used(tree, model.url).serve() as live:
        warm_up(tree, live)
        with opened_files() as opened:
            for _ in range(5):
                tree.clock.advance(1)
                live.says(stream=True)
                live.says(stream=False)
        with opened_files() as opened_after_an_edit:
            tree.write("Presets/Test/Warm.json", {"temperature": 0.6})
            opened_after_an_edit.clear()
            tree.clock.advance(1)
            live.says(stream=False)

    assert opened == []
    assert any("Warm.json" in one for one in opened_after_an_edit)


def looks(root: Path, others: int, looked_at: list[str]) -> tuple[int, int]:
    """How often a request looks at the disk, when a second has passed and when none has."""
    tree = Tree(root)
    for number in range(others):
        tree.model(f"Other-{number}", "http://127.0.0.1:9")
        tree.user(f"user-{number}")
        tree.own(f"Other-{number}", [static("never")])
        tree.workflow(f"other-{number}", [static("never")])
        tree.write(f"Presets/Test/Other-{number}.json", {})
        tree.write(f"ApiTypes/Other-{number}.json", {"type": "scripted"})
    with Upstream(chat("Hello")) as model, everything_used(tree, model.url).serve() as live:
        warm_up(tree, live)
        tree.clock.advance(1)
        looked_at.clear()
        live.says(stream=False)
        later = [path for path in looked_at if str(root) in path]
        looked_at.clear()
        live.says(stream=True)
        return len(later), len(looked_at)


def test_the_disk_is_looked_at_no_more_often_because_there_are_many_files(
    tmp_path: Path, looked_at: list[str]
) -> None:
    few = looks(tmp_path / "few", 0, looked_at)
    many = looks(tmp_path / "many", 100, looked_at)

    assert few == many
    later, at_once = many
    assert at_once == 0
    assert 0 < later < 30
