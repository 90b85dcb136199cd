import logging
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.workflows.variables.early import EARLY_NUMBERS, early_number, resolve_early

WORKFLOW = {"Model": "m-{agent1Input}", "both": "workflow", "Size": 8000, "a": "1", "out": "low"}
INPUTS = {"agent1Input": "big", "both": "input", "agent2Input": "{Model}"}
USER = {"Model": "user", "Mine": "mine", "out": "user"}
OUTPUTS = {"agent1Output": "fast", "both": "output"}
SOURCES: dict[str, Any] = {
    "workflow_variables": WORKFLOW,
    "agent_inputs": INPUTS,
    "user_variables": USER,
    "agent_outputs": OUTPUTS,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Plain", "Plain"),
        ("}} stays", "}} stays"),
        ("{Model}", "m-big"),
        ("{Model} {nope}", "m-big {nope}"),
        ("{both}", "input"),
        ("{agent1Output}", "fast"),
        ("{Mine}", "mine"),
        ("{agent2Input}", "{Model}"),
        (
            "{todays_date_iso} {Discussion_Id} {messages}",
            "{todays_date_iso} {Discussion_Id} {messages}",
        ),
        ("{{Model}}", "{Model}"),
        ("{ broken", "{ broken"),
    ],
)
def test_early_text(text: str, expected: str) -> None:
    assert resolve_early(text, **SOURCES) == expected


@dataclass(frozen=True)
class Number:
    id: str
    name: str
    value: Any
    expected: int | float | None
    logged: int | None = None


NUMBERS = [
    Number("absent", "limit", None, None),
    Number("number", "limit", 7, 7),
    Number("boolean", "limit", True, True),
    Number("fraction is cut", "limit", 7.9, 7),
    Number("text", "limit", "5000", 5000),
    Number("text with a fraction", "limit", " 7.5 ", 7),
    Number("variable", "maxResponseSizeInTokens", "{Size}", 8000),
    Number("part of it", "limit", "{a}0", 10),
    Number("no number", "limit", "many", 5, logging.WARNING),
    Number("unknown variable", "maxResponseSizeInTokens", "{nope}", 400, logging.WARNING),
    Number("no finite number", "limit", "inf", 5, logging.WARNING),
    Number("a list", "limit", [1], 5, logging.WARNING),
    Number("no number and no default", "maxTurnsToPull", "many", None, logging.ERROR),
    Number("percentile", "percentile", "0.25", 0.25),
    Number("whole percentile", "percentile", 1, 1.0),
    Number("no percentile", "percentile", "x", 0.5, logging.WARNING),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in NUMBERS])
def test_early_number(case: Number, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        number = early_number(case.name, case.value, **SOURCES)

    assert (number, type(number)) == (case.expected, type(case.expected))
    assert [record.levelno for record in caplog.records] == ([case.logged] if case.logged else [])


def test_the_list_of_numbers_is_the_specification_s() -> None:
    assert len(EARLY_NUMBERS) == 28
