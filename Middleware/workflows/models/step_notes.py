"""What a node tells about itself while it runs; shown inside its step's ``meta``."""

from dataclasses import dataclass, field
from typing import Any

from Middleware.core.events import Usage
from Middleware.core.messages import Message


@dataclass(slots=True)
class StepNotes:
    """Filled by a handler, read when the step is shown. Belongs to one execution of one node."""

    endpoint: str | None = None
    resolved_prompt: tuple[Message, ...] | str | None = None
    """What went to the model: messages, or the prompt text of a text endpoint. What went to a
    tool: its arguments as JSON."""
    model: str | None = None
    """What the endpoint calls the model. Not shown."""
    usage: Usage | None = None
    cost: float | None = None
    """Of the tokens, in the currency of the price list; None where a price is not known. Shown by
    the step itself."""
    confidence: float | None = None
    """How sure the model was, from 0 to 1. Shown by the step itself."""
    first_token_ms: float | None = None
    """Of a streamed answer: from the start of the node to its first piece."""
    attempts: int = 0
    clamped_messages: int = 0
    """Messages of the conversation that the context clamp has left out."""
    child_run_id: str | None = None
    thinking: str | None = None
    next_route: str | None = None
    error: str | None = None
    pinned: bool = False
    """The test runner gave the node its output; it did not run."""
    changed_globals: dict[str, Any] | None = None
    """Global variables that the node made or changed; null for one that it removed."""
    unknown_placeholders: list[str] = field(default_factory=list)
    """Names in ``{{...}}`` that were neither a global variable nor a node that had run."""
    inserted: tuple[Message, ...] = ()
    """Messages that the node added to the conversation."""

    def to_dict(self) -> dict[str, Any]:
        """The keys of ours inside ``meta``; those without a value are left out."""
        notes: dict[str, Any] = {
            "endpoint": self.endpoint,
            "resolvedPrompt": _shown(self.resolved_prompt),
            "tokens": _counts(self.usage),
            "firstTokenMs": self.first_token_ms,
            "attempts": self.attempts or None,
            "clampedMessages": self.clamped_messages or None,
            "childRunId": self.child_run_id,
            "error": self.error,
            "pinned": self.pinned or None,
            "changedGlobals": self.changed_globals,
            "unknownPlaceholders": self.unknown_placeholders or None,
            "insertedMessages": _shown(self.inserted) or None,
        }
        return {key: value for key, value in notes.items() if value is not None}


def _counts(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "prompt": usage.prompt_tokens,
        "completion": usage.completion_tokens,
        "total": usage.prompt_tokens + usage.completion_tokens,
        "estimated": usage.estimated,
    }


def _shown(prompt: tuple[Message, ...] | str | None) -> Any:
    if prompt is None or isinstance(prompt, str):
        return prompt
    return [_message_dict(message) for message in prompt]


def _message_dict(message: Message) -> dict[str, Any]:
    shown: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.images:
        shown["images"] = list(message.images)
    if message.tool_calls:
        shown["toolCalls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        shown["toolCallId"] = message.tool_call_id
    return shown
