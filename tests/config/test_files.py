"""What one request sees of the files, and which files it is."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Middleware.config.files import ChosenPreset
from Middleware.config.problems import BrokenFile
from Middleware.config.store import ConfigStore, Locations
from Middleware.config.watched_file import Source
from Middleware.core.errors import ConfigError
from tests.config.tree import API_TYPE, ENDPOINT, Tree


def values(raw: Any, source: Source) -> Any:
    return raw


def test_every_kind_of_file_is_found(tree: Tree) -> None:
    tree.write("PromptTemplates/chatml.json", {"promptTemplateUserPrefix": "<u>"})
    tree.write("Routing/topics.json", {"A": {"description": "d", "workflow": "w"}})
    tree.write("StructuredOutputs/claim.json", {"type": "object"})
    tree.write("MCPServers/files.json", {"transport": "stdio", "command": "x"})
    config = tree.store().snapshot()

    endpoint, api_type = config.endpoint("Fast"), config.api_type("Chat")

    assert (endpoint.name, endpoint.endpoint) == ("Fast", "http://127.0.0.1:1")
    assert (api_type.name, api_type.type) == ("Chat", "openAIChatCompletion")
    assert config.prompt_template("chatml").around("user") == ("<u>", "")
    assert config.routing("topics").categories["A"].workflow == "w"
    assert config.structured_output("claim") == {"type": "object"}
    assert config.mcp_server("files").command == "x"


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".YAML"])
def test_yaml_is_taken_wherever_json_is(tree: Tree, suffix: str) -> None:
    tree.write(f"Endpoints/Slow{suffix}", "endpoint: http://h\napiTypeConfigFileName: Chat\n")

    assert tree.store().snapshot().endpoint("Slow").endpoint == "http://h"


def test_two_files_of_one_name_are_an_error_that_names_both(tree: Tree) -> None:
    tree.write("Endpoints/Slow.json", ENDPOINT)
    tree.write("Endpoints/Slow.yaml", "apiTypeConfigFileName: Chat")

    with pytest.raises(BrokenFile) as caught:
        tree.store().snapshot().endpoint("Slow")

    assert caught.value.message == (
        "Endpoints/Slow.json: There are several files of this name: "
        "Endpoints/Slow.json and Endpoints/Slow.yaml. Keep one of them."
    )


def test_a_name_in_another_case_is_found_with_a_warning(tree: Tree) -> None:
    store = tree.store()

    assert store.snapshot().api_type("chat").name == "Chat"
    assert [(p.code, p.severity, p.file) for p in store.problems()] == [
        ("name_case", "warning", "ApiTypes/Chat.json")
    ]


def test_the_spelling_of_the_file_comes_before_any_other(tree: Tree) -> None:
    tree.write("ApiTypes/chat.json", {"type": "lower"})
    config = tree.store().snapshot()

    assert [config.api_type(name).type for name in ("Chat", "chat")] == [
        "openAIChatCompletion",
        "lower",
    ]


def test_endpoints_are_looked_for_in_the_folder_of_the_user_alone(tree: Tree) -> None:
    tree.write("Users/bob.json", {"endpointConfigsSubDirectory": "mine"})
    tree.write("Endpoints/mine/Quick.json", ENDPOINT)
    config = tree.store().snapshot()

    with pytest.raises(ConfigError) as caught:
        config.endpoint("Fast")

    assert config.endpoint("Quick").name == "Quick"
    assert caught.value.message == "Endpoints/mine/Fast.json: There is no such file."


def test_a_missing_file_is_told_with_the_path_tried_and_the_nearest_name(tree: Tree) -> None:
    with pytest.raises(ConfigError) as caught:
        tree.store().snapshot().endpoint("Fats")

    assert caught.value.message == (
        "Endpoints/Fats.json: There is no such file. Did you mean 'Fast'?"
    )
    assert str(tree.root) not in caught.value.message


@pytest.mark.parametrize("name", ["", "../Users/bob", "/etc/passwd", "x" * 5000, "a\0b", "C:\\x"])
def test_no_name_leads_out_of_its_folder(tree: Tree, name: str) -> None:
    config = tree.store().snapshot()

    for look in (config.endpoint, config.workflow_file, config.mcp_server, config.routing):
        with pytest.raises(ConfigError) as caught:
            look(name)
        assert len(caught.value.message) < 300


@pytest.mark.parametrize("name", ["_examples/files", "..", "a\\b"])
def test_some_kinds_take_plain_names_only(tree: Tree, name: str) -> None:
    tree.write("MCPServers/_examples/files.json", {"transport": "stdio"})
    tree.write("StructuredOutputs/_examples/files.json", {"type": "object"})
    config = tree.store().snapshot()

    for look in (config.mcp_server, config.structured_output):
        with pytest.raises(ConfigError, match="is no plain file name"):
            look(name)


def test_a_link_out_of_the_configuration_is_not_followed(tree: Tree) -> None:
    outside = tree.root / "canary.json"
    outside.write_text('{"apiTypeConfigFileName": "Chat", "modelNameToSendToAPI": "canary"}')
    tree.path("Endpoints/Linked.json").symlink_to(outside)
    tree.path("Endpoints/Other.json").symlink_to(tree.path("Endpoints/Fast.json"))
    config = tree.store().snapshot()

    with pytest.raises(ConfigError) as caught:
        config.endpoint("Linked")

    assert "A link leads out of the configuration folder" in caught.value.message
    assert config.endpoint("Other").endpoint == ENDPOINT["endpoint"]


@dataclass(frozen=True)
class Folder:
    id: str
    name: str
    folder: str | None
    path: str
    user: dict[str, Any] = field(default_factory=dict)


FOLDERS = [
    Folder("the user's own", "Main", None, "bob/Main.json"),
    Folder(
        "the override",
        "Main",
        None,
        "team/Main.json",
        {"workflowConfigsSubDirectoryOverride": "team"},
    ),
    Folder("the caller's choice", "Main", "_common", "_common/Main.json"),
    Folder("a folder with a slash", "Main", "_shared/general", "_shared/general/Main.json"),
    Folder("a name with a slash", "deep/Main", "_common", "_common/deep/Main.json"),
    Folder("up and down again", "../_common/Main", None, "_common/Main.json"),
    Folder("any case", "main", "_Common", "_common/Main.json"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in FOLDERS])
def test_in_which_folder_a_workflow_is(tree: Tree, case: Folder) -> None:
    tree.write("Users/bob.json", case.user)
    path = tree.write(f"Workflows/{case.path}", [{"n": 1}])
    config = tree.store().snapshot()

    found = config.workflow_file(case.name, case.folder)

    assert found == path
    assert config.load(found, values) == [{"n": 1}]


def test_there_is_no_folder_to_fall_back_to(tree: Tree) -> None:
    tree.write("Workflows/_common/Main.json", [])

    with pytest.raises(ConfigError) as caught:
        tree.store().snapshot().workflow_file("Main")

    assert caught.value.message == "Workflows/bob/Main.json: There is no such file."


def test_structured_outputs_of_the_user_come_first(tree: Tree) -> None:
    tree.write("StructuredOutputs/a.json", {"from": "root"})
    tree.write("StructuredOutputs/b.json", {"from": "root"})
    tree.write("StructuredOutputs/bob/a.json", {"from": "bob"})
    config = tree.store().snapshot()

    assert [config.structured_output(name)["from"] for name in "ab"] == ["bob", "root"]


@dataclass(frozen=True)
class Preset:
    id: str
    files: dict[str, Any]
    name: str | None
    chosen: ChosenPreset
    endpoint: dict[str, Any] = field(default_factory=dict)
    user: dict[str, Any] = field(default_factory=dict)


DONOR = {**ENDPOINT, "presetSamplers": {"top_k": 3}}
PRESETS = [
    Preset("none named, none own", {}, None, ChosenPreset()),
    Preset(
        "none named: the endpoint's own",
        {},
        None,
        ChosenPreset(samplers={"seed": 1}),
        endpoint={"presetSamplers": {"seed": 1}},
    ),
    Preset(
        "an endpoint lends its samplers, before any file",
        {"Endpoints/P.json": DONOR, "Presets/Chat/bob/P.json": {"x": 1}},
        "P",
        ChosenPreset(samplers={"top_k": 3}),
        endpoint={"presetSamplers": {"seed": 1}},
    ),
    Preset(
        "an endpoint without samplers lends nothing",
        {"Endpoints/P.json": {**ENDPOINT, "presetSamplers": {}}, "Presets/Chat/P.json": {"x": 1}},
        "P",
        ChosenPreset(native={"x": 1}),
    ),
    Preset(
        "the user's folder comes before the common one",
        {"Presets/Chat/bob/P.json": {"x": 1}, "Presets/Chat/P.json": {"x": 2}},
        "P",
        ChosenPreset(native={"x": 1}),
    ),
    Preset(
        "the override in place of the user's folder",
        {
            "Presets/Chat/bob/P.json": {"x": 1},
            "Presets/Chat/team/P.json": {"x": 2},
        },
        "P",
        ChosenPreset(native={"x": 2}),
        user={"presetConfigsSubDirectoryOverride": "team"},
    ),
    Preset(
        "an exact name far away comes before another case nearby",
        {"Endpoints/p.json": DONOR, "Presets/Chat/P.json": {"x": 1}},
        "P",
        ChosenPreset(native={"x": 1}),
    ),
    Preset(
        "another case where there is nothing else",
        {"Endpoints/p.json": DONOR},
        "P",
        ChosenPreset(samplers={"top_k": 3}),
    ),
    Preset(
        "a name with a slash is no endpoint",
        {"Endpoints/a/P.json": DONOR, "Presets/Chat/a/P.json": {"x": 1}},
        "a/P",
        ChosenPreset(native={"x": 1}),
    ),
    Preset(
        "appended",
        {"Presets/Chat/bob/Extra.json": {"y": 1}},
        None,
        ChosenPreset(appended={"y": 1}),
        endpoint={"appendPresetName": "Extra"},
    ),
    Preset(
        "appended to a named one",
        {"Presets/Chat/Extra.json": {"y": 1}, "Presets/Chat/P.json": {"x": 1}},
        "P",
        ChosenPreset(native={"x": 1}, appended={"y": 1}),
        endpoint={"appendPresetName": "Extra"},
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in PRESETS])
def test_which_preset_is_meant(tree: Tree, case: Preset) -> None:
    tree.write("Users/bob.json", case.user)
    tree.write("Endpoints/Fast.json", {**ENDPOINT, **case.endpoint})
    for file, content in case.files.items():
        tree.write(file, content)
    config = tree.store().snapshot()

    assert config.preset(config.endpoint("Fast"), config.api_type("Chat"), case.name) == case.chosen


def test_a_missing_preset_names_every_place(tree: Tree) -> None:
    tree.write("Presets/Chat/Calm.json", {})
    config = tree.store().snapshot()

    with pytest.raises(ConfigError) as caught:
        config.preset(config.endpoint("Fast"), config.api_type("Chat"), "Clam")

    assert caught.value.message == (
        "Presets/Chat/bob/Clam.json: There is no such file, nor Presets/Chat/Clam.json. "
        "Did you mean 'Calm'?"
    )


def test_a_preset_of_an_api_type_without_a_folder_is_found(tree: Tree) -> None:
    tree.write("ApiTypes/Chat.json", {"type": "openAIChatCompletion"})
    tree.write("Presets/P.json", {"x": 1})
    config = tree.store().snapshot()

    chosen = config.preset(config.endpoint("Fast"), config.api_type("Chat"), "P")

    assert chosen.native == {"x": 1}


def test_the_same_files_give_the_same_objects_to_every_request(tree: Tree) -> None:
    tree.write("Presets/Chat/P.json", {"x": 1})
    store = tree.store()

    def ask() -> tuple[object, ...]:
        config = store.snapshot()
        endpoint, api_type = config.endpoint("Fast"), config.api_type("Chat")
        path = config.workflow_file("_DefaultWorkflow")
        chosen = config.preset(endpoint, api_type, "P")
        nothing = config.preset(endpoint, api_type, None)
        return config.user, endpoint, api_type, chosen, nothing, config.load(path, values)

    first = ask()
    for _ in range(200):
        tree.clock.advance(1)
        assert [a is b for a, b in zip(first, ask(), strict=True)] == [True] * 6


def test_a_derived_value_is_built_once_for_the_same_sources(tree: Tree) -> None:
    store = tree.store()
    built: list[str] = []

    def derived(key: str) -> object:
        config = store.snapshot()
        endpoint = config.endpoint("Fast")

        def build() -> str:
            built.append(key)
            return endpoint.name

        return config.derived(key, (endpoint,), build)

    assert [derived("a"), derived("a"), derived("b")] == ["Fast", "Fast", "Fast"]
    assert built == ["a", "b"]
    tree.write("Endpoints/Fast.json", {**ENDPOINT, "modelNameToSendToAPI": "m"})
    tree.clock.advance(1)
    derived("a")
    assert built == ["a", "b", "a"]


def test_a_broken_endpoint_names_file_and_field(tree: Tree) -> None:
    tree.write("Endpoints/Fast.json", {**ENDPOINT, "maxContextTokenSize": "big"})

    with pytest.raises(ConfigError) as caught:
        tree.store().snapshot().endpoint("Fast")

    assert caught.value.message == (
        'Endpoints/Fast.json: maxContextTokenSize: The value is "big". Write a whole number.'
    )
    assert (caught.value.status, caught.value.code) == (400, "configuration_error")


def test_an_error_is_a_fresh_one_for_every_request(tree: Tree) -> None:
    tree.write("Endpoints/Fast.json", "{")
    config = tree.store().snapshot()

    errors = []
    for node in ("one", "two"):
        with pytest.raises(ConfigError) as caught:
            config.endpoint("Fast")
        caught.value.locate("flow", node)
        errors.append(caught.value.place)

    assert errors == ["Workflow 'flow', node 'one'", "Workflow 'flow', node 'two'"]


def test_a_workflow_file_that_lies_elsewhere_by_option(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("Users/bob.json", {})
    other = tmp_path / "mine"
    (other / "bob").mkdir(parents=True)
    (other / "bob" / "Main.yaml").write_text("- title: a")

    store = ConfigStore(
        Locations.find(tmp_path, configs=str(tree.configs), workflows=str(other)), ("bob",)
    )
    config = store.snapshot()

    assert config.load(config.workflow_file("Main"), values) == [{"title": "a"}]


def test_api_types_of_the_tree_are_as_written(tree: Tree) -> None:
    assert tree.store().snapshot().api_type("Chat").preset_type == API_TYPE["presetType"]
