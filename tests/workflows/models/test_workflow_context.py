"""The context of a run as people, scripts and the editor read it (design §5, decisions §7)."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.events import Reply, Usage
from Middleware.core.messages import ToolCall
from Middleware.workflows.models.step_notes import StepNotes
from Middleware.workflows.models.workflow_context import (
    WorkflowContext,
    WorkflowPayload,
    WorkflowStep,
    pretty_json,
)


@dataclass(frozen=True)
class Case:
    id: str
    returned: Any
    content: str | None
    data: Any


CASES = [
    Case("text", "Hello", "Hello", []),
    Case("empty text", "", "", []),
    Case("nothing", None, None, []),
    Case("a whole number", 12, "12", []),
    Case("a fraction", 0.5, "0.5", []),
    Case("a truth", True, "True", []),
    Case("an object", {"claim": 12}, '{\n  "claim": 12\n}', {"claim": 12}),
    Case("an object with content", {"content": "Hi", "n": 1}, "Hi", {"content": "Hi", "n": 1}),
    Case("an object with a value", {"value": "Hi"}, "Hi", {"value": "Hi"}),
    Case(
        "content comes before value",
        {"value": "v", "content": "c"},
        "c",
        {"value": "v", "content": "c"},
    ),
    Case("a value that is a number", {"value": 5}, "5", {"value": 5}),
    Case(
        "content that is an object",
        {"content": {"a": 1}},
        '{\n  "a": 1\n}',
        {"content": {"a": 1}},
    ),
    Case("an empty object", {}, "{}", {}),
    Case("a list", [1, "two"], '[\n  1,\n  "two"\n]', [1, "two"]),
    Case("an empty list", [], "[]", []),
    Case("a tuple", (1, 2), "[\n  1,\n  2\n]", [1, 2]),
    Case("no ASCII", {"name": "Zoë 東京"}, '{\n  "name": "Zoë 東京"\n}', {"name": "Zoë 東京"}),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_a_payload_is_built_from_whatever_a_node_returns(case: Case) -> None:
    payload = WorkflowPayload.of(case.returned)

    assert payload.to_dict() == {"content": case.content, "data": case.data}
    assert list(payload.to_dict()) == ["content", "data"]
    assert str(payload) == (case.content or "")
    assert payload.value == case.returned


def test_a_payload_stays_the_payload_that_it_is() -> None:
    payload = WorkflowPayload.of({"a": 1})

    assert WorkflowPayload.of(payload) is payload


def test_values_that_json_does_not_know_become_text() -> None:
    assert pretty_json({"path": {1: Exception("gone")}}) == (
        '{\n  "path": {\n    "1": "gone"\n  }\n}'
    )


def test_a_models_answer_is_its_text() -> None:
    payload = WorkflowPayload.of_reply(Reply(text="Hello", reasoning="hm"))

    assert payload.to_dict() == {"content": "Hello", "data": []}
    assert payload.value == "Hello"


def test_an_answer_that_calls_tools_is_an_object_in_a_variable_and_text_in_a_prompt() -> None:
    call = ToolCall(id="call_1", name="weather", arguments='{"city": "Rome"}')
    reply = Reply(text="Let me see.", tool_calls=(call,), finish_reason="tool_calls")

    payload = WorkflowPayload.of_reply(reply)

    assert payload.reply is reply
    assert payload.value == {
        "content": "Let me see.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
            }
        ],
        "finish_reason": "tool_calls",
    }
    assert (str(payload), str(payload.value)) == ("Let me see.", "Let me see.")


def test_an_answer_that_only_calls_tools_has_no_text() -> None:
    call = ToolCall(id="call_1", name="weather", arguments="{}")

    payload = WorkflowPayload.of_reply(Reply(tool_calls=(call,), finish_reason="tool_calls"))

    assert (str(payload), str(payload.value)) == ("", "")


def test_a_step_is_the_example_of_the_decisions_byte_for_byte() -> None:
    step = WorkflowStep(
        node_name="node_php",
        output_data=WorkflowPayload.of({"claim": 12}),
        module_type="PythonCode",
        processing_time_ms=0.8,
    )

    assert json.dumps(step.to_dict()) == (
        r'{"nodeName": "node_php", '
        r'"outputData": {"content": "{\n  \"claim\": 12\n}", "data": {"claim": 12}}, '
        r'"meta": {"module_type": "PythonCode", "next_route": null}, '
        r'"thinking": null, "cost": null, "processingTimeMs": 0.8, "confidenceScore": null}'
    )


def test_keys_of_ours_stand_inside_meta() -> None:
    step = WorkflowStep(
        node_name="node_1",
        output_data=WorkflowPayload.of("yes"),
        module_type="IfElse",
        next_route="true",
        thinking="hm",
        cost=0.25,
        confidence_score=0.5,
        title="Is it so?",
        notes=StepNotes(
            endpoint="fast",
            usage=Usage(prompt_tokens=3, completion_tokens=1, estimated=True),
            attempts=2,
            child_run_id="r2",
        ),
    )

    assert step.to_dict() == {
        "nodeName": "node_1",
        "outputData": {"content": "yes", "data": []},
        "meta": {
            "module_type": "IfElse",
            "next_route": "true",
            "title": "Is it so?",
            "endpoint": "fast",
            "tokens": {"prompt": 3, "completion": 1, "total": 4, "estimated": True},
            "attempts": 2,
            "childRunId": "r2",
        },
        "thinking": "hm",
        "cost": 0.25,
        "processingTimeMs": None,
        "confidenceScore": 0.5,
    }


def test_a_new_context_has_the_defaults_of_the_design() -> None:
    assert json.dumps(WorkflowContext().to_dict()) == (
        '{"workflowRecord": null, "globalVariables": {}, "clearConversation": false, '
        '"currentStepNodeId": "", "error": null, "steps": []}'
    )


def test_contexts_share_nothing() -> None:
    first, second = WorkflowContext(), WorkflowContext()

    first.global_variables["a"] = 1
    first.add_to_history("node_1", "x")

    assert second.to_dict() == WorkflowContext().to_dict()


def test_a_context_shows_its_workflow_its_variables_and_its_steps() -> None:
    context = WorkflowContext(
        workflow_record={"name": "Claims", "folder": "bob", "hash": "ab12"},
        global_variables={"question": "Why?"},
        clear_conversation=True,
        current_step_node_id="node_1",
        error="Oh.",
    )
    step = WorkflowStep(
        node_name="node_1", output_data=WorkflowPayload.of("Because."), module_type="Standard"
    )
    context.steps.append(step)

    assert context.to_dict() == {
        "workflowRecord": {"name": "Claims", "folder": "bob", "hash": "ab12"},
        "globalVariables": {"question": "Why?"},
        "clearConversation": True,
        "currentStepNodeId": "node_1",
        "error": "Oh.",
        "steps": [step.to_dict()],
    }


def test_the_history_of_a_run_that_has_not_begun_is_empty() -> None:
    context = WorkflowContext()

    assert context.get_previous_step_output() is None
    assert context.get_history() == {}
    assert context.get_history("node_1") is None


def test_the_history_has_the_output_of_every_node_and_the_latest_of_one_that_ran_twice() -> None:
    context = WorkflowContext()

    context.add_to_history("node_a", "first")
    context.add_to_history("node_b", {"n": 1})
    context.add_to_history("node_a", "second")

    assert context.get_history() == {
        "node_a": WorkflowPayload.of("second"),
        "node_b": WorkflowPayload.of({"n": 1}),
    }
    assert str(context.get_history("node_a")) == "second"
    assert context.get_history("node_c") is None
    assert context.get_previous_step_output() == WorkflowPayload.of("second")
    assert [step.node_name for step in context.steps] == ["node_a", "node_b", "node_a"]
