"""What the nodes of one run do with times and speakers (workflow-engine §11).

Both follow ``answers_client``, never ``stream``: an answer is the same streamed and whole.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from Middleware.core.messages import Message
from Middleware.memory import timestamps
from Middleware.storage.discussions import DiscussionFolder
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.models.workflow_call import WorkflowCall
from Middleware.workflows.output.group_chat import speaker_cue

_SPEAKS_FOR = ("User: ", "Assistant: ")
"""What ``chatCompleteAddUserAssistant`` puts in front of messages."""

Stamp = Callable[[Sequence[Message]], Sequence[Message]]


class NodeTimes:
    """One a run. Does nothing, and looks at nothing, without a discussion id."""

    def __init__(self, workflow: Workflow, call: WorkflowCall, scope: RequestScope) -> None:
        self._call = call
        self._scope = scope
        self._used = bool(call.discussion_id) and any(_wants_times(node) for node in workflow)
        self._known_folder: DiscussionFolder | None = None
        self.variables: Mapping[str, Callable[[], Any]] = (
            {"time_context_summary": self._summary} if call.discussion_id else {}
        )

    def begin(self, node: Node, *, answers: bool) -> Stamp | None:
        """Before a node runs. What is returned puts times in front of messages for its model.

        ``answers``: whether its words are the client's.
        """
        if not self._used:
            return None
        scope, folder = self._scope, self._folder()
        scope.times.track(folder, self._call.messages, scope.clock)
        if not _wants_times(node):
            return None
        if answers:
            scope.times.reply_begins(folder, scope.clock)
        if not scope.answers_client:
            # A run that speaks to nobody works on what was said, not on when.
            return None
        now = scope.clock.now() if node.options.use_relative_timestamps else None
        return lambda messages: scope.times.stamped(messages, now)

    def answered(self, node: Node, context: ExecutionContext, text: str) -> None:
        """After the answer, before anyone is told that it is complete."""
        if not (
            self._used
            and context.answers_client
            and _wants_times(node)
            and node.options.use_group_chat_timestamp_logic
        ):
            return
        scope = self._scope
        # As the conversation will have it when the client sends it back.
        prefixed = scope.config.user.chat_complete_add_user_assistant and text.strip()
        reply = Message("assistant", f"Assistant: {text}" if prefixed else text)
        scope.times.reply_ended(self._folder(), self._call.messages, reply, scope.clock)

    def speaker(self, node: Node, context: ExecutionContext) -> str | None:
        """Who is to speak, where an answer that names no speaker gets one."""
        if not (context.answers_client and node.options.use_group_chat_timestamp_logic):
            return None
        cue = speaker_cue(self._call.messages)
        if cue and self._scope.config.user.chat_complete_add_user_assistant:
            for prefix in _SPEAKS_FOR:
                cue = cue.removeprefix(prefix)
        return cue

    def _folder(self) -> DiscussionFolder:
        if self._known_folder is None:
            scope = self._scope
            self._known_folder = scope.server.discussion(
                scope.config, self._call.discussion_id, scope.api_key
            )
            assert self._known_folder is not None
        return self._known_folder

    def _summary(self) -> str:
        stored = self._folder().read_object(timestamps.FILE)
        return timestamps.summary(stored, self._scope.clock.now())


def _wants_times(node: Node) -> bool:
    wants: bool = node.options.add_discussion_id_timestamps_for_llm
    return wants
