"""SlowButQualityRAG (nodes §18, memory-and-state §7.1 and §13)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import Field

from Middleware.config.models import Text
from Middleware.core.errors import WorkflowError
from Middleware.core.events import Reply
from Middleware.memory.chunking import CHUNK_BREAK
from Middleware.memory.stored import stored_memories, stored_summary
from Middleware.workflows.handlers.base.named_files import WorkflowName
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import IntOrTemplate, NodeOptions
from Middleware.workflows.handlers.impl.model_calls import ask_with_texts, payload_of
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.variables.pieces import with_author_text

_NEWEST: Final = 3
_BETWEEN: Final = "\n--------------\n"


class SlowButQualityRAGOptions(NodeOptions):
    """Ask a model about one piece of a text after the other.

    `ragTarget` is cut at ``--ChunkBreak--``; each piece is one call, the answers are put behind
    each other, and each is a memory for the pieces that follow. Nothing is stored. Without a
    discussion id the output is empty.
    """

    rag_target: Text = Field(min_length=1)
    """The text, with ``--ChunkBreak--`` between its pieces."""
    rag_type: Text = Field(min_length=1)
    """Must be there, whatever it says: ``CurrentConversation`` is usual."""
    system_prompt: Text = ""
    """May hold ``[TextChunk]``, ``[Memory_file]`` (the newest three memories),
    ``[Full_Memory_file]`` and ``[Chat_Summary]``, as `prompt` may."""
    prompt: Text = ""
    """Sent as the user message; without the conversation, images and tools."""
    file_memory_workflow_name: WorkflowName = ""
    """A workflow that does it instead, once for each piece; its inputs are the piece, the newest
    three memories, all memories and the summary."""
    chunks_per_memory: IntOrTemplate = 3
    """Has no effect; kept for old files."""


@node_type("SlowButQualityRAG", options=SlowButQualityRAGOptions)
class SlowButQualityRAGHandler(NodeHandler):
    def only_runs_others(self, options: Any) -> bool:
        return True

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, SlowButQualityRAGOptions)
        scope = context.request_scope
        if scope is None:
            raise WorkflowError("A model can be called inside of a request only.")
        folder = scope.server.discussion(scope.config, context.discussion_id, scope.api_key)
        if folder is None:
            return WorkflowPayload.of("")
        memories = stored_memories(folder)
        summary = stored_summary(folder)
        said: list[Reply] = []
        for chunk in context.render(options.rag_target).split(CHUNK_BREAK):
            known = _known(chunk, memories, summary)
            if options.file_memory_workflow_name:
                reply = Reply(text=_from_workflow(context, options, known))
            else:
                reply = ask_with_texts(
                    context,
                    _with(context, options.system_prompt, known),
                    _with(context, options.prompt, known),
                )
            said.append(reply)
            memories.append(reply.text)
        return payload_of("".join(reply.text for reply in said), said)


def _known(chunk: str, memories: Sequence[str], summary: str) -> Mapping[str, str]:
    """In the order of a workflow's inputs. What there is none of is empty (S49)."""
    return {
        "[TextChunk]": chunk,
        "[Memory_file]": _BETWEEN.join(memories[-_NEWEST:]).strip(),
        "[Full_Memory_file]": _BETWEEN.join(memories).strip(),
        "[Chat_Summary]": summary.strip(),
    }


def _with(context: ExecutionContext, template: str, known: Mapping[str, str]) -> str:
    """The prompt. Marks are filled in where the author wrote them, and nowhere else (S5, S20)."""

    def filled(text: str) -> str:
        for cut in known:
            if cut in text:
                return known[cut].join(filled(part) for part in text.split(cut))
        return text

    return with_author_text(context.pieces(template), filled)


def _from_workflow(
    context: ExecutionContext, options: SlowButQualityRAGOptions, known: Mapping[str, str]
) -> str:
    if context.workflow_manager is None:
        raise WorkflowError("No workflow can be run from here.")
    payload = context.workflow_manager.run_custom_workflow(
        workflow_name=options.file_memory_workflow_name,
        request_id=context.request_id,
        discussion_id=context.discussion_id,
        messages=context.messages,
        non_responder=True,
        is_streaming=False,
        scoped_inputs=list(known.values()),
        request_scope=context.scope_for_silent_child(),
    )
    assert isinstance(payload, WorkflowPayload), "it was asked not to stream"
    return str(payload)
