"""Start (design §5): where a graph begins."""

from Middleware.config.models import Text
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload


class StartOptions(NodeOptions):
    """Begin with a global variable: the question, unless another one is named."""

    input_variable: Text = "question"
    """Name of the global variable that is the output."""


@node_type("Start", options=StartOptions)
class StartHandler(NodeHandler):
    has_side_effects = False

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        name = options_of(context, StartOptions).input_variable or "question"
        return WorkflowPayload.of(context.workflow_context.global_variables.get(name))
