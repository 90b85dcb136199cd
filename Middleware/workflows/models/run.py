"""One execution of one workflow, as the run log shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from Middleware.core.events import ReplyBuilder, Usage
from Middleware.core.messages import Caller
from Middleware.workflows.models.workflow_context import WorkflowContext, WorkflowStep

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
    session: str | None = None
    """Of the coding agent that asked: its runs are found together (decisions §9)."""
    trace_context: Mapping[str, str] = field(default_factory=dict)
    """The request's ``traceparent`` and ``tracestate``, as they came."""
    parent_id: str | None = None
    caller: Caller | None = None
    """Whose key came with the request; None where no keys are demanded."""
    answers_client: bool = True
    """Whether its answer is the client's, directly or through the node that started it."""
    private: bool = False
    """Whether the record must hold no texts of users and models."""
    started_at: float = 0.0
    """Seconds since 1970."""
    duration_ms: float | None = None
    status: RunStatus = "running"
    usage: Usage | None = None
    """Of this run's own calls; a sub-workflow's stand in its own run."""
    cost: float | None = None
    """Likewise. None as long as no call has a known price."""
    first_token_ms: float | None = None
    """From the start of the run to the first piece of a streamed answer."""
    context: WorkflowContext = field(default_factory=WorkflowContext)
    partial_text: str = ""
    """What the answering node had said when the run failed or was cancelled."""
    said: ReplyBuilder | None = None
    """The answer as it grows, for whoever looks on."""
    answering: str = ""
    """The node that answers, or answered."""

    @property
    def steps(self) -> list[WorkflowStep]:
        return self.context.steps

    @property
    def current_node(self) -> str:
        """The node that was started last."""
        return self.context.current_step_node_id

    def begin_answer(self, node_id: str) -> ReplyBuilder:
        """A node begins to answer, or tries again."""
        self.answering = node_id
        said = self.said = ReplyBuilder()
        return said

    def add_usage(self, usage: Usage | None, cost: float | None = None) -> None:
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
        if cost is not None:
            self.cost = cost if self.cost is None else self.cost + cost

    def to_dict(self, *, steps: bool = True) -> dict[str, Any]:
        """``steps=False`` leaves the list of steps empty."""
        started = datetime.fromtimestamp(self.started_at, UTC)
        tokens = self.usage and {
            "prompt": self.usage.prompt_tokens,
            "completion": self.usage.completion_tokens,
            "total": self.usage.prompt_tokens + self.usage.completion_tokens,
            "estimated": self.usage.estimated,
        }
        return {
            "id": self.id,
            "parentId": self.parent_id,
            "requestId": self.request_id,
            "session": self.session,
            "workflow": self.workflow,
            "folder": self.folder,
            "door": self.door,
            "user": self.user,
            "status": self.status,
            "startedAt": started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "durationMs": self.duration_ms,
            "tokens": tokens,
            "cost": self.cost,
            "error": self.context.error,
            "partialText": self.partial_text,
            "context": self.context.to_dict(steps=steps),
        }
