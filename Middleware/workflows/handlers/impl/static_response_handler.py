"""StaticResponse (nodes §8)."""

from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload


class StaticResponseOptions(NodeOptions):
    """Answer with a text of your own; variables in it are filled in."""

    content: str = ""
    """The text."""


@node_type("StaticResponse", options=StaticResponseOptions)
class StaticResponseHandler(NodeHandler):
    has_side_effects = False

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, StaticResponseOptions)
        return WorkflowPayload.of(context.render(options.content))
