"""Pages for people hold together: links lead somewhere, and examples can be read."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from Middleware import app
from Middleware.api.openapi.document import OPERATIONS
from Middleware.core.errors import MiddlewareError
from Middleware.wire import anthropic_messages, openai_chat
from tests.fakes.headrace import Tree, static

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)")
BLOCK = re.compile(r"^```(json|yaml|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)

each_page = pytest.mark.parametrize(
    "page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES]
)


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in headings}


def broken_links(page: Path) -> Iterator[str]:
    for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{path}#{anchor}"


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


@each_page
def test_every_example_can_be_read(page: Path) -> None:
    for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            compile(text, page.name, "exec")
        elif kind == "yaml":
            yaml.safe_load(text)
        else:
            # Some show a part of an object.
            json.loads(text if text.startswith(("{", "[")) else f"{{{text}}}")


def test_every_page_can_be_found_from_the_first_one() -> None:
    front = ROOT / "README.md"
    linked = {front.parent / path for path, _ in LINK.findall(front.read_text(encoding="utf-8"))}

    assert {page.name for page in PAGES if page != front and page not in linked} == set()


def test_the_page_on_the_architecture_names_every_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in (ROOT / "Middleware").glob("*/__init__.py")}

    assert {package for package in packages if f"`{package}`" not in page} == set()


@pytest.mark.parametrize(
    ("parcel", "says"),
    [(7, "Parcel 7 is on its way."), (0, "Which parcel do you mean?")],
    ids=["one route", "the other"],
)
def test_the_graph_of_the_page_on_workflows_runs(tmp_path: Path, parcel: int, says: str) -> None:
    blocks = BLOCK.findall((ROOT / "docs" / "workflows.md").read_text(encoding="utf-8"))
    graph = next(text for kind, text in blocks if kind == "yaml" and "edges:" in text)
    script = next(text for kind, text in blocks if kind == "python" and "def run" in text)
    tree = Tree(tmp_path, userWideWorkflowVariables={"Model": "Main"})
    tree.scripted("Main", json.dumps({"parcel": parcel}))
    tree.write("Workflows/_shared/assistant/_DefaultWorkflow.yaml", graph)
    scripts = tree.public / "workflow_python_scripts"
    scripts.mkdir()
    (scripts / "parcels.py").write_text(script, encoding="utf-8")

    with tree.serve() as live:
        answer = live.says(stream=True, messages=[{"role": "user", "content": "Where is it?"}])

        assert answer == says
        assert [one for one in live.problems() if "assistant" in one] == []


def test_every_picture_is_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").iterdir()}

    assert {name: size for name, size in sizes.items() if size > 200_000} == {}


def test_every_route_is_described_for_programs_and_nothing_else_is(tmp_path: Path) -> None:
    with Tree(tmp_path).workflow("assistant", [static("Hello")]).serve() as live:
        served = {route.endpoint for route in live.site.routes()}

    assert served - OPERATIONS.keys() == set(), "say in Middleware/api/openapi/ what they take"
    assert OPERATIONS.keys() - served == set(), "these are no routes"


NEVER_SEEN = {
    # The workflow's own answer says why; and what workers tell each other about a turn.
    *("run_ended_early", "task_lost", "outcome_unusable"),
    # Whoever calls another program tells it in words of its own, and a turn in its reply.
    *("call_failed", "action_failed"),
}


def kinds_of(error: type[MiddlewareError]) -> Iterator[type[MiddlewareError]]:
    for kind in error.__subclasses__():
        yield kind
        yield from kinds_of(kind)


def test_every_error_that_a_client_can_get_is_explained_with_its_status() -> None:
    assert callable(app.create_app), "all modules that have errors of their own are known now"
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = [line.split("|")[2:4] for line in page.splitlines() if line.startswith("| ")]
    told = {
        (code, status.strip()) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)
    }
    passed_on = {"backend_rejected"}
    kinds: list[type[MiddlewareError]] = [MiddlewareError, *kinds_of(MiddlewareError)]
    missing = {
        (kind.code, kind.status)
        for kind in kinds
        if kind.__module__.startswith("Middleware.")
        and kind.code not in NEVER_SEEN | passed_on
        and (kind.code, str(kind.status)) not in told
    }

    assert missing == set()
    assert passed_on <= {code for code, _ in told}


def test_the_types_of_errors_are_those_that_clients_get() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\| Status \| OpenAI.*?\n\n", page, re.DOTALL)
    checked = 0
    for row in table.strip().splitlines()[2:]:
        statuses, ours, theirs = (cell.strip() for cell in row.strip("|").split("|"))
        for status in map(int, statuses.split(", ")):
            error = MiddlewareError("no")
            error.status = status
            assert f"`{openai_chat.encode_error(error)['error']['type']}`" == ours, status
            told = f"`{anthropic_messages.encode_error(error)['error']['type']}`"
            assert theirs.partition(";")[0] == told, status
            checked += 1
    assert checked == 15
