"""ConversationChunkProcessor (nodes §4, memory-and-state §14).

A cursor file says how far earlier runs came: one line a finished block, the hash of its last
message. Blocks are found again by these hashes, because a conversation has no other names.
"""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, Field, StrictInt

from Middleware.config.models import Text
from Middleware.core.errors import ConfigError, WorkflowError
from Middleware.core.messages import Message
from Middleware.memory.anchors import anchor_hash, messages_after
from Middleware.memory.chunking import chunk_text
from Middleware.storage.files import PathLocks, write_atomically
from Middleware.workflows.handlers.base.named_files import WorkflowName
from Middleware.workflows.handlers.base.node_handler import options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.handlers.impl.get_custom_file_handler import MISSING, read_custom_file
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

logger = logging.getLogger(__name__)

_ID = re.compile(r"[A-Za-z0-9_.-]+")


class ConversationChunkOptions(NodeOptions):
    """Run a workflow once for each block of messages that it has not seen yet.

    A block is `chunkSize` messages; an incomplete one waits until it is full. A cursor file
    keeps how far a conversation was processed, so a conversation without discussion id is not
    processed at all. The output is the content of `returnFile`, or a short text that tells how
    many blocks were processed.
    """

    id: Text = ""
    """Names the cursor file: letters, digits, ``_``, ``.`` and ``-``."""
    workflow_name: WorkflowName = ""
    """Runs without tools; its messages are the block and ``{agent1Input}`` is the block's text."""
    workflow_user_folder_override: Text = ""
    """Folder below ``Workflows/``; empty: the user's own."""
    chunk_size: StrictInt = Field(10, ge=1)
    """Messages of one block."""
    lookback_messages: StrictInt = Field(4, ge=0)
    """How many of the newest messages are left alone."""
    cursor_directory: Text = ""
    """Folder of the cursor file; ``~`` is the home folder."""
    return_file: Text = ""
    """A file whose content is the output; a missing one gives an empty text."""
    scoped_variables: tuple[Any, ...] | None = Field(
        (), validation_alias=AliasChoices("scoped_variables", "scopedVariables")
    )
    """Texts that become ``agent2Input``, ``agent3Input`` ... of the workflow."""


def process_chunks(context: ExecutionContext, scoped_inputs: Sequence[str]) -> WorkflowPayload:
    """Run the workflow for every complete new block, and give the node's output."""
    options = options_of(context, ConversationChunkOptions)
    if not options.id.strip():
        raise ConfigError("`id` is missing.", remedy="It names the file that keeps the progress.")
    done = 0
    if context.discussion_id:
        _require(options)
        done = _process(context, options, context.discussion_id, scoped_inputs)
    return WorkflowPayload.of(_output(context, options, done))


def _require(options: ConversationChunkOptions) -> None:
    if not _ID.fullmatch(options.id):
        raise ConfigError(f"`id` {options.id!r} may hold letters, digits, _ . and - only.")
    for key, value in (
        ("workflowName", options.workflow_name),
        ("cursorDirectory", options.cursor_directory),
    ):
        if not value.strip():
            raise ConfigError(f"`{key}` is missing.")


def _process(
    context: ExecutionContext,
    options: ConversationChunkOptions,
    discussion_id: str,
    scoped_inputs: Sequence[str],
) -> int:
    messages = context.messages
    if len(messages) <= options.lookback_messages:
        return 0
    cursor = _cursor_file(context, options, discussion_id)
    locks = context.request_scope.server.path_locks if context.request_scope else PathLocks()
    with locks.try_hold(cursor) as free:
        if not free:
            logger.info("chunks of %r: another run is processing this conversation", options.id)
            return 0
        done = _read_cursor(cursor)
        fresh = messages_after(messages, done, options.lookback_messages, options.chunk_size)
        blocks = [
            fresh[at : at + options.chunk_size]
            for at in range(0, len(fresh), options.chunk_size)
            if at + options.chunk_size <= len(fresh)
        ]
        for block in blocks:
            _run_child(context, options, block, scoped_inputs)
            done.append(anchor_hash(block[-1]))
            _write_cursor(cursor, done)
    return len(blocks)


def _run_child(
    context: ExecutionContext,
    options: ConversationChunkOptions,
    block: Sequence[Message],
    scoped_inputs: Sequence[str],
) -> None:
    if context.workflow_manager is None:
        raise WorkflowError("No workflow can be run from here.")
    context.workflow_manager.run_custom_workflow(
        workflow_name=options.workflow_name,
        request_id=context.request_id,
        discussion_id=context.discussion_id,
        messages=tuple(block),
        non_responder=True,
        is_streaming=False,
        scoped_inputs=[chunk_text(block), *scoped_inputs],
        workflow_user_folder_override=options.workflow_user_folder_override or None,
        request_scope=context.scope_for_silent_child(),
    )


def _cursor_file(
    context: ExecutionContext, options: ConversationChunkOptions, discussion_id: str
) -> Path:
    folder = context.render(options.cursor_directory).strip()
    name = f"chunk_cursor_{options.id}_{discussion_id}.txt"
    try:
        return Path(folder).expanduser() / name
    except RuntimeError as error:
        raise ConfigError(f"`cursorDirectory` {folder!r} names a home that nobody has.") from error


def _read_cursor(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").split()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise WorkflowError(
            "the cursor file cannot be read, so nobody knows what was processed.",
            detail=f"{path}: {error!r}",
        ) from error


def _write_cursor(path: Path, done: Sequence[str]) -> None:
    try:
        write_atomically(path, "".join(f"{line}\n" for line in done).encode())
    except OSError as error:
        logger.warning("the cursor %s could not be written: %r", path.name, error)


def _output(context: ExecutionContext, options: ConversationChunkOptions, done: int) -> str:
    if not options.return_file:
        return f"{options.id}: {done} {'block' if done == 1 else 'blocks'} processed."
    text = read_custom_file(context.render(options.return_file).strip())
    return "" if text == MISSING else text
