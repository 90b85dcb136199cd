"""`docs/back-ends-support.md` says what is so: its tables are those of the code and the tests."""

import json
import re
from pathlib import Path

import pytest

from Middleware.app import INSTALL
from Middleware.llm.backend import backend_types
from tests.fakes.vendors import SHIPPED, VENDORS, Vendor
from tests.scenarios.test_field_cases_back_ends import APPLIES

PAGE = (INSTALL / "docs" / "back-ends-support.md").read_text(encoding="utf-8")
TESTS = Path(__file__).resolve().parent
NOTHING = "\u2013"
NAMED = re.compile(r"`([\w/]+\.py|…)(?:::(test_\w+))?`")


def rows(first_heading: str) -> list[list[str]]:
    """The cells of a table, without its two first lines."""
    lines = PAGE[PAGE.index(f"| {first_heading} |") :].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def named_tests() -> list[tuple[str, str]]:
    """File and name of each test that the page names; the name may be empty."""
    found: list[tuple[str, str]] = []
    file = ""
    for path, name in NAMED.findall(PAGE):
        file = file if path == "…" else path
        found.append((file, name))
    return found


TYPES = {row[0].strip("`"): row[1:] for row in rows("Shipped file")}


def test_every_test_that_is_named_exists() -> None:
    named = named_tests()
    lacking = [
        f"{file}::{name}"
        for file, name in named
        if not (TESTS / file).is_file()
        or (name and f"def {name}(" not in (TESTS / file).read_text(encoding="utf-8"))
    ]

    assert len(named) > 15
    assert lacking == []


def test_every_shipped_type_has_a_row() -> None:
    shipped = {path.stem for path in SHIPPED.glob("*.json")} - {"Scripted"}

    assert TYPES.keys() == shipped
    types, told = [], ""
    for name, cells in TYPES.items():
        told = told if cells[0] == "the same" else cells[0].strip("`")
        types.append(told)
        assert json.loads((SHIPPED / f"{name}.json").read_text("utf-8"))["type"] == told
    # Old names of the same types stand below the table.
    unnamed = set(backend_types.names()) - {*types, "scripted"}
    assert all(name.endswith("ImageSpecific") for name in unnamed)


@pytest.mark.parametrize("vendor", VENDORS, ids=str)
def test_a_row_tells_what_the_tests_try(vendor: Vendor) -> None:
    _, kind, streams, tools, images, thinking, counts, schema = TYPES[vendor.id]

    assert kind == vendor.kind
    assert streams.startswith("always") is vendor.always_streams
    assert tools.startswith("yes") is ("tools" in vendor.tells)
    assert images == {"urls": "data, addresses", "data": "data", "": "no"}[vendor.images]
    assert (thinking != NOTHING) is ("reasoning" in vendor.tells)
    assert counts.startswith("yes") is ("usage" in vendor.tells)
    rule = vendor.file.get("structuredOutput")
    assert schema == f"`{rule['field']}`" if rule else schema.startswith(NOTHING)


def test_every_field_case_stands_in_the_table() -> None:
    told = {case for row in rows("Cases") for case in row[0].split(", ")}

    assert sorted(told) == list(APPLIES)
