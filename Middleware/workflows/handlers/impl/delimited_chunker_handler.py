"""DelimitedChunker (nodes §11)."""

import logging
from typing import Any

from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

logger = logging.getLogger(__name__)


class DelimitedChunkerOptions(NodeOptions):
    """Keep the first or the last parts of a text with delimiters.

    A mistake in these properties does not stop the run: the output is a text that names it.
    """

    content: Any = None
    """The text that is cut."""
    delimiter: Any = None
    """What stands between its parts, before and afterwards."""
    mode: Any = None
    """``head`` for the first parts, ``tail`` for the last."""
    count: Any = None
    """How many parts, from 1; a number and no text."""


@node_type("DelimitedChunker", options=DelimitedChunkerOptions)
class DelimitedChunkerHandler(NodeHandler):
    has_side_effects = False

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, DelimitedChunkerOptions)
        return WorkflowPayload.of(self._output(context, options))

    def _output(self, context: ExecutionContext, options: DelimitedChunkerOptions) -> str:
        problem = _problem(options)
        if problem is not None:
            return _told(problem)
        content = context.render(options.content)
        if not content:
            return ""
        delimiter = context.render(options.delimiter)
        if not delimiter:
            return _told("`delimiter` is empty")
        return cut(content, delimiter, options.mode, options.count)


def cut(content: str, delimiter: str, mode: str, count: int) -> str:
    parts = content.split(delimiter)
    return delimiter.join(parts[:count] if mode == "head" else parts[-count:])


def _problem(options: DelimitedChunkerOptions) -> str | None:
    for name in ("content", "delimiter", "mode", "count"):
        if getattr(options, name) is None:
            return f"`{name}` is missing"
    if isinstance(options.count, bool) or not isinstance(options.count, int):
        return "`count` must be a whole number"
    if options.count < 1:
        return "`count` must be at least 1"
    if options.mode not in ("head", "tail"):
        return "`mode` must be head or tail"
    return None


def _told(problem: str) -> str:
    text = f"DelimitedChunker error: {problem}."
    logger.error("%s", text)
    return text
