"""The question that a run answers: which workflow, on what conversation, for whom."""

from collections.abc import Sequence
from dataclasses import dataclass

from Middleware.core.messages import Message


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
