import json
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from Middleware.core.messages import Caller
from Middleware.runs.rows import Sums, called, first_number, owner_of, to_json


class Silly:
    def __str__(self) -> str:
        raise ValueError("no words")


LOOP: list[Any] = []
LOOP.append(LOOP)


@dataclass(frozen=True)
class Case:
    id: str
    value: Any
    expected: Any


JSON = [
    Case("plain values", {"a": [1, "é", None, 1.5]}, {"a": [1, "é", None, 1.5]}),
    Case("a mapping", MappingProxyType({"a": 1}), {"a": 1}),
    Case("an object of somebody's code", {"a": Path("x")}, {"a": "x"}),
    Case("a number larger than any column", {"a": 10**30}, {"a": 10**30}),
    Case("a number that is none", {"a": float("nan"), "b": 10**30}, {"a": None, "b": 10**30}),
    Case("keys that are no text", {1: "a", (2, 3): "b"}, {"1": "a", "(2, 3)": "b"}),
    Case("half a character", {"a": "x\ud83d", "\udc00": 1}, {"a": "x?", "?": 1}),
    Case("what cannot say what it is", {"a": Silly()}, "[not recordable]"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in JSON])
def test_anything_becomes_json_that_sqlite_takes(case: Case) -> None:
    text = to_json(case.value)

    assert json.loads(text) == case.expected
    text.encode()


def test_a_list_that_holds_itself_becomes_json_all_the_same() -> None:
    assert json.loads(to_json(LOOP)) is not None


@pytest.mark.parametrize(
    ("workflow", "folder", "name"),
    [
        ("_DefaultWorkflow", "_shared/assistant", "assistant"),
        ("_DefaultWorkflow", "", "_DefaultWorkflow"),
        ("Child", "tester", "Child"),
    ],
)
def test_a_workflow_is_found_by_the_name_that_clients_use(
    workflow: str, folder: str, name: str
) -> None:
    assert called(workflow, folder) == name


@pytest.mark.parametrize(
    ("caller", "owner"),
    [
        (None, "alice/"),
        (Caller(user="bob", key_name="laptop"), "bob/laptop"),
        (Caller(user="", key_name="--api-key"), "alice/"),
    ],
    ids=["without keys", "with a key", "with the key of the command line"],
)
def test_a_run_belongs_to_the_key_that_started_it(caller: Caller | None, owner: str) -> None:
    assert owner_of(caller, "alice") == owner


def test_sums_know_the_difference_between_nothing_and_not_known() -> None:
    none, some = Sums(), Sums()
    some.add_tokens({"prompt": 1, "completion": 2, "estimated": True}, None)
    some.add_tokens({"prompt": 10, "completion": 20, "estimated": False}, 0.25)
    both = Sums()
    both.add(none)
    both.add(some)

    assert none.columns() == (None, None, None, None)
    assert both.columns() == some.columns() == (11, 22, 1, 0.25)


def test_numbers_are_in_the_order_of_time() -> None:
    assert first_number(1.0) < first_number(1.000002) < first_number(4102444800.0) < 1 << 63
