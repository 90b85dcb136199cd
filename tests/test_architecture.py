"""Imports point down, and everything stays small. A new package gets a place in a list here or
the build fails. Imports inside functions and under ``TYPE_CHECKING`` count: they are how a cycle
starts.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import Middleware

ROOT = Path(Middleware.__file__).parent
LAYERS = [
    {"core"},
    {"wire", "config", "storage"},
    {"llm", "runs", "tools"},
    {"memory"},
    {"workflows"},
    {"conversations"},
    {"api", "editor"},
    {"app"},
    {"cli"},
    {"__main__"},
]
WORKFLOW_LAYERS = [
    {"models"},
    {"variables", "prompts", "output"},
    {"handlers"},
    {"schema", "processors"},
    {"managers"},
    {"cycles", "check_names"},
    {"check_scripts"},
    {"check_nodes"},
    {"check", "testing"},
]
"""Below ``workflows``: packages, and the modules that stand beside them."""

WORKFLOW_EXCEPTIONS = {
    # What a node may use is a value that carries the rules of its prompt and its answer, and
    # these have their types where they are used.
    ("models/execution_context.py", "variables"),
    ("models/model_plan.py", "variables"),
    ("models/model_plan.py", "prompts"),
    ("models/model_plan.py", "output"),
}
"""Which module may import which package above it."""

ONLY_IN = {
    "flask": ("api/", "editor/", "app.py"),
    "werkzeug": ("api/", "editor/", "app.py"),
    "waitress": ("app.py", "api/", "cli/"),
    "urllib3": ("llm/transport.py", "tools/"),
    "requests": ("llm/transport.py", "tools/"),
    "http.client": ("llm/transport.py", "tools/"),
    "dbos": ("conversations/engine.py",),
    "mcp": ("tools/",),
    "prometheus_client": ("api/metrics.py",),
    "opentelemetry": ("runs/spans.py",),
    "sqlalchemy": ("storage/postgres.py", "conversations/"),
    "psycopg": ("storage/postgres.py",),
}
"""Third-party package -> who may know it; all others get what it does from them."""

LONGEST_MODULE = 400

SOURCES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}


def imported_names(module: str) -> Iterator[str]:
    path = SOURCES[module]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


IMPORTS = [(module, name) for module in SOURCES for name in imported_names(module)]


def ranks(layers: list[set[str]]) -> dict[str, int]:
    return {name: rank for rank, layer in enumerate(layers) for name in layer}


def place(parts: list[str], depth: int) -> str | None:
    """The package or module that stands ``depth`` below the root; None for a mere name."""
    if len(parts) <= depth:
        return None
    path = ROOT.joinpath(*parts[: depth + 1])
    return path.stem if path.is_dir() or path.with_suffix(".py").exists() else None


def upward(layers: list[set[str]], below: list[str]) -> Iterator[tuple[str, str, str]]:
    """Imports from one package to another that is not lower: module, its target, the name."""
    rank = ranks(layers)
    depth = len(below)
    for module, name in IMPORTS:
        here, there = module.split("/"), name.split(".")[1:]
        if here[:depth] != below or there[:depth] != below or not name.startswith("Middleware."):
            continue
        source, target = place(here, depth), place(there, depth)
        if source in (None, "__init__", target) or target is None:
            continue
        assert source in rank, f"{module}: {source!r} has no place in the order of packages"
        assert target in rank, f"{module} imports {name}: {target!r} has no place in the order"
        if rank[target] >= rank[source]:
            yield module, target, name


def test_nothing_imports_upward_or_sideways() -> None:
    assert [f"{module} imports {name}" for module, _, name in upward(LAYERS, [])] == []


def test_inside_workflows_nothing_imports_upward_or_sideways() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, target, name in upward(WORKFLOW_LAYERS, ["workflows"])
        if (module.removeprefix("workflows/"), target) not in WORKFLOW_EXCEPTIONS
    ]

    assert wrong == []


def test_every_package_has_a_place_in_the_order() -> None:
    packages = {module.split("/")[0].removesuffix(".py") for module in SOURCES} - {"__init__"}
    parts = {
        module.split("/")[1].removesuffix(".py")
        for module in SOURCES
        if module.startswith("workflows/")
    } - {"__init__"}

    assert packages <= ranks(LAYERS).keys()
    assert parts <= ranks(WORKFLOW_LAYERS).keys()


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_known_only_where_it_belongs(library: str) -> None:
    wrong = [
        f"{module} imports {name}"
        for module, name in IMPORTS
        if f"{name}.".startswith(f"{library}.") and not module.startswith(ONLY_IN[library])
    ]

    assert wrong == []


def test_core_needs_nothing_but_the_standard_library() -> None:
    known = sys.stdlib_module_names | {"Middleware"}

    assert [
        f"{module} imports {name}"
        for module, name in IMPORTS
        if module.startswith("core/") and name.split(".")[0] not in known
    ] == []


def test_no_module_is_too_long_to_hold_in_the_head() -> None:
    lengths = {
        module: len(path.read_text(encoding="utf-8").splitlines())
        for module, path in SOURCES.items()
    }

    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_MODULE} == {}


def test_tests_stand_where_what_they_test_stands() -> None:
    """``tests/<package>/test_<module>.py`` for modules and packages that exist."""
    tests = Path(__file__).parent
    wrong = []
    for package in tests.iterdir():
        if not (package.is_dir() and (ROOT / package.name).is_dir()):
            continue
        for folder in (package, *package.rglob("*")):
            inside = folder.relative_to(tests)
            has_tests = folder.is_dir() and any(folder.glob("test_*.py"))
            if has_tests and not (ROOT / inside).is_dir():
                wrong.append(f"tests/{inside.as_posix()} has no Middleware/{inside.as_posix()}")
            if has_tests and not (folder / "__init__.py").exists():
                wrong.append(f"tests/{inside.as_posix()} has no __init__.py")

    assert wrong == []
