"""What `check` tells of endpoints and API types that are in order each by themselves."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Middleware.app import check_everything
from Middleware.config.store import ConfigStore, Locations
from Middleware.llm.backend import backend_types
from Middleware.llm.check import CODES, check_models
from tests.config.tree import API_TYPE, ENDPOINT, USER, Tree

Told = tuple[str, str, str, str]
FAST, CHAT, BOB = "Endpoints/Fast.json", "ApiTypes/Chat.json", "Users/bob.json"
MAIN = "Workflows/bob/_DefaultWorkflow.json"
TEXT = {
    "type": "openAIV1Completion",
    "samplerFieldMap": {"top_k": "top_k"},
    "maxNewTokensPropertyName": "max_tokens",
}
VECTORS = {"type": "openAIEmbeddings"}
MODEL = {"modelNameToSendToAPI": "m"}


def error(code: str, file: str, place: str) -> Told:
    return code, "error", file, place


def warning(code: str, file: str, place: str) -> Told:
    return code, "warning", file, place


def of_type(kind: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """The files for an endpoint ``Fast`` of a type."""
    return {CHAT: kind, FAST: {**ENDPOINT, **MODEL, **settings}}


def backup(name: str) -> dict[str, Any]:
    return {**ENDPOINT, "backupEndpointName": name}


def node(**options: Any) -> list[dict[str, Any]]:
    return [{"type": "Standard", "endpointName": "Fast", **options}]


@dataclass(frozen=True)
class Case:
    id: str
    files: Mapping[str, Any]
    told: list[Told]
    says: str = ""
    """Stands in the message or the remedy of the first problem."""
    user: Mapping[str, Any] = field(default_factory=dict)


CASES = [
    Case("in order", {}, []),
    Case(
        "an unknown type",
        {CHAT: {"type": "openAIChatCompletions"}},
        [error("unknown_api_type", CHAT, "type")],
        "Did you mean 'openAIChatCompletion'?",
    ),
    Case(
        "a type that resembles none",
        {CHAT: {"type": "xyz"}},
        [error("unknown_api_type", CHAT, "type")],
        "Known are: claudeMessages, koboldCppGenerate,",
    ),
    Case(
        "a misspelt name in a field map",
        {CHAT: {**API_TYPE, "samplerFieldMap": {"temprature": "temp", "my_own": "x"}}},
        [warning("unknown_sampler", CHAT, "samplerFieldMap.temprature")],
        "Did you mean 'temperature'?",
    ),
    Case(
        "a misspelt sampler",
        of_type(TEXT, presetSamplers={"tpo_k": 5, "top_k": 5}),
        [warning("unknown_sampler", FAST, "presetSamplers.tpo_k")],
        "Did you mean 'top_k'?",
    ),
    Case(
        "a sampler that the owner's field map has",
        of_type({**TEXT, "samplerFieldMap": {"banana": "b"}}, presetSamplers={"banana": 5}),
        [],
    ),
    Case(
        "a sampler that the type has no field for",
        of_type(TEXT, presetSamplers={"min_p": 0.1}),
        [warning("unused_setting", FAST, "presetSamplers.min_p")],
        "API type 'Chat' has no field for it",
    ),
    Case(
        "thinking that cannot be told",
        of_type(API_TYPE, presetSamplers={"thinkingMode": "on", "chat_template_kwargs": {"a": 1}}),
        [
            warning("unused_setting", FAST, "presetSamplers.thinkingMode"),
            warning("unused_setting", FAST, "presetSamplers.chat_template_kwargs"),
        ],
    ),
    Case(
        "thinking that can be told",
        of_type(
            {**API_TYPE, "thinking": {"mode": "effort", "field": "reasoning_effort"}},
            presetSamplers={"thinkingMode": "low", "chat_template_kwargs": None},
        ),
        [],
    ),
    Case(
        "thinking in fields that are not sent",
        {
            CHAT: {
                **API_TYPE,
                "thinking": {"mode": "bool", "field": "x", "location": "chat_template_kwargs"},
            },
            "ApiTypes/Other.json": {**API_TYPE, "thinking": {"mode": "bool"}},
        },
        [
            warning("unused_setting", CHAT, "thinking.location"),
            warning("unused_setting", "ApiTypes/Other.json", "thinking"),
        ],
    ),
    Case(
        "answers of any length",
        {
            CHAT: {"type": "openAIChatCompletion"},
            "ApiTypes/Words.json": {"type": "koboldCppGenerate"},
            "ApiTypes/Script.json": {"type": "scripted"},
            "ApiTypes/Vectors.json": VECTORS,
        },
        [
            warning("incomplete", CHAT, "maxNewTokensPropertyName"),
            warning("incomplete", "ApiTypes/Words.json", "maxNewTokensPropertyName"),
        ],
        "the length of answers is never limited",
    ),
    Case(
        "streams that cannot be asked for",
        {CHAT: {**API_TYPE, "alwaysStream": True}},
        [warning("unused_setting", CHAT, "alwaysStream")],
    ),
    Case(
        "settings of chats for a text type",
        of_type(TEXT, promptTemplate="t", strictContent=True, backendSupportsToolTurns=False),
        [
            warning("unused_setting", FAST, "backendSupportsToolTurns"),
            warning("unused_setting", FAST, "strictContent"),
        ],
    ),
    Case(
        "settings of writers for vectors",
        of_type(VECTORS, presetSamplers={"x": 1}, retries=3, removeThinking=False),
        [
            warning("unused_setting", FAST, "presetSamplers"),
            warning("unused_setting", FAST, "retries"),
        ],
    ),
    Case(
        "rules for a real server",
        of_type(API_TYPE, rules=[{"reply": "x"}]),
        [warning("unused_setting", FAST, "rules")],
    ),
    Case(
        "a server for scripts",
        of_type({"type": "scripted"}, script="echo", apiKey="abc"),
        [warning("unused_setting", FAST, "endpoint"), warning("unused_setting", FAST, "apiKey")],
    ),
    Case(
        "a setting of OpenAI's chats elsewhere",
        of_type({**API_TYPE, "type": "ollamaApiChat"}, strictContent=True),
        [warning("unused_setting", FAST, "strictContent")],
    ),
    Case(
        "no model for a server of many",
        {
            CHAT: {**API_TYPE, "type": "claudeMessages"},
            "Endpoints/Other.json": {**ENDPOINT, **MODEL, "dontIncludeModel": True},
        },
        [
            warning("incomplete", FAST, "modelNameToSendToAPI"),
            warning("incomplete", "Endpoints/Other.json", "modelNameToSendToAPI"),
        ],
    ),
    Case(
        "no model in an example",
        {
            "ApiTypes/Claude.json": {**API_TYPE, "type": "claudeMessages"},
            "Endpoints/examples/C.json": {**ENDPOINT, "apiTypeConfigFileName": "Claude"},
        },
        [],
    ),
    Case(
        "no model for a server of one",
        {"ApiTypes/Kobold.json": {**API_TYPE, "type": "koboldCppGenerate"}},
        [],
    ),
    Case(
        "retries with a backup",
        {FAST: {**backup("Slow"), "retries": 5}, "Endpoints/Slow.json": ENDPOINT},
        [warning("unused_setting", FAST, "retries")],
    ),
    Case(
        "a preset for no backup",
        of_type(API_TYPE, backupPresetName="x"),
        [warning("unused_setting", FAST, "backupPresetName")],
    ),
    Case(
        "a backup that is not there",
        {FAST: backup("Slwo"), "Endpoints/Slow.json": ENDPOINT},
        [error("missing_reference", FAST, "backupEndpointName")],
        "Did you mean 'Slow'?",
    ),
    Case(
        "a backup in the user's folder, of an endpoint below it",
        {"Endpoints/deep/Far.json": backup("Fast")},
        [],
    ),
    Case(
        "an example with its backup beside it",
        {"Endpoints/examples/A.json": backup("B"), "Endpoints/examples/B.json": ENDPOINT},
        [],
    ),
    Case(
        "a backup that another user has",
        {"Endpoints/mine/A.json": backup("Fast")},
        [error("missing_reference", "Endpoints/mine/A.json", "backupEndpointName")],
        user={"endpointConfigsSubDirectory": "mine"},
    ),
    Case(
        "an endpoint that is its own backup",
        {FAST: backup("Fast")},
        [warning("backup_cycle", FAST, "backupEndpointName")],
        "Fast → Fast.",
    ),
    Case(
        "a circle, and one that leads into it",
        {
            "Endpoints/A.json": backup("C"),
            "Endpoints/B.json": backup("Fast"),
            "Endpoints/C.json": backup("B"),
            FAST: backup("c"),
            "Endpoints/Z.json": backup("A"),
        },
        [
            warning("name_case", FAST, "backupEndpointName"),
            warning("backup_cycle", "Endpoints/B.json", "backupEndpointName"),
        ],
    ),
    Case(
        "a circle in a folder",
        {"Endpoints/mine/A.json": backup("B"), "Endpoints/mine/B.json": backup("A")},
        [warning("backup_cycle", "Endpoints/mine/A.json", "backupEndpointName")],
        "A → B → A.",
        user={"endpointConfigsSubDirectory": "mine"},
    ),
    Case(
        "an endpoint that makes no vectors",
        {},
        [error("wrong_kind_of_endpoint", BOB, "embeddingsEndpoint")],
        "API type for embeddings",
        user={"embeddingsEndpoint": "Fast"},
    ),
    Case(
        "an endpoint for vectors",
        of_type(VECTORS),
        [],
        user={"embeddingsEndpoint": "Fast"},
    ),
    Case(
        "no endpoint for vectors",
        {},
        [error("missing_reference", BOB, "embeddingsEndpoint")],
        user={"embeddingsEndpoint": "Vectors"},
    ),
    Case("a key that no variable gives", {FAST: {**ENDPOINT, "apiKey": "${NO_SUCH_KEY}"}}, []),
]


def written(tree: Tree, files: Mapping[str, Any], user: Mapping[str, Any]) -> Tree:
    for file, content in {
        BOB: {**USER, **user},
        CHAT: API_TYPE,
        FAST: ENDPOINT,
        "PromptTemplates/t.json": {},
        **files,
    }.items():
        tree.write(file, content)
    return tree


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_what_is_wrong_with_endpoints_and_api_types_is_told(tmp_path: Path, case: Case) -> None:
    tree = written(Tree(tmp_path), case.files, case.user)

    problems = check_models(tree.store())

    assert [(one.code, one.severity, one.file, one.place) for one in problems] == case.told
    assert all(one.message and one.remedy for one in problems)
    assert not case.says or case.says in str(problems[-1])


USES = [
    Case(
        "vectors where one must write",
        {**of_type(VECTORS), MAIN: node()},
        [error("wrong_kind_of_endpoint", MAIN, "nodes[0].endpointName")],
        "Endpoint 'Fast' writes no texts.",
    ),
    Case(
        "no template for a text endpoint",
        {**of_type(TEXT), MAIN: node()},
        [error("missing_template", MAIN, "nodes[0].endpointName")],
        "`chatPromptTemplateName`",
    ),
    Case("a template of its own", {**of_type(TEXT, promptTemplate="t"), MAIN: node()}, []),
    Case(
        "the user's template",
        {**of_type(TEXT), MAIN: node()},
        [],
        user={"chatPromptTemplateName": "t"},
    ),
    Case(
        "other endpoints of a node",
        {
            "ApiTypes/V.json": VECTORS,
            "Endpoints/V.json": {**ENDPOINT, **MODEL, "apiTypeConfigFileName": "V"},
            MAIN: node(fallbackEndpoints=["Fast", "{late}", "V", "Gone"]),
        },
        [
            error("wrong_kind_of_endpoint", MAIN, "nodes[0].fallbackEndpoints[2]"),
            error("missing_endpoint", MAIN, "nodes[0].fallbackEndpoints[3]"),
        ],
    ),
    Case(
        "a key that no variable gives",
        {FAST: {**ENDPOINT, "apiKey": "${NO_SUCH_KEY}"}},
        [error("missing_variable", FAST, "apiKey")],
        "Set NO_SUCH_KEY",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in USES])
def test_endpoints_are_fit_for_what_nodes_want_of_them(tmp_path: Path, case: Case) -> None:
    files = {MAIN: [{"type": "StaticResponse", "content": "ok"}], **case.files}
    tree = written(Tree(tmp_path), files, {"dialect": "headrace", **case.user})

    problems = check_everything(tree.store())

    assert [(one.code, one.severity, one.file, one.place) for one in problems] == case.told
    assert not case.says or case.says in str(problems[-1])


def test_a_case_stands_for_every_code() -> None:
    assert CODES.keys() <= {code for case in (*CASES, *USES) for code, *_ in case.told}


@pytest.mark.parametrize("name", backend_types.names())
def test_nothing_is_wrong_with_a_plain_endpoint_of_any_type(tmp_path: Path, name: str) -> None:
    endpoint = {"apiTypeConfigFileName": "Chat", "modelNameToSendToAPI": "m"}
    if name != "scripted":
        endpoint |= {"endpoint": "http://127.0.0.1:1", "apiKey": "k"}
    tree = written(Tree(tmp_path), {CHAT: {**API_TYPE, "type": name}, FAST: endpoint}, {})

    assert check_models(tree.store()) == []


REFERENCE = os.environ.get("HEADRACE_REFERENCE_TREES", "")


@pytest.mark.skipif(not REFERENCE, reason="HEADRACE_REFERENCE_TREES is not set")
def test_nothing_is_wrong_with_the_endpoints_of_the_reference() -> None:
    store = ConfigStore(Locations.find(Path("nowhere"), configs=REFERENCE))

    assert list(map(str, check_models(store))) == []


def test_nothing_is_wrong_with_our_own_endpoints() -> None:
    store = ConfigStore(Locations.find(Path(__file__).parents[2]))

    assert json.dumps([one.to_dict() for one in check_models(store)]) == "[]"
