"""The question that a run answers: which workflow, on what conversation, for whom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from Middleware.core.messages import Message

CLEAR_CONVERSATION = "clearConversation"
"""In a request's metadata: not a variable, but a mark of the run's context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowCall:
    """What a caller hands to a run. A child sees nothing of its parent but this."""

    workflow: str
    folder: str | None = None
    """Below ``Workflows/``; None is the user's own folder."""
    messages: Sequence[Message] = ()
    discussion_id: str | None = None
    streaming: bool = False
    non_responder: bool | None = None
    inputs: Sequence[str] = ()
    system_prompt_override: str | None = None
    prompt_override: str | None = None
    globals: Mapping[str, Any] = field(default_factory=dict)
    """From the request's ``metadata``, or a runner's inputs."""
    pinned: Mapping[str, Any] = field(default_factory=dict)
    """Id of a node -> the output it is to have; such nodes do not run (the test runner's)."""
    only: str | None = None
    """Id of the one node to run; the others only have their pinned outputs."""

    @property
    def clears_conversation(self) -> bool:
        """Whether agents are to begin new conversations with the user."""
        return self.globals.get(CLEAR_CONVERSATION) is True

    def global_variables(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """The global variables a run begins with; ``question`` is always the last user message
        (decisions §7)."""
        question = next((m.content for m in reversed(self.messages) if m.role == "user"), "")
        given = {key: value for key, value in self.globals.items() if key != CLEAR_CONVERSATION}
        return {**defaults, **given, "question": question}
