from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.variables.pieces import Piece, joined, pieces, with_author_text
from Middleware.workflows.variables.table import VariableTable
from Middleware.workflows.variables.templates import render


@dataclass(frozen=True)
class Case:
    id: str
    text: str
    expected: tuple[Piece, ...]
    flags: dict[str, Any] | None = None


TABLE = VariableTable(
    agent_outputs={"agent1Output": "said {dir}", "agent2Output": {"a": 1}, "empty": ""},
    workflow_variables={"dir": "/d/{agent1Output}/{nope}", "port": 80},
    node_outputs={"first": WorkflowPayload.of("of a node")},
)
CASES = [
    Case("nothing", "", ()),
    Case("only text", "a b", (Piece("a b"),)),
    Case(
        "data between text",
        "a {agent1Output} b",
        (Piece("a "), Piece("said {dir}", "value"), Piece(" b")),
    ),
    Case("escaped braces are text", "{{a}}", (Piece("{a}"),)),
    Case("an unknown name", "{nope}!", (Piece("{nope}", "unknown"), Piece("!"))),
    Case(
        "a path that leads nowhere", "{agent2Output[x]}", (Piece("{agent2Output[x]}", "unknown"),)
    ),
    Case(
        "a variable of the author, and the data in it",
        "{dir}",
        (
            Piece("/d/", "author"),
            Piece("said {dir}", "value"),
            Piece("/", "author"),
            Piece("{nope}", "unknown"),
        ),
    ),
    Case("a number of the author", "{port}", (Piece("80", "author"),)),
    Case("data that is empty", "{empty}", (Piece("", "value"),)),
    Case(
        "a live text",
        "{{first}} {dir}",
        (Piece("of a node", "value"), Piece(" "), Piece("/d/{agent1Output}/{nope}", "author")),
        {"live": True},
    ),
    Case(
        "a template: text up to its first tag",
        "a {{ agent1Output }} b",
        (Piece("a "), Piece("said {dir} b", "mixed")),
        {"jinja": True},
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES])
def test_a_text_is_cut_where_its_origins_meet(case: Case) -> None:
    found = pieces(case.text, TABLE, **(case.flags or {}))

    assert found == case.expected
    assert joined(found) == render(case.text, TABLE, **(case.flags or {}))


def test_only_what_the_author_wrote_is_changed() -> None:
    table = VariableTable(agent_outputs={"agent1Output": "[X]"}, workflow_variables={"mine": "[X]"})

    text = with_author_text(
        pieces("[X] {agent1Output} {mine} {no[X]}", table),
        lambda written: written.replace("[X]", "!"),
    )

    assert text == "! [X] ! {no[X]}"
