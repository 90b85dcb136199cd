"""The pass over a whole tree."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Middleware.config.check import CODES, check_files
from Middleware.config.store import ConfigStore, Locations
from Middleware.core.errors import ConfigError
from tests.config.tree import API_TYPE, ENDPOINT, Tree

Told = tuple[str, str, str, str]
"""Code, severity, file, place."""


def told(store: ConfigStore) -> list[Told]:
    return [(p.code, p.severity, p.file, p.place) for p in check_files(store)]


def test_a_tree_in_order_has_no_problems(tree: Tree) -> None:
    assert check_files(tree.store()) == []


@dataclass(frozen=True)
class Case:
    id: str
    files: Mapping[str, Any]
    told: list[Told]
    users: tuple[str, ...] = ("bob",)
    unset: tuple[str, ...] = field(default=("SOME_KEY",))


def error(code: str, file: str, place: str = "") -> Told:
    return (code, "error", file, place)


def warning(code: str, file: str, place: str = "") -> Told:
    return (code, "warning", file, place)


OURS = {"dialect": "headrace"}
BOB, FAST = "Users/bob.json", "Endpoints/Fast.json"
ROUTES = {"A": {"description": "", "workflow": "_DefaultWorkflow"}}
CASES = [
    Case(
        "broken JSON",
        {"Presets/Chat/x/P.json": "{"},
        [error("bad_syntax", "Presets/Chat/x/P.json", "line 1, column 2")],
    ),
    Case(
        "broken YAML",
        {"Routing/r.yaml": "a: ["},
        [error("bad_syntax", "Routing/r.yaml", "line 1, column 5")],
    ),
    Case(
        "wrong type in a file nobody uses",
        {"PromptTemplates/t.json": {"promptTemplateEndToken": []}},
        [error("invalid_value", "PromptTemplates/t.json", "promptTemplateEndToken")],
    ),
    Case("unknown key", {BOB: {**OURS, "prot": 1}}, [warning("unknown_key", BOB, "prot")]),
    Case(
        "twins",
        {"ApiTypes/Chat.yml": "type: x"},
        [error("two_files_of_one_name", "ApiTypes/Chat.json")],
    ),
    Case(
        "user given but missing",
        {},
        [error("missing_file", "Users/anna.json")],
        users=("bob", "anna"),
    ),
    Case("nobody given", {}, [error("no_user", "Users/_current-user.json")], users=()),
    Case(
        "current user missing",
        {"Users/_current-user.json": {"currentUser": "x"}},
        [error("missing_file", "Users/x.json")],
        users=(),
    ),
    Case(
        "current user broken",
        {"Users/_current-user.json": "{"},
        [error("bad_syntax", "Users/_current-user.json", "line 1, column 2")],
        users=(),
    ),
    Case("broken user is told once", {BOB: "{"}, [error("bad_syntax", BOB, "line 1, column 2")]),
    Case(
        "keys that the reference demands",
        {BOB: {}},
        [
            warning("missing_key", BOB, "chatCompleteAddUserAssistant"),
            warning("missing_key", BOB, "chatCompletionAddMissingAssistantGenerator"),
        ],
    ),
    Case(
        "custom workflow missing",
        {BOB: {**OURS, "customWorkflowOverride": True, "customWorkflow": "X"}},
        [error("missing_reference", BOB, "customWorkflow")],
    ),
    Case(
        "custom workflow not named",
        {BOB: {**OURS, "customWorkflowOverride": True}},
        [error("incomplete", BOB, "customWorkflow")],
    ),
    Case("custom workflow off and missing", {BOB: {**OURS, "customWorkflow": "X"}}, []),
    Case(
        "nothing to route to",
        {
            BOB: {**OURS, "workflowConfigsSubDirectoryOverride": "_shared"},
            "Workflows/_shared/a/b.json": [],
        },
        [warning("missing_reference", BOB, "routingConfig")],
    ),
    Case(
        "routing missing",
        {BOB: {**OURS, "routingConfig": "r", "categorizationWorkflow": "_DefaultWorkflow"}},
        [error("missing_reference", BOB, "routingConfig")],
    ),
    Case(
        "nobody chooses a category",
        {BOB: {**OURS, "routingConfig": "r"}, "Routing/r.json": ROUTES},
        [error("incomplete", BOB, "categorizationWorkflow")],
    ),
    Case(
        "a category leads nowhere",
        {
            BOB: {**OURS, "routingConfig": "r", "categorizationWorkflow": "_DefaultWorkflow"},
            "Routing/r.json": {**ROUTES, "B": {"description": "", "workflow": "X"}},
        },
        [error("missing_reference", "Routing/r.json", "B.workflow")],
    ),
    Case(
        "memory workflow missing",
        {BOB: {**OURS, "chatSummaryToolWorkflow": "X"}},
        [error("missing_reference", BOB, "chatSummaryToolWorkflow")],
    ),
    Case(
        "template of the user missing",
        {BOB: {**OURS, "chatPromptTemplateName": "X"}},
        [warning("missing_reference", BOB, "chatPromptTemplateName")],
    ),
    Case(
        "endpoint folder missing",
        {BOB: {**OURS, "endpointConfigsSubDirectory": "x/y"}},
        [warning("missing_folder", BOB, "endpointConfigsSubDirectory")],
    ),
    Case(
        "folder outside",
        {BOB: {**OURS, "endpointConfigsSubDirectory": "../x"}},
        [error("invalid_value", BOB, "endpointConfigsSubDirectory")],
    ),
    Case(
        "alias of nothing",
        {BOB: {**OURS, "modelAliases": {"a": "x", "b": "bob", "c": ""}}},
        [error("missing_reference", BOB, "modelAliases.a")],
    ),
    Case(
        "API type missing",
        {FAST: {**ENDPOINT, "apiTypeConfigFileName": "Chta"}},
        [error("missing_reference", FAST, "apiTypeConfigFileName")],
    ),
    Case(
        "API type in another case",
        {FAST: {**ENDPOINT, "apiTypeConfigFileName": "chat"}},
        [warning("name_case", FAST, "apiTypeConfigFileName")],
    ),
    Case(
        "API type outside",
        {FAST: {**ENDPOINT, "apiTypeConfigFileName": "../Users/bob"}},
        [error("missing_reference", FAST, "apiTypeConfigFileName")],
    ),
    Case(
        "no address",
        {FAST: {"apiTypeConfigFileName": "Chat"}},
        [error("bad_url", FAST, "endpoint")],
    ),
    Case(
        "no address needed",
        {FAST: {"apiTypeConfigFileName": "Chat"}, "ApiTypes/Chat.json": {"type": "scripted"}},
        [],
    ),
    Case(
        "address without scheme",
        {FAST: {**ENDPOINT, "endpoint": "h:1"}},
        [error("bad_url", FAST, "endpoint")],
    ),
    Case(
        "template missing, chat",
        {FAST: {**ENDPOINT, "promptTemplate": "t"}},
        [warning("missing_reference", FAST, "promptTemplate")],
    ),
    Case(
        "template missing, text",
        {
            FAST: {**ENDPOINT, "promptTemplate": "t"},
            "ApiTypes/Chat.json": {**API_TYPE, "type": "koboldCppGenerate"},
        },
        [error("missing_reference", FAST, "promptTemplate")],
    ),
    Case(
        "template missing, embeddings",
        {
            FAST: {**ENDPOINT, "promptTemplate": "t"},
            "ApiTypes/Chat.json": {**API_TYPE, "type": "openAIEmbeddings"},
        },
        [],
    ),
    Case(
        "appended preset missing",
        {FAST: {**ENDPOINT, "appendPresetName": "P"}},
        [warning("missing_reference", FAST, "appendPresetName")],
    ),
    Case(
        "appended preset of some user",
        {FAST: {**ENDPOINT, "appendPresetName": "P"}, "Presets/Chat/anyone/P.json": {}},
        [],
    ),
    Case(
        "thinking without tags",
        {FAST: {**ENDPOINT, "removeThinking": True, "startThinkTag": "<t>"}},
        [warning("incomplete", FAST, "removeThinking")],
    ),
    Case(
        "unknown level",
        {FAST: {**ENDPOINT, "wilmerContextEstimationLevel": "bold"}},
        [warning("invalid_value", FAST, "wilmerContextEstimationLevel")],
    ),
    Case(
        "variable not set",
        {FAST: {**ENDPOINT, "apiKey": "${SOME_KEY}"}},
        [error("missing_variable", FAST, "apiKey")],
    ),
    Case(
        "variable of an example not set, where no user looks first",
        {"Endpoints/examples/E.json": {**ENDPOINT, "apiKey": "${SOME_KEY}"}},
        [],
    ),
    Case(
        "variable in the user's folder not set",
        {
            BOB: {**OURS, "endpointConfigsSubDirectory": "mine"},
            "Endpoints/mine/E.json": {**ENDPOINT, "apiKey": "${SOME_KEY}"},
        },
        [error("missing_variable", "Endpoints/mine/E.json", "apiKey")],
    ),
    Case(
        "MCP server",
        {"MCPServers/_examples/m.json": {"transport": "x"}},
        [error("invalid_value", "MCPServers/_examples/m.json", "transport")],
    ),
    Case(
        "schema",
        {"StructuredOutputs/bob/s.json": []},
        [error("invalid_value", "StructuredOutputs/bob/s.json")],
    ),
    Case(
        "hidden files are not looked at",
        {"Endpoints/.old.json": "{", "Endpoints/.git/x.json": "{"},
        [],
    ),
    Case(
        "other files are not looked at", {"Endpoints/README.md": "{", "Endpoints/x.json~": "{"}, []
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_what_is_wrong_is_told(tree: Tree, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in case.unset:
        monkeypatch.delenv(variable, raising=False)
    for file, content in case.files.items():
        tree.write(file, content)

    problems = check_files(tree.store(case.users))

    assert [(p.code, p.severity, p.file, p.place) for p in problems] == case.told
    assert {p.code for p in problems} <= CODES.keys()
    assert str(tree.root) not in "".join(map(str, problems))


@pytest.mark.skipif(os.name == "nt", reason="there it is right")
def test_a_path_of_windows_is_told_elsewhere(tree: Tree) -> None:
    variables = {"personaDir": "D:\\temp", "share": "\\\\host\\x", "fine": "C: is a drive", "n": 1}
    tree.write(BOB, {**OURS, "sqlLiteDirectory": "C:/x", "userWideWorkflowVariables": variables})

    assert told(tree.store()) == [
        warning("foreign_path", BOB, "sqlLiteDirectory"),
        warning("foreign_path", BOB, "userWideWorkflowVariables.personaDir"),
        warning("foreign_path", BOB, "userWideWorkflowVariables.share"),
    ]


def test_errors_come_first(tree: Tree) -> None:
    tree.write("ApiTypes/A.json", {"type": "x", "tpye": "y"})
    tree.write("ApiTypes/B.json", {})

    assert [p.severity for p in check_files(tree.store())] == ["error", "warning"]


def test_a_file_that_was_checked_is_kept_when_an_edit_breaks_it(tree: Tree) -> None:
    store = tree.store()
    check_files(store)

    tree.clock.advance(5)
    tree.write(FAST, "{")
    tree.clock.advance(1)

    assert store.snapshot().endpoint("Fast").endpoint == ENDPOINT["endpoint"]
    assert [(p.file, p.using_last_good) for p in check_files(store)] == [(FAST, True)]
    assert [(p.file, p.using_last_good) for p in store.problems()] == [(FAST, True)]


def test_unused_files_that_never_were_good_are_told_by_the_check_alone(tree: Tree) -> None:
    tree.write("Endpoints/examples/E.json", "{")
    store = tree.store()

    assert [p.file for p in check_files(store)] == ["Endpoints/examples/E.json"]
    assert store.problems() == ()


def test_a_deleted_file_that_nobody_used_is_no_problem(tree: Tree) -> None:
    store = tree.store()
    tree.write("Endpoints/Old.json", ENDPOINT)
    assert check_files(store) == []

    tree.path("Endpoints/Old.json").unlink()
    tree.clock.advance(3)

    assert (check_files(store), store.problems()) == ([], ())


def test_an_empty_folder_is_told_and_no_crash(tmp_path: Path) -> None:
    store = ConfigStore(Locations.find(tmp_path, configs=str(tmp_path / "nowhere")))

    assert told(store) == [error("no_user", "Users/_current-user.json")]


# Trees of the reference

REFERENCE = os.environ.get("HEADRACE_REFERENCE_TREES", "")
needs_reference = pytest.mark.skipif(not REFERENCE, reason="HEADRACE_REFERENCE_TREES is not set")


def reference() -> ConfigStore:
    return ConfigStore(Locations.find(Path("nowhere"), configs=REFERENCE))


@needs_reference
def test_the_known_faults_of_the_reference_are_warnings_that_name_the_file() -> None:
    problems = told(reference())

    assert [one for one in problems if one[1] == "error"] == []
    assert (
        warning(
            "name_case",
            "Endpoints/_example-endpoints/chatgpt-4o-example.json",
            "apiTypeConfigFileName",
        )
        in problems
    )
    assert (
        warning(
            "foreign_path",
            "Users/_example_assistant_with_vector_memory.json",
            "userWideWorkflowVariables.personaDir",
        )
        in problems
    )


@needs_reference
def test_every_file_of_the_reference_loads() -> None:
    root = Path(REFERENCE)
    store = reference()
    users = [path.stem for path in (root / "Users").glob("*.json") if path.stem != "_current-user"]
    missing = []
    for user in users:
        config = store.snapshot(user)
        folder = root / "Endpoints" / config.user.endpoint_configs_sub_directory
        for path in folder.glob("*.json"):
            endpoint = config.endpoint(path.stem)
            api_type = config.api_type(endpoint.api_type_config_file_name)
            try:
                config.preset(endpoint, api_type, None)
            except ConfigError as fault:
                missing.append(fault.file)
    config = store.snapshot()
    for path in (root / "PromptTemplates").glob("*.json"):
        config.prompt_template(path.stem)
    for path in (root / "Routing").glob("*.json"):
        assert config.routing(path.stem).categories
    assert len(users) >= 5
    # One endpoint names a preset that its API type does not have.
    assert missing == ["Presets/LlamaCppServer/_example_wikipedia/Vision-Endpoint-extra.json"]


def test_our_own_configuration_has_no_errors() -> None:
    install = Path(__file__).parents[2]
    store = ConfigStore(Locations.find(install))

    assert [one for one in told(store) if one[1] == "error"] == []
