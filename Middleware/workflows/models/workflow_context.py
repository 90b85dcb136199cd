"""What one run knows: its context, its steps and their payloads (design §5).

JSON names are the source's camelCase; keys of ours stand inside ``meta``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from Middleware.core.events import Reply
from Middleware.workflows.models.live_messages import MessagesInserted
from Middleware.workflows.models.step_notes import StepNotes


def pretty_json(value: Any) -> str:
    """Indent 2, non-ASCII kept (decisions §7); values JSON does not know become text."""
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str)
    # Keys that are no text, infinite numbers, a list that holds itself, a script's own objects.
    except Exception:  # noqa: BLE001
        return str(value)


class ToolCallOutput(dict[str, Any]):
    """A reply that called tools, as a variable: indexable, and its text where text is wanted."""

    def __str__(self) -> str:
        return str(self.get("content") or "")


@dataclass(frozen=True, slots=True)
class WorkflowPayload:
    """What a node produced. ``str(payload)`` is its text."""

    content: str | None = None
    data: Any = field(default_factory=list)
    """An object or a list; ``[]`` when the node gave none."""
    reply: Reply | None = field(default=None, compare=False, repr=False)
    """The model's answer behind it, when there is one: tool calls travel here."""
    value: Any = field(default=None, compare=False, repr=False)
    """What the node returned, in its own type: this is what ``agent{N}Output`` holds. Built
    from ``content`` or ``data`` when not given."""
    rest: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    """The nodes of a sub-workflow that stand after its responder, still to run."""
    inserted: MessagesInserted | None = field(default=None, compare=False, repr=False)
    """What the node adds to the conversation; whoever ran the node applies it."""

    def __post_init__(self) -> None:
        if self.value is None and (self.content is not None or self.data):
            object.__setattr__(self, "value", self.data or self.content)

    @classmethod
    def of(cls, value: Any) -> "WorkflowPayload":
        """Build from whatever a node returns (design §5)."""
        if isinstance(value, WorkflowPayload):
            return value
        if value is None:
            return cls()
        if isinstance(value, str):
            return cls(value, value=value)
        if isinstance(value, dict | list | tuple):
            data = list(value) if isinstance(value, tuple) else value
            return cls(_text_of(data), data, value=value)
        return cls(str(value), value=value)

    @classmethod
    def of_reply(cls, reply: Reply) -> "WorkflowPayload":
        """Build from a model's answer; with tool calls the value carries them too."""
        value: Any = reply.text
        if reply.tool_calls:
            value = ToolCallOutput(
                content=reply.text,
                tool_calls=[
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in reply.tool_calls
                ],
                finish_reason=reply.finish_reason,
            )
        return cls(reply.text, reply=reply, value=value)

    def __str__(self) -> str:
        return self.content or ""

    def to_dict(self) -> dict[str, Any]:
        return {"content": self.content, "data": self.data}


def _text_of(data: Any) -> str:
    if isinstance(data, Mapping):
        for key in ("content", "value"):
            if key in data and data[key] is not None:
                text = data[key]
                return text if isinstance(text, str) else pretty_json(text)
    return pretty_json(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowStep:
    """One finished node."""

    node_name: str
    """The node's id."""
    output_data: WorkflowPayload
    module_type: str
    next_route: str | None = None
    thinking: str | None = None
    cost: float | None = None
    processing_time_ms: float | None = None
    confidence_score: float | None = None
    title: str | None = None
    started_at: float | None = None
    """Seconds since 1970. Not shown; the run log tells it beside the step."""
    notes: StepNotes | None = None
    """Ours: tokens, endpoint, resolvedPrompt, attempts, childRunId, error. Shown in ``meta``."""
    part_of: str | None = None
    """Of a tool that a node has called: the id of that node, whose own step follows."""

    def inside(self, node_id: str) -> "WorkflowStep":
        """The same as a part of node ``node_id``."""
        return replace(self, node_name=f"{node_id}/{self.node_name}", part_of=node_id)

    @property
    def model(self) -> str | None:
        return self.notes.model if self.notes else None

    @property
    def meta(self) -> dict[str, Any]:
        meta: dict[str, Any] = {"module_type": self.module_type, "next_route": self.next_route}
        if self.title is not None:
            meta["title"] = self.title
        if self.notes is not None:
            meta.update(self.notes.to_dict())
        return meta

    def to_dict(self) -> dict[str, Any]:
        return {
            "nodeName": self.node_name,
            "outputData": self.output_data.to_dict(),
            "meta": self.meta,
            "thinking": self.thinking,
            "cost": self.cost,
            "processingTimeMs": self.processing_time_ms,
            "confidenceScore": self.confidence_score,
        }


@dataclass(slots=True)
class WorkflowContext:
    """What is true of a run so far. One a run; a sub-workflow has its own."""

    workflow_record: Mapping[str, Any] | None = None
    """``name``, ``folder`` and content ``hash`` of the workflow, or None."""
    global_variables: dict[str, Any] = field(default_factory=dict)
    clear_conversation: bool = False
    current_step_node_id: str = ""
    error: str | None = None
    steps: list[WorkflowStep] = field(default_factory=list)

    def get_previous_step_output(self) -> WorkflowPayload | None:
        """The output of the node before; what its tools have answered is not that."""
        nodes = (step for step in reversed(self.steps) if step.part_of is None)
        return next((step.output_data for step in nodes), None)

    def get_history(self, id: str | None = None) -> Any:
        """All outputs as ``{node_id: payload}``, or the latest one of node ``id`` (or None)."""
        history = {step.node_name: step.output_data for step in self.steps}
        return history if id is None else history.get(id)

    def add_to_history(self, id: str, output: Any) -> None:
        """Record an output under ``id`` as if a node of that id had run."""
        self.steps.append(
            WorkflowStep(node_name=id, output_data=WorkflowPayload.of(output), module_type="")
        )

    def to_dict(self, *, steps: bool = True) -> dict[str, Any]:
        """``steps=False`` leaves the list of steps empty."""
        return {
            "workflowRecord": dict(self.workflow_record) if self.workflow_record else None,
            "globalVariables": dict(self.global_variables),
            "clearConversation": self.clear_conversation,
            "currentStepNodeId": self.current_step_node_id,
            "error": self.error,
            "steps": [step.to_dict() for step in tuple(self.steps)] if steps else [],
        }
