from dataclasses import dataclass
from pathlib import Path

import pytest

from Middleware.config.locations import Locations


@dataclass(frozen=True)
class Where:
    id: str
    public: str | None = None
    configs: str | None = None
    workflows: str | None = None
    found: tuple[str, str, str] = ("Public", "Public/Configs", "Workflows")
    inside: str = ""
    """A folder that exists."""


WHERE = [
    Where(id="nothing given"),
    Where(
        id="public folder moves all but the workflows",
        public="other",
        found=("other", "other/Configs", "Workflows"),
    ),
    Where(
        id="configuration folder leaves run-time data",
        configs="conf",
        found=("Public", "conf", "Workflows"),
    ),
    Where(
        id="workflows inside the configuration win",
        configs="conf",
        inside="conf/Workflows",
        found=("Public", "conf", "conf/Workflows"),
    ),
    Where(
        id="workflows folder given",
        configs="conf",
        workflows="mine",
        inside="conf/Workflows",
        found=("Public", "conf", "mine"),
    ),
    Where(id="blank is not given", public="  ", configs=""),
    Where(
        id="ends are cut",
        public="other//",
        configs=" conf\\ ",
        found=("other", "conf", "Workflows"),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in WHERE])
def test_where_the_files_are(case: Where, tmp_path: Path) -> None:
    if case.inside:
        (tmp_path / case.inside).mkdir(parents=True)

    def given(name: str | None) -> str | None:
        return f"{tmp_path}/{name.strip()}" if name and name.strip() else name

    found = Locations.find(
        tmp_path,
        public=given(case.public),
        configs=given(case.configs),
        workflows=given(case.workflows),
    )

    public, configs, workflows = (tmp_path / part for part in case.found)
    assert found == Locations(public=public, configs=configs, workflows=workflows)


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert Locations.find(Path("x"), configs="~/conf").configs == tmp_path / "conf"


def test_messages_show_no_path_of_the_machine(tmp_path: Path) -> None:
    locations = Locations.find(tmp_path)

    shown = [
        locations.show(path)
        for path in (
            locations.configs / "Users" / "bob.json",
            locations.workflows / "_shared" / "x" / "y.json",
            Path("/etc/passwd"),
        )
    ]

    assert shown == ["Users/bob.json", "Workflows/_shared/x/y.json", "passwd"]
