"""All that one node may know and use. Nothing else is in reach of a handler."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from Middleware.core.events import Event
from Middleware.core.messages import Message
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.step_notes import StepNotes
from Middleware.workflows.models.workflow_context import (
    WorkflowContext,
    WorkflowPayload,
    WorkflowStep,
)
from Middleware.workflows.variables.pieces import Piece, pieces
from Middleware.workflows.variables.table import VariableTable
from Middleware.workflows.variables.templates import (
    PartialText,
    partial,
    render,
    render_partial,
)


class RunsWorkflows(Protocol):
    """The part of ``WorkflowManager`` that a handler may use (design §2)."""

    @property
    def run_custom_workflow(self) -> Callable[..., Iterator[Event] | WorkflowPayload]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionContext:
    """One node of one run. ``config`` is the node's typed options with mapping access."""

    config: Any
    stream: bool = False
    """True only for the responder of a streaming request."""
    responds: bool = False
    """Whether it is the responder of its run, whoever started that."""
    answers_client: bool = False
    """True for the node whose words the client sees, streamed or whole (decisions §4)."""
    non_responder: bool | None = None
    """The caller's word for this whole run (workflow-engine §4)."""
    messages: Sequence[Message] = ()
    """The conversation as it was said: what sub-workflows get and memories are made of."""
    stamp: Callable[[Sequence[Message]], Sequence[Message]] | None = None
    """Puts times in front of messages, for a node whose model is to see them."""
    agent_inputs: Mapping[str, Any] = field(default_factory=dict)
    """``agent1Input`` ... as the parent handed them over."""
    agent_outputs: Mapping[str, Any] = field(default_factory=dict)
    """``agent1Output`` ... of the nodes that ran before."""
    workflow_manager: RunsWorkflows | None = None
    workflow_context: WorkflowContext = field(default_factory=WorkflowContext)
    request_id: str = ""
    workflow_id: str = ""
    node_id: str = ""
    """Of the node itself: while nodes run at once, the run's current node may be another."""
    """The id of this run."""
    discussion_id: str | None = None
    request_scope: RequestScope | None = None
    variables: VariableTable | None = None
    """None stands for a table of the inputs, outputs and messages above."""
    step: StepNotes = field(default_factory=StepNotes)
    system_prompt_override: str | None = None
    prompt_override: str | None = None
    live_placeholders: bool = False
    """Whether ``{{name}}`` is live in this file (decisions §3)."""

    plan: ModelPlan | None = None
    """The model this node calls, and how; None for a node without endpoint."""
    run_branches: Callable[[], list[tuple[str, WorkflowPayload]]] | None = None
    """Of a Parallel node: runs its branches, and gives the id and output of each one's last
    node, in the order of the file."""
    start_step: Callable[[str], None] | None = None
    """Tells whoever looks on that a part of what this node does begins; by its name."""
    add_step: Callable[[WorkflowStep], None] | None = None
    """Records a part of what this node does as a step of the run, under the node's name."""

    @property
    def messages_for_model(self) -> Sequence[Message]:
        """The conversation as this node's model is to see it."""
        return self.messages if self.stamp is None else self.stamp(self.messages)

    def render(self, text: Any) -> str:
        """Fill in the variables of a content field; non-text is made text first."""
        return render(
            text if isinstance(text, str) else str(text),
            self._table(),
            jinja=self._is_jinja(),
            live=self.live_placeholders,
        )

    def pieces(self, text: Any) -> tuple[Piece, ...]:
        """As :meth:`render`, cut where the author's own text and what variables brought in meet."""
        return pieces(
            text if isinstance(text, str) else str(text),
            self._table(),
            jinja=self._is_jinja(),
            live=self.live_placeholders,
        )

    def render_for_child(self, text: Any) -> str:
        """As :meth:`render`, but names that are unknown here are left for the child to fill in;
        what was filled in here is data there (nodes S5).
        """
        return partial(
            text if isinstance(text, str) else str(text),
            self._table(),
            jinja=self._is_jinja(),
            live=self.live_placeholders,
        )

    def prompt(self, text: str, override: str | None) -> str:
        """A prompt field, or the caller's override of it."""
        if override is None:
            return self.render(text)
        if isinstance(override, PartialText):
            return render_partial(override, self._table())
        return override

    def scope_for_child(self) -> RequestScope | None:
        """The request scope as a sub-workflow started by this node gets it."""
        if self.request_scope is None:
            return None
        return self.request_scope.below(self.step, self.workflow_id, self.answers_client)

    def scope_for_silent_child(self) -> RequestScope | None:
        """The same for a sub-workflow whose answer this node keeps to itself: it speaks to nobody
        and gets no tools.
        """
        if self.request_scope is None:
            return None
        scope = self.request_scope.below(self.step, self.workflow_id, answers_client=False)
        return replace(scope, tools=(), tool_choice=None)

    def _is_jinja(self) -> bool:
        config = self.config
        # A caller without a file may hand over a plain mapping.
        return bool(config.jinja2 if hasattr(config, "jinja2") else config.get("jinja2"))

    def _table(self) -> VariableTable:
        return self.variables or VariableTable(
            agent_inputs=self.agent_inputs,
            agent_outputs=self.agent_outputs,
            messages=self.messages,
        )
