from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.errors import WorkflowError
from Middleware.core.events import Finish, TextDelta, collect
from Middleware.workflows.handlers.impl.sub_workflow_handler import SubWorkflowHandler
from Middleware.workflows.models.execution_context import ExecutionContext
from tests.fakes.workflow_runner import RecordingRunner

SAID = (TextDelta("42"), Finish("stop"))


def context_of(
    config: dict[str, Any],
    runner: RecordingRunner | None = None,
    *,
    stream: bool = False,
    **values: Any,
) -> ExecutionContext:
    return ExecutionContext(
        config=config,
        stream=stream,
        request_id="r1",
        workflow_manager=runner or RecordingRunner(*SAID),
        **values,
    )


def test_a_child_gets_rendered_inputs_and_its_answer_is_ours() -> None:
    runner = RecordingRunner(*SAID)
    context = context_of(
        {
            "type": "CustomWorkflow",
            "workflowName": "Maths",
            "scoped_variables": ["{agent1Output}", 7],
        },
        runner,
        agent_outputs={"agent1Output": "six times seven"},
    )

    payload = SubWorkflowHandler().handle(context)

    assert str(payload) == "42"
    assert runner.asked == [
        {
            "workflow_name": "Maths",
            "request_id": "r1",
            "discussion_id": None,
            "messages": (),
            "non_responder": True,
            "is_streaming": False,
            "first_node_system_prompt_override": None,
            "first_node_prompt_override": None,
            "scoped_inputs": ["six times seven", "7"],
            "workflow_user_folder_override": None,
            "request_scope": None,
        }
    ]


def test_a_streaming_parent_streams_its_child() -> None:
    runner = RecordingRunner(*SAID)
    context = context_of({"type": "CustomWorkflow", "workflowName": "Maths"}, runner, stream=True)

    events = SubWorkflowHandler().handle(context)

    assert list(events) == list(SAID)  # type: ignore[arg-type]
    assert (runner.asked[0]["non_responder"], runner.asked[0]["is_streaming"]) == (None, True)


@dataclass(frozen=True)
class Overrides:
    id: str
    config: dict[str, Any]
    expected: tuple[str | None, str | None]


OVERRIDES = [
    Overrides("none", {}, (None, None)),
    Overrides(
        "short names",
        {"systemPromptOverride": "S {agent1Output}", "promptOverride": "P"},
        ("S one", "P"),
    ),
    Overrides(
        "the long name wins",
        {"firstNodePromptOverride": "long", "promptOverride": "short"},
        (None, "long"),
    ),
    Overrides(
        "an empty long name is none, and wins",
        {"firstNodeSystemPromptOverride": "", "systemPromptOverride": "short"},
        (None, None),
    ),
]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in OVERRIDES])
def test_overrides_come_with_what_the_stream_flag_says(case: Overrides, stream: bool) -> None:
    context = context_of(case.config, stream=stream, agent_outputs={"agent1Output": "one"})

    prepared = SubWorkflowHandler()._prepare_workflow_overrides(context)

    assert prepared == (*case.expected, None if stream else True, stream)


def test_overrides_of_a_route_are_taken_instead_of_the_nodes_own() -> None:
    context = context_of({"promptOverride": "of the node"})

    prepared = SubWorkflowHandler()._prepare_workflow_overrides(
        context, {"promptOverride": "of the route"}
    )

    assert prepared == (None, "of the route", True, False)


@dataclass(frozen=True)
class Route:
    id: str
    key: str
    workflow: str | None
    prompt: str | None = None
    config: dict[str, Any] | None = None


WORKFLOWS = {"Python": "Py", " javascript ": "Js", "Default": "Other", "empty": ""}
ROUTE_OVERRIDES = {
    "Python": {"promptOverride": "snake"},
    "javascript": {"promptOverride": "never found"},
    "JavaScript": {"promptOverride": "never found either"},
    "Default": {"promptOverride": "any"},
}
ROUTES = [
    Route("keys match without case and white space", "  PYTHON\n", "Py", "snake"),
    Route("keys of the map are trimmed; other spellings of overrides are lost", "JavaScript", "Js"),
    Route("no match runs the default, with its override", "rust", "Other", "any"),
    Route("an empty workflow name is no match", "empty", "Other", "any"),
    Route("the key may be 'default' itself", "Default", "Other", "any"),
    Route("an empty key", "", "Other", "any"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in ROUTES])
def test_a_key_chooses_the_workflow(case: Route) -> None:
    runner = RecordingRunner(*SAID)
    context = context_of(
        {
            "type": "ConditionalCustomWorkflow",
            "conditionalKey": "{agent1Output}",
            "conditionalWorkflows": WORKFLOWS,
            "routeOverrides": ROUTE_OVERRIDES,
            "promptOverride": "outside of routeOverrides: ignored",
        },
        runner,
        agent_outputs={"agent1Output": case.key},
    )

    SubWorkflowHandler().handle(context)

    asked = runner.asked[0]
    assert (asked["workflow_name"], asked["first_node_prompt_override"]) == (
        case.workflow,
        case.prompt,
    )


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_default_content_is_said_when_nothing_matches_and_no_workflow_runs(stream: bool) -> None:
    runner = RecordingRunner(*SAID)
    context = context_of(
        {
            "type": "ConditionalCustomWorkflow",
            "conditionalKey": "x",
            "conditionalWorkflows": {"Default": "Other"},
            "UseDefaultContentInsteadOfWorkflow": "Sorry, no {agent1Output} here.",
        },
        runner,
        stream=stream,
        agent_outputs={"agent1Output": "luck"},
    )

    said = SubWorkflowHandler().handle(context)

    text = collect(said).text if stream else str(said)  # type: ignore[arg-type]
    assert text == "Sorry, no luck here."
    assert runner.asked == []


def test_an_empty_default_content_says_nothing() -> None:
    context = context_of(
        {
            "type": "ConditionalCustomWorkflow",
            "conditionalKey": "x",
            "UseDefaultContentInsteadOfWorkflow": "",
        }
    )

    assert str(SubWorkflowHandler().handle(context)) == ""


def test_no_route_and_no_default_is_an_error_that_names_the_routes() -> None:
    context = context_of(
        {
            "type": "ConditionalCustomWorkflow",
            "conditionalKey": "Rust",
            "conditionalWorkflows": {"Python": "Py"},
        }
    )

    with pytest.raises(WorkflowError) as caught:
        SubWorkflowHandler().handle(context)

    assert "'rust'" in caught.value.message
    assert "'python'" in caught.value.message
