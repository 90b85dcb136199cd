"""Endpoints in folders: messages name the folder too, and equal names are not mixed up."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Upstream, refuses

FILE = "Endpoints/home/deep/Main.json"
TYPES = {
    "Claude": {"type": "claudeMessages", "maxNewTokensPropertyName": "max_tokens"},
    "Kobold": {"type": "koboldCppGenerate"},
    "Vectors": {"type": "openAIEmbeddings"},
    "Odd": {"type": "openAIChat"},
}


@dataclass(frozen=True)
class Case:
    id: str
    endpoint: Mapping[str, Any]
    message: str


CASES = [
    Case("a bad key", {"apiKey": "schlüssel"}, f"{FILE}: apiKey: The key holds a character"),
    Case(
        "a bad key for another type",
        {"apiKey": "schlüssel", "apiTypeConfigFileName": "Claude"},
        f"{FILE}: apiKey: The key holds a character",
    ),
    Case("a bad address", {"endpoint": "http://x y"}, f"{FILE}: endpoint: "),
    Case("vectors", {"apiTypeConfigFileName": "Vectors"}, f"{FILE}: apiTypeConfigFileName: "),
    Case("a script", {"apiTypeConfigFileName": "Scripted", "script": "ecco"}, f"{FILE}: script: "),
    Case(
        "a rule",
        {"apiTypeConfigFileName": "Scripted", "rules": [{"match": "("}]},
        f"{FILE}: rules[0].match: ",
    ),
    Case("an unset variable", {"apiKey": "${NO_SUCH_KEY}"}, f"{FILE}: apiKey: "),
    Case("an unknown type", {"apiTypeConfigFileName": "Odd"}, "ApiTypes/Odd.json: type: "),
]


def tree_of(root: Path, **user: Any) -> Tree:
    tree = Tree(root, endpointConfigsSubDirectory="home", **user)
    for name, content in TYPES.items():
        tree.write(f"ApiTypes/{name}.json", content)
    return tree.workflow("assistant", [answers("deep/Main")])


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_the_file_is_named_with_its_folder(tmp_path: Path, case: Case) -> None:
    tree = tree_of(tmp_path).model("home/deep/Main", "http://127.0.0.1:1", **case.endpoint)
    with tree.serve() as live:
        heard = hear(live.chat(model="assistant"))

    assert heard.error is not None
    assert heard.error["code"] == "configuration_error"
    assert case.message in heard.error["message"]


def test_a_backup_of_the_same_name_in_another_folder_is_another_one(tmp_path: Path) -> None:
    with Upstream(refuses(503)) as one, Upstream() as two:
        tree = tree_of(tmp_path).model("home/deep/Main", one.url, backupEndpointName="Main")
        tree.model("home/Main", two.url)
        with tree.serve() as live:
            assert hear(live.chat(model="assistant")).said == ("ok", "stop")
            assert "circle" not in "".join(live.problems())


def test_a_backup_outside_is_named_with_its_folder(tmp_path: Path) -> None:
    with Upstream(refuses(503)) as one:
        tree = tree_of(tmp_path).model("home/deep/Main", one.url, backupEndpointName="deep/Cloud")
        tree.model("home/deep/Cloud", "https://8.8.8.8")
        with tree.serve() as live:
            heard = hear(live.chat(model="assistant"))

    assert heard.status == 503
    assert heard.error is not None
    assert "its backup 'Cloud' lies outside" in heard.error["message"]


def test_endpoints_of_one_name_have_slots_of_their_own(tmp_path: Path) -> None:
    """The slot of the first is taken while its backup, of the same name, is asked."""
    with Upstream(refuses(503)) as one, Upstream() as two:
        tree = tree_of(tmp_path).model(
            "home/deep/Main", one.url, backupEndpointName="Main", maxConcurrentRequests=1
        )
        tree.model("home/Main", two.url, maxConcurrentRequests=2)
        with tree.serve() as live:
            for _ in range(2):
                assert hear(live.chat(model="assistant")).said == ("ok", "stop")
            gates = live.parts.backends._gates

    assert {file: gate.slots for file, gate in gates.items()} == {
        FILE: 1,
        "Endpoints/home/Main.json": 2,
    }
