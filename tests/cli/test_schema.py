"""The schemas are what the code says now; all files that ship, or load, are valid by them."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from Middleware.app import INSTALL
from Middleware.cli import schema
from Middleware.config.syntax import SUFFIXES, parse_bytes

SCHEMAS = schema.all_schemas()
VALID = {kind: Draft7Validator(one) for kind, one in SCHEMAS.items()}
KINDS = {
    "Users": "user",
    "Endpoints": "endpoint",
    "ApiTypes": "api-type",
    "Presets": "preset",
    "PromptTemplates": "prompt-template",
    "Routing": "routing",
    "MCPServers": "mcp-server",
    "Workflows": "workflow",
    "Conversations": "conversation-profile",
}
REFERENCE = os.environ.get("HEADRACE_REFERENCE_TREES", "")


def files_of(root: Path) -> Iterator[tuple[Path, str]]:
    """Every file of a tree that has a schema of ours, with its kind."""
    for folder in KINDS:
        for path in sorted((root / folder).rglob("*")):
            kind = kind_of(path.relative_to(root))
            if path.suffix in SUFFIXES and kind in VALID:
                yield path, kind


def kind_of(path: Path) -> str:
    if path.stem == "_current-user":
        return "current-user"
    if path.parts[:2] == ("Workflows", "_tests"):
        return "workflow-test"
    return KINDS[path.parts[0]]


def content_of(path: Path) -> Any:
    return parse_bytes(path.read_bytes(), path.name)[0]


def faults(path: Path, kind: str) -> list[str]:
    content = content_of(path)
    if kind == "workflow" and isinstance(content, dict) and "nodes" not in content:
        # Settings of memories and the like lie among workflows.
        return []
    return [f"{path}: {one.json_path}: {one.message}" for one in VALID[kind].iter_errors(content)]


SHIPPED = [*files_of(INSTALL / "Public" / "Configs"), *files_of(INSTALL)]


@pytest.mark.parametrize("name", schema.schema_files())
def test_the_schema_file_is_up_to_date(name: str) -> None:
    committed = (schema.FOLDER / name).read_text(encoding="utf-8")

    assert committed == schema.schema_files()[name], (
        "run `python3 start.py schema` and commit what it writes"
    )


def test_every_schema_file_that_is_there_is_written_from_the_code() -> None:
    assert {path.name for path in schema.FOLDER.iterdir()} == schema.schema_files().keys()


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_schema_is_a_schema(kind: str) -> None:
    Draft7Validator.check_schema(SCHEMAS[kind])


@pytest.mark.parametrize(
    ("path", "kind"), SHIPPED, ids=[path.relative_to(INSTALL).as_posix() for path, _ in SHIPPED]
)
def test_a_shipped_file_is_valid_and_names_its_schema(path: Path, kind: str) -> None:
    assert faults(path, kind) == []
    named = (path.parent / content_of(path)["$schema"]).resolve()
    assert named == schema.FOLDER / f"{kind}.schema.json"


@pytest.mark.skipif(not REFERENCE, reason="HEADRACE_REFERENCE_TREES is not set")
def test_every_file_of_the_reference_is_valid() -> None:
    found = list(files_of(Path(REFERENCE)))

    assert [fault for path, kind in found for fault in faults(path, kind)] == []
    assert len(found) > 100


@dataclass(frozen=True)
class Given:
    id: str
    kind: str
    content: Any
    wrong: tuple[str, ...] = ()
    """JSON paths of what is wrong."""


NODE = {"type": "CustomWorkflow", "workflowName": "Child"}
GIVEN = [
    Given("booleans and numbers as text", "user", {"useFileLogging": "true", "port": "5050"}),
    Given("null is not given", "user", {"port": None, "modelAliases": None, "runLog": None}),
    Given("keys of the API", "user", {"apiKeys": ["plain", {"name": "x", "key": "y"}]}),
    Given("unknown keys", "user", {"myNote": 5, "description": "mine"}),
    Given("no such dialect", "user", {"dialect": "klingon"}, ("$.dialect",)),
    Given("a list for text", "user", {"customWorkflow": []}, ("$.customWorkflow",)),
    Given(
        "a number without limits is one", "user", {"heartbeatSeconds": 0}, ("$.heartbeatSeconds",)
    ),
    Given("rules of a script", "endpoint", {"rules": [{"match": "x", "reply": "y"}]}),
    Given(
        "a rule that is none",
        "endpoint",
        {"rules": [{"toolCalls": [{"arguments": {}}]}]},
        ("$.rules[0].toolCalls[0]",),
    ),
    Given("an API type without its type", "api-type", {"presetType": "x"}, ("$",)),
    Given("a category without workflow", "routing", {"A": {"description": "a"}}, ("$.A",)),
    Given("a list of nodes", "workflow", [{"type": "Standard", "prompt": "Hi"}]),
    Given("an object with variables", "workflow", {"nodes": [NODE], "dir": "/d", "n": 3}),
    Given("no nodes", "workflow", {"nodes": []}, ("$.nodes",)),
    Given(
        "a node without type is Standard", "workflow", [{"allowTools": []}], ("$[0].allowTools",)
    ),
    Given(
        "so is one of no known type",
        "workflow",
        [{"type": "Standart", "systemPrompt": {}}],
        ("$[0].systemPrompt",),
    ),
    Given("what one type needs", "workflow", [{"type": "CustomWorkflow"}], ("$[0]",)),
    Given("others do not need", "workflow", [{"type": "StaticResponse", "content": "Hi"}]),
    Given("numbers as variables", "workflow", [{"maxResponseSizeInTokens": "{agent1Input}"}]),
    Given("keys of every node", "workflow", [{**NODE, "jinja2": {}}], ("$[0].jinja2",)),
    Given(
        "both spellings", "workflow", [{**NODE, "scopedVariables": 5}], ("$[0].scopedVariables",)
    ),
]


@pytest.mark.parametrize("given", [pytest.param(one, id=one.id) for one in GIVEN])
def test_the_schema_finds_what_the_reader_would_refuse(given: Given) -> None:
    found = {error.json_path for error in VALID[given.kind].iter_errors(given.content)}

    assert found == set(given.wrong)


def test_editors_can_offer_types_and_explain_keys() -> None:
    node = SCHEMAS["workflow"]["$defs"]["NodeOptions"]["properties"]
    api_type = SCHEMAS["api-type"]["properties"]

    assert "ConditionalCustomWorkflow" in node["type"]["anyOf"][0]["enum"]
    assert "scripted" in api_type["type"]["examples"]
    assert node["jinja2"]["description"].startswith("The node's texts are Jinja2 templates")
    assert "name" not in SCHEMAS["user"]["properties"], "the loader adds it"


def test_the_command_writes_what_has_changed_and_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert schema.main([str(tmp_path)]) == 0
    capsys.readouterr()
    (tmp_path / "preset.schema.json").unlink()

    assert schema.main([str(tmp_path)]) == 0

    total = len(schema.schema_files())
    assert capsys.readouterr().out == (
        f"written: {tmp_path / 'preset.schema.json'}\n"
        f"{total} files, {total - 1} of them unchanged\n"
    )
    assert json.loads((tmp_path / "preset.schema.json").read_text(encoding="utf-8"))
