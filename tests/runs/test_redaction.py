from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.messages import Message, ToolCall
from Middleware.runs.redaction import redacted_error, redacted_run, redacted_step, redacted_value
from Middleware.workflows.models.run import Run
from tests.fakes.recorded import a_step, used

SECRET = "the patient's name is Jane"
MARK = "[redacted: 26 characters]"


@dataclass(frozen=True)
class Case:
    id: str
    given: Any
    expected: Any


VALUES = [
    Case("a text", SECRET, MARK),
    Case("nothing", None, None),
    Case("an empty text", "", ""),
    Case("a number tells something too", 1234, "[redacted: 4 characters]"),
    Case("yes and no stay", True, True),
    Case("an object keeps its keys", {"a": [SECRET], "b": None}, {"a": [MARK], "b": None}),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in VALUES])
def test_of_a_value_its_length_is_left(case: Case) -> None:
    assert redacted_value(case.given) == case.expected


PLACE = "Workflow 'a', node 'b': "
ERRORS = [
    Case("ours", SECRET, MARK),
    Case("its place", PLACE + SECRET, PLACE + MARK),
    Case(
        "a model server's words",
        f"{PLACE}Endpoint 'Main' answered 400: {SECRET}",
        f"{PLACE}Endpoint 'Main' answered 400: {MARK}",
    ),
    Case(
        "an endpoint alone",
        "Endpoint 'Main' sent nothing for 5 s.",
        "Endpoint 'Main' sent nothing [redacted: 8 characters]",
    ),
    Case("nothing", None, None),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in ERRORS])
def test_of_an_error_it_is_left_where_it_was_and_its_status(case: Case) -> None:
    assert redacted_error(case.given) == case.expected


def test_a_step_keeps_counts_times_and_names_and_no_words() -> None:
    call = ToolCall(id="c1", name="find", arguments=SECRET)
    step = a_step(
        "node_1",
        {"name": SECRET},
        endpoint="Main",
        resolved_prompt=(
            Message("user", SECRET, images=(SECRET,)),
            Message("assistant", "", tool_calls=(call,)),
        ),
        usage=used(3, 4),
        cost=0.5,
        thinking=SECRET,
        child_run_id="r2",
        attempts=2,
        error=SECRET,
        first_token_ms=1.0,
    )

    shown = redacted_step(step.to_dict())

    assert SECRET not in str(shown)
    assert "Jane" not in str(shown)
    assert shown["outputData"]["data"] == {}
    assert shown["thinking"] == MARK
    assert shown["cost"] == 0.5
    assert shown["meta"]["resolvedPrompt"][0]["role"] == "user"
    assert shown["meta"]["resolvedPrompt"][0]["content"] == MARK
    kept = {"module_type", "next_route", "endpoint", "tokens", "attempts", "childRunId"}
    assert {key: shown["meta"][key] for key in kept} == {
        "module_type": "Standard",
        "next_route": None,
        "endpoint": "Main",
        "tokens": {"prompt": 3, "completion": 4, "total": 7, "estimated": False},
        "attempts": 2,
        "childRunId": "r2",
    }


def test_what_nobody_knows_to_be_harmless_is_taken_out_of_a_step() -> None:
    step = a_step("node_1", "x").to_dict()
    step["meta"]["newKey"] = {"deep": [SECRET]}

    assert redacted_step(step)["meta"]["newKey"] == {"deep": [MARK]}


def test_a_run_loses_its_variables_its_answer_and_its_error() -> None:
    run = Run(id="r1", workflow="w", folder="f", user="tester", partial_text=SECRET)
    run.context.global_variables["question"] = SECRET
    run.context.error = SECRET
    run.context.steps.append(a_step("node_1", SECRET))

    shown = redacted_run(run.to_dict())

    assert "Jane" not in str(shown)
    assert shown["partialText"] == shown["error"] == MARK
    assert shown["context"]["globalVariables"] == {"question": MARK}
    assert shown["workflow"] == "w"
    assert run.context.global_variables["question"] == SECRET
