"""The small nodes that only look at texts: arithmetic, JSON, tags, parts, conditions."""

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.workflows.handlers.setups import said


@dataclass(frozen=True)
class Case:
    id: str
    kind: str
    config: dict[str, Any]
    expected: str
    given: dict[str, Any] = field(default_factory=dict)


def calculates(expression: Any, expected: str, **given: Any) -> Case:
    return Case(
        f"calculate {expression!r}",
        "ArithmeticProcessor",
        {"expression": expression},
        expected,
        given,
    )


def extracts(id: str, text: str, name: str, expected: str, **given: Any) -> Case:
    config = {"jsonToExtractFrom": text, "fieldToExtract": name}
    return Case(f"JSON: {id}", "JsonExtractor", config, expected, given)


def tagged(id: str, text: str, expected: str, *outputs: str, **config: Any) -> Case:
    config = {"tagToExtractFrom": text, "fieldToExtract": "plan", **config}
    return Case(f"tag: {id}", "TagTextExtractor", config, expected, {"outputs": outputs})


def cut(id: str, expected: str, *outputs: str, **config: Any) -> Case:
    config = {"content": "a;b;c;d", "delimiter": ";", "mode": "head", "count": 2, **config}
    return Case(f"cut: {id}", "DelimitedChunker", config, expected, {"outputs": outputs})


def asks(condition: Any, expected: str, *outputs: Any, **config: Any) -> Case:
    return Case(
        f"condition {condition!r} {outputs}",
        "Conditional",
        {"condition": condition, **config},
        expected,
        {"outputs": outputs},
    )


FENCED = '```json\n{"verdict": "yes"}\n```'
CASES = [
    asks(
        "('{agent1Output}' == 'yes' OR {agent3Output} >= 10) AND {agent2Output} == TRUE",
        "TRUE",
        "no",
        "TRUE",
        "12",
    ),
    asks("{agent1Output} == 'hello world'", "TRUE", "hello world"),
    asks("'{agent1Output}' == 'yes'", "FALSE", "x' OR 'y"),
    asks("{agent1Output} == 5", "TRUE", 5),
    asks("{agent1Output[ok]} == TRUE", "TRUE", {"ok": True}),
    asks("{{ agent1Output }} > 3", "TRUE", "5", jinja2=True),
    asks("", "FALSE"),
    asks(None, "FALSE"),
    calculates("2 + 3", "5"),
    calculates("2+3", "5"),
    calculates("  7 /2 ", "3.5"),
    calculates("6 / 3", "2"),
    calculates("0.1 + 0.2", "0.30000000000000004"),
    calculates("-2 * -3", "6"),
    calculates("2 - -3", "5"),
    calculates("2 --3", "5"),
    calculates("0 * -5", "0"),
    calculates("٣ + 1", "4"),
    calculates("9007199254740993 + 0", "9007199254740992"),
    calculates("5 / 0", "-1"),
    calculates("+1 + 1", "-1"),
    calculates(".5 + 1", "-1"),
    calculates("1e3 + 1", "-1"),
    calculates("1 + 2 + 3", "-1"),
    calculates("(1 + 2)", "-1"),
    calculates("5 % 2", "-1"),
    calculates("2 ** 3", "-1"),
    calculates("1,000 + 1", "-1"),
    calculates("7", "-1"),
    calculates("", "-1"),
    calculates(None, "-1"),
    calculates("{agent1Output} + 1", "42", outputs=["41"]),
    calculates("{agent1Output} + 1", "42", outputs=[41]),
    calculates("{agent1Output} + 1", "-1", outputs=["many"]),
    extracts("a text", '{{"verdict": "yes"}}', "verdict", "yes"),
    extracts("from an output", "{agent1Output}", "verdict", "yes", outputs=['{"verdict": "yes"}']),
    extracts(
        "the name may be a variable",
        "{agent1Output}",
        "{agent2Output}",
        "yes",
        outputs=['{"v": "yes"}', "v"],
    ),
    extracts("in a fence", "{agent1Output}", "verdict", "yes", outputs=[FENCED]),
    extracts(
        "in a fence in capitals",
        "{agent1Output}",
        "verdict",
        "yes",
        outputs=[FENCED.replace("json", "JSON")],
    ),
    extracts(
        "in a fence without a word",
        "{agent1Output}",
        "verdict",
        "yes",
        outputs=[FENCED.replace("json", "")],
    ),
    extracts("a whole number", "{agent1Output}", "n", "3", outputs=['{"n": 3}']),
    extracts("a fraction", "{agent1Output}", "n", "1.5", outputs=['{"n": 1.5}']),
    extracts("a truth value", "{agent1Output}", "n", "True", outputs=['{"n": true}']),
    extracts("null", "{agent1Output}", "n", "", outputs=['{"n": null}']),
    extracts(
        "an object, non-ASCII escaped",
        "{agent1Output}",
        "n",
        '{"k": "\\u00e9"}',
        outputs=['{"n": {"k": "é"}}'],
    ),
    extracts("a list", "{agent1Output}", "n", '[1, "a"]', outputs=['{"n": [1, "a"]}']),
    extracts("a text keeps its letters", "{agent1Output}", "n", "é", outputs=['{"n": "é"}']),
    extracts(
        "a dot is part of the name",
        "{agent1Output}",
        "a.b",
        "1",
        outputs=['{"a.b": 1, "a": {"b": 2}}'],
    ),
    extracts("a missing field", "{agent1Output}", "x", "", outputs=['{"n": 1}']),
    extracts("no JSON", "{agent1Output}", "n", "", outputs=["n: 1"]),
    extracts("text around the JSON", "{agent1Output}", "n", "", outputs=['Here: {"n": 1}']),
    extracts("a list as the root", "{agent1Output}", "n", "", outputs=["[1]"]),
    extracts("a number as the root", "{agent1Output}", "n", "", outputs=["1"]),
    extracts("nested too deep", "{agent1Output}", "n", "", outputs=["[" * 100_000]),
    extracts("no text named", "", "n", ""),
    extracts("no field named", "{agent1Output}", "", "", outputs=['{"": 1}']),
    tagged("the first pair", "<plan> a </plan><plan>b</plan>", "a"),
    tagged("across lines", "x<plan>\n a\n b\n</plan>y", "a\n b"),
    tagged("the shortest", "<plan>a</plan> b</plan>", "a"),
    tagged("case counts", "<Plan>a</Plan>", ""),
    tagged("attributes do not match", '<plan id="1">a</plan>', ""),
    tagged("never closed", "<plan>a", ""),
    tagged("nothing there", "a", ""),
    tagged("a default", "a", "go on", "go", defaultText="{agent1Output} on"),
    tagged(
        "blank takes the default, a later one is not tried",
        "<plan> </plan><plan>b</plan>",
        "d",
        defaultText="d",
    ),
    tagged("a value is searched", "{agent1Output}", "b", "a<plan>b</plan>"),
    tagged("the name is literal", "<p.an>x</p.an><plan>y</plan>", "y"),
    tagged("the name of a variable", "<why>a</why>", "a", "why", fieldToExtract="{agent1Output}"),
    tagged("no text: the default is not used", "", "", defaultText="d"),
    tagged("no name: the default is not used", "x", "", fieldToExtract="", defaultText="d"),
    cut("the first parts", "a;b"),
    cut("the last parts", "c;d", mode="tail"),
    cut("as many as there are", "a;b;c;d", count=4),
    cut("more than there are", "a;b;c;d", count=9),
    cut("a delimiter that is not there", "a;b;c;d", delimiter="|"),
    cut("a delimiter of several characters", "a", delimiter=";b", count=1),
    cut(
        "variables in both",
        "x",
        "x, y",
        ", ",
        content="{agent1Output}",
        delimiter="{agent2Output}",
        count=1,
    ),
    cut("an empty content", "", "", content="{agent1Output}"),
    cut("a content that is empty as written", "", content=""),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES])
def test_the_output(case: Case) -> None:
    assert said(case.kind, case.config, **case.given) == case.expected


@dataclass(frozen=True)
class Mistake:
    id: str
    config: dict[str, Any]
    named: str


MISTAKES = [
    Mistake("no content", {"content": None}, "`content` is missing"),
    Mistake("no delimiter", {"delimiter": None, "mode": None}, "`delimiter` is missing"),
    Mistake("no mode", {"mode": None, "count": None}, "`mode` is missing"),
    Mistake("no count", {"count": None, "mode": "middle"}, "`count` is missing"),
    Mistake("a count that is a text", {"count": "2"}, "`count` must be a whole number"),
    Mistake("a count that is a truth value", {"count": True}, "`count` must be a whole number"),
    Mistake("a count of nothing", {"count": 0, "mode": "middle"}, "`count` must be at least 1"),
    Mistake("an unknown mode", {"mode": "middle"}, "`mode` must be head or tail"),
    Mistake(
        "a delimiter that turns out empty", {"delimiter": "{agent1Output}"}, "`delimiter` is empty"
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in MISTAKES])
def test_a_mistake_of_the_chunker_is_its_output_and_an_error_in_the_log(
    case: Mistake, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"content": "a;b", "delimiter": ";", "mode": "head", "count": 1, **case.config}

    with caplog.at_level(logging.ERROR):
        text = said("DelimitedChunker", config, outputs=[""])

    assert case.named in text
    assert case.named in caplog.text
