"""Parallel: branches of nodes that run at once (design §6)."""

from typing import Any

from pydantic import Field

from Middleware.core.errors import WorkflowError
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload


class ParallelOptions(NodeOptions):
    """Run branches of nodes at the same time, and go on when all have finished."""

    branches: tuple[tuple[str, ...], ...] = Field(min_length=1)
    """Ids of nodes of this file: a list for each branch, run in order. These nodes run here and
    nowhere else; their outputs are variables as usual."""


@node_type("Parallel", options=ParallelOptions)
class ParallelHandler(NodeHandler):
    """Gives out the texts of the branches, separated by a blank line; in data by node id."""

    def only_runs_others(self, options: Any) -> bool:
        return True

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        if context.run_branches is None:
            raise WorkflowError("its branches name no nodes of this file.")
        results = context.run_branches()
        texts = [str(payload) for _, payload in results]
        text = "\n\n".join(text for text in texts if text)
        data = dict(zip((id for id, _ in results), texts, strict=True))
        return WorkflowPayload(text, data, value=text)
