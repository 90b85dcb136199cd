import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.options import ServerOptions
from Middleware.app import build_store
from Middleware.config.check import check_files
from Middleware.config.schema import keys_of
from Middleware.workflows.check import check_workflows
from Middleware.workflows.handlers.base.named_files import Names, names_in
from Middleware.workflows.handlers.base.node_handler import node_types
from Middleware.workflows.managers.later_types import later_names
from tests.fakes.headrace import Tree, answers, static


@dataclass(frozen=True)
class Case:
    id: str
    node: dict[str, Any]
    told: list[str] = field(default_factory=list)
    """Severity, code and place of each problem."""


COMPACTOR = {"endpointName": "Main"}
MCP = {"transport": "stdio", "command": "true"}


def chunks(workflow: str, **options: Any) -> dict[str, Any]:
    named = {"id": "c", "workflowName": workflow, "cursorDirectory": "/tmp"}
    return {"type": "ConversationChunkProcessor", **named, **options}


def searches(workflow: str) -> dict[str, Any]:
    texts = {"ragTarget": "x", "ragType": "x", "prompt": "x", "endpointName": "Main"}
    return {"type": "SlowButQualityRAG", "fileMemoryWorkflowName": workflow, **texts}


def tool(server: str) -> dict[str, Any]:
    return {"type": "MCPToolCall", "server": server, "tool": "t"}


def agent(*servers: str) -> dict[str, Any]:
    return {"type": "Agent", "endpointName": "Main", "mcpServers": [*servers]}


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
    Case("a preset in its own case", answers("Main", preset="Cool")),
    Case(
        "a preset in the wrong case",
        answers("Main", preset="cool"),
        ["warning name_case nodes[0].preset"],
    ),
    Case(
        "an endpoint that lends its samplers, in the wrong case",
        answers("Main", preset="lENDER"),
        ["warning name_case nodes[0].preset"],
    ),
    Case(
        "endpoints to fall back to",
        answers("Main", fallbackEndpoints=["main", "None", "{Model}"]),
        [
            "warning name_case nodes[0].fallbackEndpoints[0]",
            "error missing_endpoint nodes[0].fallbackEndpoints[1]",
        ],
    ),
    Case("a schema", answers("Main", structuredOutputFile="Verdict")),
    Case(
        "a missing schema",
        answers("Main", structuredOutputFile="Verdikt"),
        ["error missing_schema nodes[0].structuredOutputFile"],
    ),
    Case(
        "a schema in the wrong case",
        answers("Main", structuredOutputFile="verdict"),
        ["warning name_case nodes[0].structuredOutputFile"],
    ),
    Case("an MCP server", tool("Calendar")),
    Case("an MCP server that only a run knows", tool("{agent1Input}")),
    Case("a missing MCP server", tool("Calender"), ["error missing_mcp_server nodes[0].server"]),
    Case(
        "an MCP server in the wrong case",
        tool("calendar"),
        ["warning name_case nodes[0].server"],
    ),
    Case(
        "a broken MCP server",
        tool("Broken"),
        ["error missing_mcp_server nodes[0].server"],
    ),
    Case(
        "an agent's servers",
        agent("Calendar", "Calender", "calendar"),
        [
            "error missing_mcp_server nodes[0].mcpServers[1]",
            "warning name_case nodes[0].mcpServers[2]",
        ],
    ),
    Case(
        "the workflow of a chunk processor",
        chunks("Nobody"),
        ["error missing_workflow nodes[0].workflowName"],
    ),
    Case(
        "in a folder of its own",
        chunks("_defaultworkflow", workflowUserFolderOverride="_shared/w"),
        ["warning name_case nodes[0].workflowName", "warning workflow_cycle nodes[0].workflowName"],
    ),
    Case(
        "the workflow of a search",
        searches("Nobody"),
        ["error missing_workflow nodes[0].fileMemoryWorkflowName"],
    ),
    Case(
        "a key that this node does not read",
        {"type": "StaticResponse", "content": "x", "server": "Nobody", "mcpServers": ["Nobody"]},
    ),
    Case(
        "a compactor without settings",
        {"type": "ContextCompactor"},
        ["warning incomplete nodes[0].type"],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_what_a_node_names_is_told(case: Case, tmp_path: Path) -> None:
    tree = Tree(tmp_path, userWideWorkflowVariables={"Model": "Main"}).scripted("Main")
    tree.scripted("Lender", presetSamplers={"temperature": 1}).write("Presets/None/x.json", {})
    tree.write("ApiTypes/Scripted.json", {"type": "scripted", "presetType": "Test"})
    tree.write("Presets/Test/Cool.json", {"temperature": 0})
    tree.write("StructuredOutputs/Verdict.json", {"type": "object"})
    tree.write("MCPServers/Calendar.json", MCP).write("MCPServers/Broken.json", "{")
    tree.workflow("w", [case.node])

    problems = check_workflows(build_store(ServerOptions(public_directory=tree.public)))

    assert [f"{p.severity} {p.code} {p.place}" for p in problems] == case.told


@dataclass(frozen=True)
class Settings:
    id: str
    content: Any
    told: list[str] = field(default_factory=list)


SETTINGS = [
    Settings("in order", COMPACTOR),
    Settings("no JSON", "{", ["error bad_syntax Compact.json line 1, column 2"]),
    Settings(
        "a list",
        [],
        ["error invalid_workflow Compact.json nodes", "error invalid_value Compact.json "],
    ),
    Settings("without a model", {}, ["error missing_key Compact.json endpointName"]),
    Settings(
        "what is not there",
        {"endpointName": "None", "preset": "None"},
        ["error missing_endpoint Compact.json endpointName"],
    ),
    Settings(
        "a preset that is not there",
        {"endpointName": "main", "preset": "None"},
        [
            "warning name_case Compact.json endpointName",
            "error missing_preset Compact.json preset",
        ],
    ),
    Settings(
        "a misspelt key",
        {"endpointName": "Main", "lookbackStartTurns": 3},
        ["warning unknown_key Compact.json lookbackStartTurns"],
    ),
    Settings(
        "a number that is none",
        {"endpointName": "Main", "oldContextTokens": "many"},
        ["error invalid_value Compact.json oldContextTokens"],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in SETTINGS])
def test_the_settings_file_of_a_node_is_checked(case: Settings, tmp_path: Path) -> None:
    tree = Tree(tmp_path, contextCompactorSettingsFile="Compact").scripted("Main")
    tree.write("Workflows/tester/Compact.json", case.content)
    tree.workflow("w", [{"type": "ContextCompactor"}])

    problems = check_workflows(build_store(ServerOptions(public_directory=tree.public)))

    shown = [f"{p.severity} {p.code} {p.file.rpartition('/')[2]} {p.place}" for p in problems]
    assert shown == case.told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        pytest.param("Small", [], id="of the user's own folder"),
        pytest.param("w", [], id="a shared one"),
        pytest.param("", [], id="none"),
        pytest.param("Tiny", ["error missing_reference choreWorkflow"], id="nowhere"),
        pytest.param("small", ["warning name_case choreWorkflow"], id="in the wrong case"),
        pytest.param("../w", ["error missing_reference choreWorkflow"], id="a path"),
    ],
)
def test_the_workflow_for_chores_is_there(name: str, told: list[str], tmp_path: Path) -> None:
    tree = Tree(tmp_path, choreWorkflow=name)
    tree.workflow("w", [static("x")]).own("Small", [static("x")])

    problems = check_files(build_store(ServerOptions(public_directory=tree.public)))

    assert [f"{p.severity} {p.code} {p.place}" for p in problems if "chore" in p.place] == told


LOOKS_LIKE_A_NAME = re.compile(
    r"(?i)(workflow|endpoint|server|schema|structuredoutput)s?(name|file|names|files)?$|^preset$"
)
NO_NAMES = {
    "outputSchema": "a schema itself",
    "UseDefaultContentInsteadOfWorkflow": "a text",
    "forceGenerationPromptIfEndpointAllows": "a switch",
}


def test_every_option_that_names_a_file_says_so() -> None:
    unmarked = set()
    for name, kind in node_types:
        for field_name, info in kind.options.model_fields.items():
            key = keys_of(field_name, info)[0]
            marked = any(isinstance(mark, Names) for mark in info.metadata)
            if LOOKS_LIKE_A_NAME.search(key) and not marked:
                unmarked.add((name, key))

    assert {key for _, key in unmarked} <= NO_NAMES.keys(), unmarked


def test_the_names_of_nodes_are_found_where_they_stand() -> None:
    kind = node_types.get("ConditionalCustomWorkflow")
    options = kind.options.read(
        {"conditionalWorkflows": {"a": "A", "b": None, "c": ""}, "fallbackEndpoints": ["x", ""]}
    )

    assert [*names_in(options)] == [
        ("endpoint", "fallbackEndpoints[0]", "x"),
        ("workflow", "conditionalWorkflows.a", "A"),
    ]
