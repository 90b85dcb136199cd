"""Conditional (nodes §5)."""

from Middleware.config.models import Text
from Middleware.workflows.handlers.base.conditions import evaluate
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload


class ConditionalOptions(NodeOptions):
    """Ask whether a condition holds: TRUE or FALSE.

    Comparisons (``== != > < >= <=``) of words, numbers and quoted texts, joined by AND, OR and
    parentheses; AND binds tighter. ``'5' == 5`` is false, for one is a text and one a number;
    ``{agent1Output} == 5`` holds for the text 5, because an unquoted variable stands for what
    its text looks like. An empty text, 0 and FALSE alone do not hold, every other value does. A
    condition that cannot be read is FALSE.
    """

    condition: Text = ""
    """``('{agent1Output}' == 'yes' OR {agent3Output} >= 10) AND {agent2Output} == TRUE``"""


@node_type("Conditional", options=ConditionalOptions)
class ConditionalHandler(NodeHandler):
    has_side_effects = False

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, ConditionalOptions)
        holds = evaluate(context.pieces(options.condition))
        return WorkflowPayload.of("TRUE" if holds else "FALSE")
