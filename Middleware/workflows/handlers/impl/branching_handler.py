"""IfElse and Switch (design §5): nodes whose output is the route to take."""

from typing import Any

from pydantic import Field

from Middleware.config.models import Text
from Middleware.workflows.handlers.base.conditions import evaluate
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

DEFAULT_ROUTE = "default"


class IfElseOptions(NodeOptions):
    """Go on along the route `true` or `false`, as a condition says.

    The condition is written as that of a Conditional node.
    """

    condition: Text = Field(min_length=1)
    """Text with variables: ``'{agent1Output}' == 'yes'``, ``{agent2Output} > 3 AND TRUE``."""


class SwitchOptions(NodeOptions):
    """Go on along the first route whose case holds, else along `default`.

    Without `value` each case is a condition, written as that of a Conditional node. With `value`
    each case is a text, and holds when it equals the value; case and white space around do not
    count.
    """

    value: str | None = None
    """Text with variables that the cases are compared with; without it they are conditions."""
    cases: dict[str, str] = Field(min_length=1)
    """Name of a route -> its case; looked at in the order of the file."""


@node_type("IfElse", options=IfElseOptions)
class IfElseHandler(NodeHandler):
    has_side_effects = False

    def routes(self, options: Any) -> tuple[str, ...]:
        return ("true", "false")

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        holds = evaluate(context.pieces(options_of(context, IfElseOptions).condition))
        return _along(context, "true" if holds else "false")


@node_type("Switch", options=SwitchOptions)
class SwitchHandler(NodeHandler):
    has_side_effects = False

    def routes(self, options: Any) -> tuple[str, ...]:
        return tuple(options.cases)

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, SwitchOptions)
        value = None if options.value is None else _plain(context.render(options.value))
        for route, case in options.cases.items():
            if value is None:
                holds = evaluate(context.pieces(case))
            else:
                holds = _plain(context.render(case)) == value
            if holds:
                return _along(context, route)
        return _along(context, DEFAULT_ROUTE)


def _along(context: ExecutionContext, route: str) -> WorkflowPayload:
    context.step.next_route = route
    return WorkflowPayload.of(route)


def _plain(text: str) -> str:
    return text.strip().casefold()
