"""One execution of one workflow, as the run log shows it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from Middleware.core.events import Usage
from Middleware.workflows.models.workflow_context import WorkflowContext

RunStatus: TypeAlias = Literal["running", "succeeded", "failed", "cancelled", "interrupted"]


@dataclass(slots=True, kw_only=True)
class Run:
    """Changes while it happens; written by the processor alone."""

    id: str
    workflow: str
    folder: str
    user: str
    door: str = ""
    request_id: str = ""
    parent_id: str | None = None
    started_at: float = 0.0
    """Seconds since 1970."""
    duration_ms: float | None = None
    status: RunStatus = "running"
    usage: Usage | None = None
    """Of this run's own calls; a sub-workflow's stand in its own run."""
    context: WorkflowContext = field(default_factory=WorkflowContext)
    partial_text: str = ""
    """What the answering node had said when the run failed or was cancelled."""

    def add_usage(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def to_dict(self) -> dict[str, Any]:
        started = datetime.fromtimestamp(self.started_at, UTC)
        tokens = self.usage and {
            "prompt": self.usage.prompt_tokens,
            "completion": self.usage.completion_tokens,
            "estimated": self.usage.estimated,
        }
        return {
            "id": self.id,
            "parentId": self.parent_id,
            "requestId": self.request_id,
            "workflow": self.workflow,
            "folder": self.folder,
            "door": self.door,
            "user": self.user,
            "status": self.status,
            "startedAt": started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "durationMs": self.duration_ms,
            "tokens": tokens,
            "cost": None,
            "error": self.context.error,
            "partialText": self.partial_text,
            "context": self.context.to_dict(),
        }
