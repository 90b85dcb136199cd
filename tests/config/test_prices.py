import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from Middleware.app import INSTALL
from Middleware.config.check import check_files
from Middleware.config.prices import NO_PRICES, Prices
from Middleware.core.events import Usage
from tests.fakes.headrace import Tree

PRICES = Prices.model_validate(
    {
        "models": {
            "small": {"inputPerMillion": 1, "outputPerMillion": 2},
            "small*": {"inputPerMillion": 3, "outputPerMillion": 0},
            "small-[1]*": {"inputPerMillion": 4, "outputPerMillion": 0},
            "*": {"inputPerMillion": "5", "outputPerMillion": "0"},
        }
    }
)


@dataclass(frozen=True)
class Case:
    id: str
    model: str
    input_price: float


CASES = [
    Case("its own name", "small", 1),
    Case("a pattern", "small-2", 3),
    Case("the longest pattern, in which brackets are brackets", "small-[1]-x", 4),
    Case("any other", "large", 5),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_a_price_is_found(case: Case) -> None:
    price = PRICES.price(case.model)

    assert price is not None
    assert price.input_per_million == case.input_price


def test_what_nobody_has_named_has_no_price() -> None:
    assert NO_PRICES.price("small") is None


def test_a_call_costs_what_its_tokens_cost() -> None:
    price = PRICES.price("small")

    assert price is not None
    assert price.of(Usage(prompt_tokens=1_000_000, completion_tokens=500_000)) == 2.0


def test_the_shipped_examples_are_valid_by_the_schema_that_they_name() -> None:
    folder = INSTALL / "Public" / "Configs"
    file = json.loads((folder / "Prices.json").read_text(encoding="utf-8"))
    schema = json.loads((folder / file["$schema"]).read_text(encoding="utf-8"))

    assert [*Draft7Validator(schema).iter_errors(file)] == []
    assert Prices.model_validate(file).price("claude-sonnet-4-5") is not None


FILE: Any = {"models": {"m": {"inputPerMillion": 1, "outputPerMillion": 2}}}


def test_a_file_is_found_and_an_edit_is_seen(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    with tree.serve() as live:
        store = live.parts.store
        assert store.snapshot().prices() is NO_PRICES

        tree.write("Prices.json", FILE)
        tree.clock.advance(2)
        prices = store.snapshot().prices()
        assert prices.price("m") is not None
        tree.clock.advance(2)
        assert store.snapshot().prices() is prices

        tree.write("Prices.json", {"models": {}})
        tree.clock.advance(2)
        assert store.snapshot().prices().price("m") is None


@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        ("{", "bad_syntax", ""),
        ({"models": {"m": {"inputPerMillion": -1}}}, "invalid_value", "models.m.inputPerMillion"),
        ({"model": {}}, "unknown_key", "model"),
    ],
    ids=["no JSON", "a price below nothing", "a key of another name"],
)
def test_a_broken_file_costs_nothing_but_is_told(
    tmp_path: Path, content: Any, code: str, place: str
) -> None:
    tree = Tree(tmp_path).write("Prices.json", content)
    with tree.serve() as live:
        assert live.parts.store.snapshot().prices().price("m") is None
        problems = [one for one in check_files(live.parts.store) if one.file == "Prices.json"]

    assert (code, place) in {(one.code, one.place if place else "") for one in problems}
