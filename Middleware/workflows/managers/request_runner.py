"""A request becomes a run: which user, which workflow, which conversation. Doors talk to this."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from Middleware.config.selection import Selection, select
from Middleware.config.store import ConfigStore
from Middleware.core.cancellation import CancelToken
from Middleware.core.clock import Clock, SystemClock
from Middleware.core.events import Event
from Middleware.core.messages import ChatRequest, Message
from Middleware.llm.pool import BackendPool
from Middleware.runs.recorder import Recorder
from Middleware.workflows.managers.conversation_intake import Conversation, take_in
from Middleware.workflows.managers.routing import route
from Middleware.workflows.managers.workflow_manager import WorkflowManager
from Middleware.workflows.models.request_scope import ClientParameters, RequestScope
from Middleware.workflows.models.workflow_call import WorkflowCall

logger = logging.getLogger(__name__)

ENTRY_WORKFLOW = "_DefaultWorkflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A run that a door reads from.

    ``events`` goes up to and including the responder's Finish and raises MiddlewareError. When
    ``has_rest()`` is true after it, the door calls ``rest()`` once, on a thread that no client
    waits for: it runs the nodes behind the responder, and never raises.
    """

    model: str
    events: Iterator[Event]
    rest: Callable[[], None]
    has_rest: Callable[[], bool]
    ignored: Callable[[], tuple[str, ...]]
    """Fields of the request that nobody used, for the header; asked when headers go out."""
    heartbeat_seconds: float
    conversation_id: str | None


class RequestRunner:
    """One a server."""

    def __init__(
        self,
        store: ConfigStore,
        backends: BackendPool,
        recorder: Recorder,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._backends = backends
        self._recorder = recorder
        self._clock = clock or SystemClock()

    def answer(
        self,
        asked: ChatRequest,
        *,
        door: str,
        request_id: str,
        cancel: CancelToken,
        discussion_id: str | None = None,
    ) -> Answer:
        """Start a run; nothing of it has happened when this returns. ``discussion_id`` is what
        a header named (decisions §9). Raises UnknownModel, MalformedRequest, ConfigError.
        """
        selection = select(self._store, asked.model)
        config = self._store.snapshot(selection.user)
        conversation = take_in(asked.messages, config.user, discussion_id or _named_id(asked))
        scope = RequestScope(
            config=config,
            backends=self._backends,
            request_id=request_id,
            cancel=cancel,
            recorder=self._recorder,
            clock=self._clock,
            tools=asked.tools,
            tool_choice=asked.tool_choice,
            parameters=ClientParameters(asked.parameters),
            filler=conversation.filler,
            door=door,
        )
        events = _events(scope, selection, conversation, asked)
        return Answer(
            model=selection.served_name,
            events=events,
            rest=lambda: _rest(events, request_id),
            has_rest=lambda: scope.totals.unfinished,
            ignored=lambda: (*scope.parameters.unused(), *asked.unknown_fields),
            heartbeat_seconds=config.user.heartbeat_seconds,
            conversation_id=conversation.discussion_id,
        )

    def run_workflow(
        self, workflow: str, folder: str | None, messages: tuple[Message, ...], cancel: CancelToken
    ) -> Iterator[Event]:
        """Run one workflow by its name, as the terminal does: the default user's, streamed."""
        config = self._store.snapshot()
        conversation = take_in(messages, config.user, None)
        scope = RequestScope(
            config=config,
            backends=self._backends,
            request_id=self._clock.new_id(),
            cancel=cancel,
            recorder=self._recorder,
            clock=self._clock,
            filler=conversation.filler,
            door="terminal",
        )
        call = WorkflowCall(
            workflow=workflow,
            folder=folder,
            messages=conversation.messages,
            discussion_id=conversation.discussion_id,
            streaming=True,
        )
        return WorkflowManager(call, scope).events()


def _events(
    scope: RequestScope, selection: Selection, conversation: Conversation, asked: ChatRequest
) -> Iterator[Event]:
    """Choosing the workflow may itself run one, so it belongs to the stream."""
    workflow, folder = _chosen(scope, selection, conversation)
    call = WorkflowCall(
        workflow=workflow,
        folder=folder,
        messages=conversation.messages,
        discussion_id=conversation.discussion_id,
        streaming=asked.stream,
        globals=asked.metadata,
    )
    yield from WorkflowManager(call, scope).events()


def _chosen(
    scope: RequestScope, selection: Selection, conversation: Conversation
) -> tuple[str, str | None]:
    """Model name, else the user's custom workflow, else routing (workflow-engine §2)."""
    user = scope.config.user
    if selection.workflow is not None:
        return ENTRY_WORKFLOW, selection.folder
    if user.custom_workflow_override:
        return user.custom_workflow, None
    return route(scope, conversation.messages, conversation.discussion_id), None


def _named_id(asked: ChatRequest) -> str | None:
    named = asked.metadata.get("conversation_id")
    return named if isinstance(named, str) else None


def _rest(events: Iterator[Event], request_id: str) -> None:
    try:
        for _ in events:
            pass
    # The outermost guard of what runs after the answer: nobody is left to tell but the log.
    except Exception:
        logger.exception("Nodes after the answer failed (request %s)", request_id)
