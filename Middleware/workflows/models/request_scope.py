"""What travels with one request through every run it causes (decisions §4: no globals)."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from Middleware.config.files import Snapshot
from Middleware.config.models import Endpoint
from Middleware.core.cancellation import CancelToken
from Middleware.core.clock import Clock, SystemClock
from Middleware.core.errors import WorkflowTooDeep
from Middleware.core.events import Usage
from Middleware.core.messages import Caller, Message
from Middleware.llm.backend import Backend
from Middleware.runs.recorder import Recorder, Silent
from Middleware.workflows.models.at_end import AtEnd
from Middleware.workflows.models.live_messages import LiveMessages
from Middleware.workflows.models.message_times import MessageTimes
from Middleware.workflows.models.server_parts import ServerParts
from Middleware.workflows.models.step_notes import StepNotes

TOOLS = "tools"
"""In :attr:`ClientParameters.used`: a node has let the client's tools through."""


@dataclass(slots=True)
class ClientParameters:
    """The sampling fields of the request, and which of them a backend was given."""

    values: Mapping[str, Any] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def unused(self) -> tuple[str, ...]:
        return tuple(name for name in self.values if name not in self.used)


class Backends(Protocol):
    """Where nodes get their models: the server's pool, or what a workflow test has in its
    place."""

    def get(self, snapshot: Snapshot, endpoint: Endpoint, asker: object = None) -> Backend:
        """``asker`` is the pair of a workflow and its node."""
        ...


@dataclass(slots=True)
class Totals:
    """Sums over all nodes of a request, sub-workflows included."""

    usage: Usage | None = None
    dropped_messages: int = 0
    """By the context clamp."""
    unfinished: bool = False
    """Whether nodes remain to be run after the answer was given."""
    keeps_alive: bool = False
    """Whether the answering node has ``injectLivenessToolCall``."""

    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, usage: Usage | None) -> None:
        """Nodes that run at once may add at once."""
        if usage is not None:
            with self._lock:
                self.usage = usage if self.usage is None else self.usage + usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestScope:
    """Shared by every node of a request; a sub-workflow gets a copy that is one level deeper."""

    config: Snapshot
    backends: Backends
    request_id: str = ""
    session: str | None = None
    """Of the coding agent that asked; groups runs in the log."""
    trace_context: Mapping[str, str] = field(default_factory=dict)
    """Of the request: what its runs are part of, for traces."""
    cancel: CancelToken = field(default_factory=CancelToken)
    recorder: Recorder = field(default_factory=Silent)
    clock: Clock = field(default_factory=SystemClock)
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    parameters: ClientParameters = field(default_factory=ClientParameters)
    filler: Message | None = None
    """Sent behind the conversation, counted nowhere (workflow-engine S13)."""
    totals: Totals = field(default_factory=Totals)
    door: str = ""
    categories: Mapping[str, Any] = field(default_factory=dict)
    """The routing variables of a categorization run (variables §2.5)."""
    chain: tuple[str, ...] = ()
    """Names of the workflows that led here, outermost first."""
    answers_client: bool = True
    """Whether this run's responder speaks to the client, streamed or whole."""
    parent_step: StepNotes | None = None
    parent_run_id: str | None = None
    server: ServerParts = field(default_factory=ServerParts)
    """What the server has beside its models: folders for data, locks, scripts."""
    caller: Caller | None = None
    """Whose key came with the request; None where no keys are demanded."""
    api_key: str | None = field(default=None, repr=False)
    """The key that the client showed: it separates, and may encrypt, what is remembered."""
    live: LiveMessages | None = None
    """The conversation of this run; None before the first workflow is entered."""
    times: MessageTimes = field(default_factory=MessageTimes)
    """When the messages of the conversation were sent."""
    at_end: AtEnd = field(default_factory=AtEnd)
    """What has to be done when this run ends, however it ends."""

    def enter(self, workflow: str, messages: Sequence[Message] = ()) -> "RequestScope":
        """The scope inside ``workflow``; raises when that is one level too many.

        A run that is given the very messages of its caller's run shares them: what one inserts
        the other sees (workflow-engine S14). Others are its own.
        """
        chain = (*self.chain, workflow)
        limit = self.config.user.max_workflow_depth
        if len(chain) > limit:
            raise WorkflowTooDeep(limit, chain)
        live = self.live
        if live is None or live.messages is not messages:
            live = LiveMessages(messages)
        return replace(self, chain=chain, live=live, at_end=AtEnd())

    def categorizing(self, categories: Mapping[str, Any]) -> "RequestScope":
        """The scope of a categorization run: it speaks to nobody, gets no tools, and it and its
        children see the routing variables (workflow-engine S8).
        """
        return replace(
            self, answers_client=False, tools=(), tool_choice=None, categories=categories
        )

    def below(self, step: StepNotes, run_id: str, answers_client: bool) -> "RequestScope":
        """The scope that a node hands to the sub-workflow it starts."""
        return replace(self, parent_step=step, parent_run_id=run_id, answers_client=answers_client)
