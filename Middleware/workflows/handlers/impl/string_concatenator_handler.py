"""StringConcatenator (nodes §7)."""

import logging
from typing import Any

from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

logger = logging.getLogger(__name__)


class StringConcatenatorOptions(NodeOptions):
    """Join texts with a delimiter; variables in them are filled in."""

    strings: Any = ()
    """A list of texts."""
    delimiter: str = ""
    """What stands between them."""


@node_type("StringConcatenator", options=StringConcatenatorOptions)
class StringConcatenatorHandler(NodeHandler):
    has_side_effects = False

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, StringConcatenatorOptions)
        if not isinstance(options.strings, list | tuple):
            logger.warning("StringConcatenator: `strings` is no list; the output is empty")
            return WorkflowPayload.of("")
        # Items that are no text are shown as they are: only text is a content field.
        parts = [
            context.render(item) if isinstance(item, str) else str(item) for item in options.strings
        ]
        return WorkflowPayload.of(options.delimiter.join(parts))
