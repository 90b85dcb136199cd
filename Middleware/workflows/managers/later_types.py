"""Node types that existing files use and this version cannot run yet.

Their files load, so that the rest of a workflow folder can be used and checked; running such a
node is an error that says so, instead of something else happening in its place.
"""

from Middleware.core.errors import WorkflowError
from Middleware.workflows.handlers.base.node_handler import NodeHandler, NodeType
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

_LISTED = """
    ChatSummaryMemoryGatheringTool ConversationMemory FullChatSummary
    GetCurrentMemoryFromFile GetCurrentStateDocument GetCurrentSummaryFromFile QualityMemory
    RecentMemory RecentMemorySummarizerTool VectorMemorySearch
    WriteCurrentSummaryToFileAndReturnIt chatSummarySummarizer
"""
_NAMES = frozenset(_LISTED.split())


class _LaterHandler(NodeHandler):
    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        kind = context.config.get("type")
        raise WorkflowError(f"nodes of type {kind!r} cannot be run by this version.")


_HANDLER = _LaterHandler()


def later_type(name: str) -> NodeType | None:
    if name not in _NAMES:
        return None
    return NodeType(name, NodeOptions, _HANDLER, "Not available in this version.")


def later_names() -> tuple[str, ...]:
    """All of them, sorted; a type that can be run by now may still be among them."""
    return tuple(sorted(_NAMES))
