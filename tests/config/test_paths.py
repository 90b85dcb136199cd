from pathlib import Path

import pytest

from Middleware.config.paths import UnsafeName, is_inside, is_plain_name, parts_of

# Case C-37: what clients may try.
BAD = [
    "../../etc/passwd",
    "a/b",
    "a\\b",
    "C:\\x",
    "c:x",
    ".",
    "..",
    "",
    "x" * 5000,
    "é" * 200,
    "con",
    "CON.json",
    "lpt1",
    "x\u0000y",
    "x\ny",
    "x.",
    "x ",
]


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_could_lead_elsewhere_is_not_plain(name: str) -> None:
    assert not is_plain_name(name)


@pytest.mark.parametrize(
    "name", ["general", "my notes", "..%2f..%2fx", "Разговор", "🙂", "a.b", "console", "_x", "-x"]
)
def test_an_ordinary_name_is_plain(name: str) -> None:
    assert is_plain_name(name)


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (("Fast",), ("Fast",)),
        (("_common/General",), ("_common", "General")),
        (("_common\\General",), ("_common", "General")),
        (("_shared/general", "_DefaultWorkflow"), ("_shared", "general", "_DefaultWorkflow")),
        (("", "Fast"), ("Fast",)),
        (("./a//b/",), ("a", "b")),
        (("bob", "../_common/General"), ("_common", "General")),
    ],
)
def test_a_name_is_taken_apart(names: tuple[str, ...], parts: tuple[str, ...]) -> None:
    assert parts_of(*names) == parts


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("../x",), "leads out of its folder"),
        (("bob", "../../x"), "leads out of its folder"),
        (("a/../../x",), "leads out of its folder"),
        (("/etc/passwd",), "is an absolute path"),
        (("\\\\server\\share",), "is an absolute path"),
        (("C:\\x",), "is an absolute path"),
        (("",), "is empty"),
        (("a/..",), "is empty"),
        (("a\0b",), "holds a character that no file name has"),
        (("x" * 5000,), "is too long"),
        (("é" * 130,), "is too long"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(names: tuple[str, ...], why: str) -> None:
    with pytest.raises(UnsafeName, match=why):
        parts_of(*names)


def test_a_link_is_inside_only_if_what_it_points_to_is(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "root-other"
    for folder in (root, other):
        folder.mkdir()
        (folder / "file").write_text("x")
    (root / "in").symlink_to(root / "file")
    (root / "out").symlink_to(other / "file")

    inside = {name: is_inside(root / name, (root,)) for name in ("file", "in", "out")}

    assert inside == {"file": True, "in": True, "out": False}
    assert is_inside(root / "out", (root, other))
