from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.options import ServerOptions
from Middleware.app import build_store
from Middleware.workflows.check import check_workflows
from Middleware.workflows.handlers.base.node_handler import node_types
from Middleware.workflows.managers.later_types import later_names
from tests.fakes.headrace import Tree, answers


@dataclass(frozen=True)
class Case:
    id: str
    node: dict[str, Any]
    told: list[str] = field(default_factory=list)
    """Severity, code and place of each problem."""


CASES = [
    Case("an endpoint named by a variable", answers("{Model}")),
    Case("by an input, which only the caller knows", answers("{agent1Input}")),
    Case(
        "by a variable that is not there",
        answers("{Modell}"),
        ["warning unknown_variable nodes[0].endpointName"],
    ),
    *(
        Case("a type that comes later", {"type": name}, ["warning later_node_type nodes[0].type"])
        for name in [name for name in later_names() if node_types.find(name) is None][:1]
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_what_a_node_names_is_told(case: Case, tmp_path: Path) -> None:
    tree = Tree(tmp_path, userWideWorkflowVariables={"Model": "Main"}).scripted("Main")
    tree.workflow("w", [case.node])

    problems = check_workflows(build_store(ServerOptions(public_directory=tree.public)))

    assert [f"{p.severity} {p.code} {p.place}" for p in problems] == case.told
