from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.workflows.output.json_schema import NoSchema, SchemaCheck, without_fence
from tests.fakes.upstream import Upstream, whole

PERSON = {
    "type": "object",
    "properties": {"age": {"type": "integer"}, "tags": {"items": {"type": "string"}}},
    "required": ["age"],
}


@dataclass(frozen=True)
class Case:
    id: str
    text: str
    problems: tuple[str, ...] = ()
    kept: str | None = None


CASES = [
    Case("right", '{"age": 7}'),
    Case("wrong type", '{"age": "x"}', ("age: 'x' is not of type 'integer'",)),
    Case("missing", "{}", ("the whole: 'age' is a required property",)),
    Case("deep", '{"age": 1, "tags": ["a", 2]}', ("tags.1: 2 is not of type 'string'",)),
    Case("a fence", '```json\n{"age": 7}\n```', kept='{"age": 7}'),
    Case("a fence without a word", ' ```\n{"age": 7}\n```\n', kept='{"age": 7}'),
    Case("an unfinished fence", '```json\n{"age": 7}', ("it is no JSON",)),
    Case("words around it", 'Here: {"age": 7}', ("it is no JSON",)),
    Case("nothing", "", ("it is no JSON",)),
    Case("another kind", "[7]", ("the whole: [7] is not of type 'object'",)),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES])
def test_an_answer_is_checked(case: Case) -> None:
    checked = SchemaCheck(PERSON).check(case.text)

    assert [
        problem[: len(want)] for problem, want in zip(checked.problems, case.problems, strict=True)
    ] == list(case.problems)
    if case.kept is not None:
        assert checked.text == case.kept


def test_only_the_first_mistakes_are_told() -> None:
    check = SchemaCheck({"items": {"type": "string"}})

    assert len(check.check("[1, 2, 3, 4, 5, 6, 7]").problems) == 5


@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"properties": 1}], ids=str)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(NoSchema):
        SchemaCheck(schema)


def test_nothing_is_fetched_for_a_schema() -> None:
    with Upstream(whole({"type": "object"})) as server:
        with pytest.raises(NoSchema, match="not in it"):
            SchemaCheck({"$ref": f"{server.url}/x.json"}).check("{}")

        assert server.asked == []


@pytest.mark.parametrize("reference", ["file:///etc/passwd", "#/$defs/none", "other.json"])
def test_references_are_not_followed_out_of_the_schema(reference: str) -> None:
    with pytest.raises(NoSchema, match="not in it"):
        SchemaCheck({"$ref": reference}).check("{}")


def test_a_schema_may_refer_to_itself_and_name_an_older_standard() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"n": {"type": "integer"}},
        "properties": {"a": {"$ref": "#/definitions/n"}, "b": {"$ref": "#"}},
    }

    assert SchemaCheck(schema).check('{"a": 1, "b": {"a": 2}}').problems == ()
    assert SchemaCheck(schema).check('{"b": {"a": "x"}}').problems == (
        "b.a: 'x' is not of type 'integer'",
    )


def test_what_is_nested_too_deeply_is_a_mistake_and_no_crash() -> None:
    check = SchemaCheck({"properties": {"a": {"$ref": "#"}}})
    deep = '{"a":' * 2000 + "1" + "}" * 2000

    assert len(check.check(deep).problems) == 1


def test_text_without_a_fence_stays_as_it_is() -> None:
    assert without_fence(" plain ") == "plain"
