"""Format, lint, types and pins, as tests: who runs the suite has run every check."""

import importlib.util
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from Middleware.cli.commands import COMMANDS
from tests.test_architecture import IMPORTS

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"([A-Za-z0-9_.-]+)==([^;\s]+)(;.*)?")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "tool",
    [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]],
    ids=["lint", "format", "types"],
)
def test_the_tool_finds_nothing(tool: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", *tool, *([] if tool == ["mypy"] else ["."])],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr


def pins(file: str) -> dict[str, str]:
    """Package -> version of a requirements file, the files that it includes left out."""
    found: dict[str, str] = {}
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", "-r ")):
            pin = PIN.fullmatch(line)
            assert pin, f"{file}: {line!r} is not pinned exactly"
            if ";" not in line or Requirement(line).marker.evaluate():  # type: ignore[union-attr]
                found[canonicalize_name(pin[1])] = pin[2]
    return found


def needed_by(package: str) -> set[str]:
    needed = [Requirement(text) for text in metadata.requires(package) or ()]
    return {
        canonicalize_name(one.name)
        for one in needed
        if one.marker is None or one.marker.evaluate({"extra": ""})
    }


@pytest.mark.parametrize(
    "files",
    [["requirements.txt"], ["requirements.txt", "requirements-dev.txt"]],
    ids=["to run", "to be checked"],
)
def test_whatever_a_pinned_package_needs_is_pinned_too(files: list[str]) -> None:
    pinned = {name for file in files for name in pins(file)}

    # pip installs the others; it comes with the environment.
    missing = {package: needed_by(package) - pinned - {"pip"} for package in pinned}

    assert {package: names for package, names in missing.items() if names} == {}


def test_whatever_the_code_imports_is_installed_to_run_it() -> None:
    """Here the packages for tests are there too, and would hide that one is missing elsewhere."""
    to_run = {*pins("requirements.txt"), "opentelemetry-sdk"}  # The latter is for who traces.
    own = sys.stdlib_module_names | {"Middleware"}
    owners = metadata.packages_distributions()
    imported = {name.split(".")[0] for _, name in IMPORTS} - own

    missing = {
        name
        for name in imported
        if to_run.isdisjoint(canonicalize_name(owner) for owner in owners.get(name, ()))
    }

    assert missing == set()


def test_the_tests_run_with_the_pinned_versions() -> None:
    pinned = {**pins("requirements.txt"), **pins("requirements-dev.txt")}

    assert {name: metadata.version(name) for name in pinned} == pinned


def test_no_package_is_pinned_twice() -> None:
    assert pins("requirements.txt").keys() & pins("requirements-dev.txt").keys() == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_table_has_its_module(command: str) -> None:
    module, _ = COMMANDS[command]

    assert importlib.util.find_spec(module)
