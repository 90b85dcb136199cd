from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Middleware.config.check import CODES as FILE_CODES
from Middleware.workflows.check import CODES, check_workflows
from tests.config.tree import API_TYPE, ENDPOINT, USER, Tree

MAIN = "Workflows/bob/_DefaultWorkflow.json"
OTHER = "Workflows/bob/Other.json"
PARTS = "Workflows/_common/parts/Part.json"


def static(text: str = "ok", **options: Any) -> dict[str, Any]:
    return {"type": "StaticResponse", "content": text, **options}


def calls(workflow: str, **options: Any) -> dict[str, Any]:
    return {"type": "CustomWorkflow", "workflowName": workflow, **options}


def chooses(**options: Any) -> dict[str, Any]:
    return {"type": "ConditionalCustomWorkflow", "conditionalKey": "x", **options}


def asks(endpoint: str, **options: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": endpoint, **options}


Told = tuple[str, str, str, str]


def error(code: str, place: str, file: str = MAIN) -> Told:
    return code, "error", file, place


def warning(code: str, place: str, file: str = MAIN) -> Told:
    return code, "warning", file, place


@dataclass(frozen=True)
class Case:
    id: str
    files: dict[str, Any]
    told: list[Told]
    user: dict[str, Any] = field(default_factory=dict)


ROUTES = chooses(
    conditionalWorkflows={"Python": "Other", "default": "Other"},
    routeOverrides={"Python": {}, "python": {}, "JavaScript": {}, "Default": {}},
)
CASES = [
    Case("in order", {MAIN: [static(), calls("Other")], OTHER: {"nodes": [static()]}}, []),
    Case("no JSON", {MAIN: "["}, [error("bad_syntax", "line 1, column 2")]),
    Case("no node", {MAIN: []}, [error("invalid_workflow", "nodes")]),
    Case("no nodes where a workflow must be", {MAIN: {}}, [error("no_nodes", "nodes")]),
    Case("settings among workflows", {OTHER: {"chunkSize": 5}}, []),
    Case(
        "settings named as a workflow",
        {MAIN: [calls("Other")], OTHER: {"chunkSize": 5}},
        [error("no_nodes", "nodes", OTHER)],
    ),
    Case(
        "two files of one name",
        {MAIN: [static()], "Workflows/bob/_DefaultWorkflow.yaml": "- {type: StaticResponse}"},
        [error("two_files_of_one_name", "")],
    ),
    Case(
        "a missing workflow",
        {MAIN: [calls("Othr")]},
        [error("missing_workflow", "nodes[0].workflowName")],
    ),
    Case(
        "a missing workflow of a route",
        {MAIN: [chooses(conditionalWorkflows={"a": "Othr", "b": "", "c": None})]},
        [error("missing_workflow", "nodes[0].conditionalWorkflows.a")],
    ),
    Case(
        "a folder only this node names",
        {MAIN: [calls("Part", workflowUserFolderOverride="_common/parts")], PARTS: [asks("None")]},
        [error("missing_endpoint", "nodes[0].endpointName", PARTS)],
    ),
    Case(
        "a folder in the name",
        {MAIN: [calls("parts/Part", workflowUserFolderOverride="_common")], PARTS: [asks("None")]},
        [error("missing_endpoint", "nodes[0].endpointName", PARTS)],
    ),
    Case(
        "a folder in the wrong case",
        {MAIN: [calls("part", workflowUserFolderOverride="_Common/Parts")], PARTS: [asks("None")]},
        [
            warning("name_case", "nodes[0].workflowName"),
            error("missing_endpoint", "nodes[0].endpointName", PARTS),
        ],
    ),
    Case(
        "an endpoint in the wrong case",
        {MAIN: [asks("fAST")]},
        [warning("name_case", "nodes[0].endpointName")],
    ),
    Case(
        "a shared workflow",
        {"Workflows/_shared/x/_DefaultWorkflow.json": [calls("None")]},
        [
            error(
                "missing_workflow",
                "nodes[0].workflowName",
                "Workflows/_shared/x/_DefaultWorkflow.json",
            )
        ],
    ),
    Case(
        "a missing preset",
        {MAIN: [asks("Fast", preset="x")]},
        [error("missing_preset", "nodes[0].preset")],
    ),
    Case(
        "a name of the user's",
        {MAIN: [asks("{Model}"), asks("{agent1Output}"), asks("{Other}")]},
        [error("missing_endpoint", "nodes[2].endpointName")],
        {"userWideWorkflowVariables": {"Model": "Fast", "Other": "Slow"}},
    ),
    Case(
        "a key that is not set, of an endpoint that is used by a name with its folder",
        {
            MAIN: [asks("examples/Paid")],
            "Endpoints/examples/Paid.json": {**ENDPOINT, "apiKey": "${HEADRACE_NO_SUCH_KEY}"},
        },
        [error("missing_endpoint", "nodes[0].endpointName")],
    ),
    Case(
        "overrides that are never found",
        {MAIN: [ROUTES], OTHER: [static()]},
        [
            warning("override_never_found", "nodes[0].routeOverrides.python"),
            warning("override_never_found", "nodes[0].routeOverrides.JavaScript"),
        ],
    ),
    Case(
        "overrides that are found because the user says so",
        {MAIN: [ROUTES], OTHER: [static()]},
        [],
        {"routeOverridesLookup": "caseInsensitive"},
    ),
    Case(
        "an unknown type",
        {MAIN: [static(type="StaticRespons")]},
        [warning("unknown_node_type", "nodes[0].type")],
    ),
    Case(
        "an unknown key", {MAIN: [static(contnt="x")]}, [warning("unknown_key", "nodes[0].contnt")]
    ),
    Case(
        "an unknown variable",
        {MAIN: [static("{chat_usr_prompt_last_one}")]},
        [warning("unknown_variable", "nodes[0].content")],
    ),
    Case(
        "an output to come",
        {MAIN: [static("{agent1Output}")]},
        [warning("unknown_variable", "nodes[0].content")],
    ),
    Case(
        "an escape by mistake",
        {MAIN: [static("{{Discussion_Id}}")]},
        [warning("escaped_variable", "nodes[0].content")],
    ),
    Case("a lone brace", {MAIN: [static("a } b")]}, [warning("lone_brace", "nodes[0].content")]),
    Case(
        "a Parallel node inside of a branch, and in its own",
        {
            MAIN: [
                static(id="a"),
                {"type": "Parallel", "id": "p", "branches": [["a"]]},
                {"type": "Parallel", "id": "q", "branches": [["p", "q"]]},
            ]
        },
        [error("invalid_workflow", "nodes[2].branches")] * 2,
    ),
    Case(
        "a route of a list that names no node",
        {MAIN: [static(id="a", onError="route", onErrorRoute="zz"), static()]},
        [warning("missing_route", "nodes[0].onErrorRoute")],
    ),
    Case(
        "a route of a list that names one",
        {MAIN: [static(onError="route", onErrorRoute="b"), static(), static(id="b")]},
        [],
    ),
    Case(
        "Jinja",
        {MAIN: [static("{% if %}", jinja2=True)]},
        [error("jinja_syntax", "nodes[0].content")],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_what_is_wrong_with_workflows_is_told(tmp_path: Path, case: Case) -> None:
    tree = Tree(tmp_path)
    tree.write("Users/bob.json", {**USER, **case.user})
    tree.write("ApiTypes/Chat.json", API_TYPE)
    tree.write("Endpoints/Fast.json", ENDPOINT)
    for file, content in case.files.items():
        tree.write(file, content)

    problems = check_workflows(tree.store())

    assert [(one.code, one.severity, one.file, one.place) for one in problems] == case.told


def test_every_code_has_a_meaning() -> None:
    told = {code for case in CASES for code, _, file, _ in case.told}

    assert told - {*FILE_CODES} <= CODES.keys()
