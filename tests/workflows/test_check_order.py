"""What only the whole tree shows: circles of workflows, names that differ by case, outputs that
are named too early."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.config.check import check_files
from Middleware.config.problems import Problem
from Middleware.workflows.check import check_workflows
from tests.config.tree import API_TYPE, ENDPOINT, USER, Tree

FOLDER = "Workflows/bob"


def static(text: str = "ok", **options: Any) -> dict[str, Any]:
    return {"type": "StaticResponse", "content": text, **options}


def calls(workflow: str, **options: Any) -> dict[str, Any]:
    return {"type": "CustomWorkflow", "workflowName": workflow, **options}


def chooses(**workflows: str) -> dict[str, Any]:
    routes = {"type": "ConditionalCustomWorkflow", "conditionalKey": "x"}
    return {**routes, "conditionalWorkflows": workflows}


def chunks(workflow: str) -> dict[str, Any]:
    cursor = {"id": "c", "cursorDirectory": "/tmp"}
    return {"type": "ConversationChunkProcessor", "workflowName": workflow, **cursor}


def searches(workflow: str) -> dict[str, Any]:
    texts = {"ragTarget": "x", "ragType": "x", "endpointName": "Fast"}
    return {"type": "SlowButQualityRAG", "fileMemoryWorkflowName": workflow, **texts}


def problems_of(root: Path, **files: Any) -> list[Problem]:
    tree = Tree(root)
    tree.write("Users/bob.json", USER)
    tree.write("ApiTypes/Chat.json", API_TYPE)
    tree.write("Endpoints/Fast.json", ENDPOINT)
    for name, content in files.items():
        tree.write(f"{FOLDER}/{name}.json", content)
    return check_workflows(tree.store())


@dataclass(frozen=True)
class Circle:
    id: str
    files: dict[str, Any]
    told: str
    severity: str = "error"


CIRCLES = [
    Circle("itself", {"A": [calls("A")]}, "A.json nodes[0].workflowName: A → A"),
    Circle(
        "three",
        {"A": [static(), calls("B")], "B": [calls("C")], "C": [static(), calls("A")]},
        "C.json nodes[1].workflowName: A → B → C → A",
    ),
    Circle(
        "a route may lead out of it",
        {"A": [chooses(a="B", default="C")], "B": [calls("A")], "C": [static()]},
        "B.json nodes[0].workflowName: A → B → A",
        "warning",
    ),
    Circle(
        "through blocks of a conversation",
        {"A": [chunks("B")], "B": [calls("A")]},
        "B.json nodes[0].workflowName: A → B → A",
        "warning",
    ),
    Circle(
        "through pieces of a text",
        {"A": [searches("B")], "B": [searches("A")]},
        "B.json nodes[0].fileMemoryWorkflowName: A → B → A",
        "warning",
    ),
    Circle(
        "in a graph",
        {"A": {"nodes": [calls("A", id="a"), static(id="b")], "edges": [{"from": "a", "to": "b"}]}},
        "A.json nodes[0].workflowName: A → A",
        "warning",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(one, id=one.id) for one in CIRCLES])
def test_a_circle_of_workflows_is_told_once_with_its_chain(tmp_path: Path, case: Circle) -> None:
    (problem,) = problems_of(tmp_path, **case.files)

    chain = problem.message.rpartition(": ")[2].rstrip(".")
    file = problem.file.rpartition("/")[2]
    assert (problem.code, problem.severity) == ("workflow_cycle", case.severity)
    assert f"{file} {problem.place}: {chain}" == case.told


def test_workflows_that_share_one_are_no_circle(tmp_path: Path) -> None:
    files = {"A": [calls("B"), calls("C")], "B": [calls("D")], "C": [calls("D")], "D": [static()]}

    assert problems_of(tmp_path, **files) == []


def test_two_circles_are_two_problems(tmp_path: Path) -> None:
    found = problems_of(tmp_path, A=[calls("A"), calls("B")], B=[calls("A")])

    assert sorted(problem.place for problem in found) == [
        "nodes[0].workflowName",
        "nodes[0].workflowName",
    ]


@dataclass(frozen=True)
class Output:
    id: str
    workflow: Any
    message: str = ""
    """Empty: nothing is wrong."""


OUTPUTS = [
    Output("of an earlier node", [static(), static("{agent1Output}")]),
    Output(
        "of a later node",
        [static(), static("{agent3Output}"), static()],
        "The output of node 3 is not there yet when node 2 runs. agent3Output stays as text.",
    ),
    Output(
        "of the node itself",
        [static("{agent1Output}")],
        "The output of node 1 is not there yet when node 1 runs. agent1Output stays as text.",
    ),
    Output(
        "of no node",
        [static(), static(), static("{agent7Output}")],
        "There is no node 7: the workflow has 3. agent7Output stays as text.",
    ),
    Output(
        "of a later node of a graph, which may come back",
        {
            "nodes": [static("{agent2Output}", id="a"), static(id="b")],
            "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}],
        },
    ),
]


@pytest.mark.parametrize("case", [pytest.param(one, id=one.id) for one in OUTPUTS])
def test_an_output_is_known_where_its_node_may_have_run(tmp_path: Path, case: Output) -> None:
    found = problems_of(tmp_path, A=case.workflow)

    assert [(one.code, one.message) for one in found] == (
        [("unknown_variable", case.message)] if case.message else []
    )


def test_an_override_of_a_route_that_never_runs_is_told(tmp_path: Path) -> None:
    node = {**chooses(python="B"), "routeOverrides": {"Python": {}, "Default": {}, "Java": {}}}
    with_default = {**node, "conditionalWorkflows": {"python": "B", "default": "B"}}
    with_text = {**with_default, "UseDefaultContentInsteadOfWorkflow": "none"}

    found = problems_of(tmp_path, A=[node], B=[static()], C=[with_default], D=[with_text])

    assert [(one.code, one.file.rpartition("/")[2], one.place) for one in found] == [
        ("override_never_found", "A.json", "nodes[0].routeOverrides.Default"),
        ("override_never_found", "A.json", "nodes[0].routeOverrides.Java"),
        ("override_never_found", "D.json", "nodes[0].routeOverrides.Java"),
    ]


def test_names_that_differ_only_by_case_are_told_of_workflows_and_other_files(
    tmp_path: Path,
) -> None:
    tree = Tree(tmp_path)
    tree.write("Users/bob.json", USER)
    tree.write("ApiTypes/Chat.json", API_TYPE)
    tree.write("Endpoints/Fast.json", ENDPOINT)
    tree.write("Endpoints/fast.json", ENDPOINT)
    tree.write(f"{FOLDER}/_DefaultWorkflow.json", [static()])
    tree.write(f"{FOLDER}/_defaultworkflow.json", [static()])
    store = tree.store()

    found = [*check_files(store), *check_workflows(store)]

    assert [(one.severity, one.file) for one in found if one.code == "differ_by_case"] == [
        ("warning", "Endpoints/Fast.json"),
        ("warning", f"{FOLDER}/_DefaultWorkflow.json"),
    ]
