"""The two keyword search tools (nodes §19, memory-and-state §13)."""

from collections.abc import Sequence
from typing import Final

from pydantic import Field

from Middleware.config.models import Text
from Middleware.core.errors import WorkflowError
from Middleware.core.messages import Message
from Middleware.memory.chunking import CHUNK_BREAK, chunk_text, chunked, without_roles
from Middleware.memory.search import best_chunks, filtered_query, matching_chunks, speakers
from Middleware.memory.stored import stored_memories
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import IntOrTemplate, NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

CONVERSATION: Final = "CurrentConversation"
MEMORIES: Final = "RecentMemories"
TOO_SHORT: Final = "There are no memories yet: the conversation is too short."

_CHUNK_TOKENS: Final = 400
_MOST: Final = 10
_NEWEST_MEMORIES: Final = 3
"""Left out of a search: they stand in the prompt anyway."""


class KeywordSearchOptions(NodeOptions):
    """Search the conversation, or what is remembered of it, for words.

    `searchTarget` decides where, whatever the type is called; without it the type does. In a
    conversation the ten best passages are found, joined by ``--ChunkBreak--``; among memories
    the first ten that hold any of the words, the newest three left out. Names of speakers are
    not searched for.
    """

    keywords: Text = Field(min_length=1)
    """The words to look for. AND, OR and parentheses have no meaning."""
    search_target: Text = ""
    """``CurrentConversation`` or ``RecentMemories``."""
    lookback_start_turn: IntOrTemplate = 0
    """How many of the newest messages are left out of a search of the conversation; the last one
    always is."""


class _KeywordSearchHandler(NodeHandler):
    has_side_effects = False
    default_target: str

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, KeywordSearchOptions)
        keywords = context.render(options.keywords)
        if not keywords.strip():
            return WorkflowPayload.of("")
        target = options.search_target or self.default_target
        if target == CONVERSATION:
            lookback = options.lookback_start_turn
            return WorkflowPayload.of(
                search_conversation(
                    context.messages, keywords, lookback if isinstance(lookback, int) else 0
                )
            )
        if target == MEMORIES:
            return WorkflowPayload.of(self._search_memories(context, keywords))
        return WorkflowPayload.of("")

    def _search_memories(self, context: ExecutionContext, keywords: str) -> str:
        scope = context.request_scope
        if scope is None:
            raise WorkflowError("Memories can be searched inside of a request only.")
        folder = scope.server.discussion(scope.config, context.discussion_id, scope.api_key)
        if folder is None:
            return ""
        memories = stored_memories(folder)
        if len(memories) > _NEWEST_MEMORIES:
            memories = memories[:-_NEWEST_MEMORIES]
        query = filtered_query(keywords, speakers(context.messages))
        found = matching_chunks(memories, query, _MOST)
        return "\n\n".join(without_roles(chunk) for chunk in found)


@node_type("ConversationalKeywordSearchPerformerTool", options=KeywordSearchOptions)
class ConversationalKeywordSearchHandler(_KeywordSearchHandler):
    default_target = CONVERSATION


@node_type("MemoryKeywordSearchPerformerTool", options=KeywordSearchOptions)
class MemoryKeywordSearchHandler(_KeywordSearchHandler):
    default_target = MEMORIES


def search_conversation(messages: Sequence[Message], keywords: str, lookback: int) -> str:
    """The best passages of all but the newest ``lookback`` messages (S42)."""
    if not messages:
        return ""
    if len(messages) <= lookback:
        return TOO_SHORT
    candidates = messages[: -max(lookback, 1)]
    chunks = [chunk_text(group) for group in chunked(candidates, _CHUNK_TOKENS)]
    query = filtered_query(keywords, speakers(messages))
    found = best_chunks(chunks, query, _MOST)
    return CHUNK_BREAK.join(without_roles(chunk) for chunk in found)
