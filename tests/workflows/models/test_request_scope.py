from dataclasses import dataclass
from typing import Any, cast

import pytest

from Middleware.config.models import User
from Middleware.core.errors import WorkflowTooDeep
from Middleware.core.events import Usage
from Middleware.workflows.models.request_scope import ClientParameters, RequestScope, Totals
from Middleware.workflows.models.step_notes import StepNotes


@dataclass(frozen=True)
class Configured:
    """The part of a snapshot of the configuration that a scope looks at."""

    user: User


def scope(max_depth: int = 16) -> RequestScope:
    user = User(max_workflow_depth=max_depth)
    return RequestScope(config=cast(Any, Configured(user)), backends=cast(Any, None))


def test_a_workflow_may_be_nested_as_deep_as_the_user_allows() -> None:
    inside = scope(max_depth=2).enter("Outer").enter("Inner")

    assert inside.chain == ("Outer", "Inner")
    with pytest.raises(WorkflowTooDeep) as caught:
        inside.enter("Outer")
    assert "more than 2 deep: Outer -> Inner -> Outer" in caught.value.message


def test_entering_a_workflow_leaves_the_outer_scope_as_it_is() -> None:
    outer = scope().enter("Outer")

    outer.enter("One")
    two = outer.enter("Two")

    assert (outer.chain, two.chain) == (("Outer",), ("Outer", "Two"))


def test_all_runs_of_a_request_share_its_totals_its_parameters_and_its_cancel_token() -> None:
    outer = scope()

    child = outer.below(StepNotes(), "r1", answers_client=False).enter("Child")

    assert child.totals is outer.totals
    assert child.parameters is outer.parameters
    assert child.cancel is outer.cancel


def test_a_child_knows_the_step_and_the_run_that_started_it() -> None:
    step = StepNotes()

    child = scope().below(step, "r1", answers_client=False)

    assert child.parent_step is step
    assert (child.parent_run_id, child.answers_client) == ("r1", False)


def test_parameters_that_no_backend_was_given_are_named_in_the_order_of_the_request() -> None:
    parameters = ClientParameters({"temperature": 0.5, "seed": 1, "foo": 2})

    parameters.used.add("seed")

    assert parameters.unused() == ("temperature", "foo")


def test_totals_are_unknown_until_one_node_tells() -> None:
    totals = Totals()

    totals.add(None)
    before = totals.usage
    totals.add(Usage(prompt_tokens=1, completion_tokens=2))
    totals.add(Usage(prompt_tokens=1, completion_tokens=2))

    assert before is None
    assert totals.usage == Usage(prompt_tokens=2, completion_tokens=4)
