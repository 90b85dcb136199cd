"""A request becomes a run: which user, which workflow, which conversation. Doors talk to this."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from Middleware.config.selection import Selection, select
from Middleware.config.store import ConfigStore
from Middleware.core.cancellation import CancelToken
from Middleware.core.clock import Clock, SystemClock
from Middleware.core.errors import MiddlewareError
from Middleware.core.events import Event, Finish, TextDelta, Usage
from Middleware.core.messages import Caller, ChatRequest, Message
from Middleware.llm.pool import BackendPool
from Middleware.runs.recorder import Recorder
from Middleware.workflows.managers.conversation_intake import Conversation, take_in
from Middleware.workflows.managers.routing import route
from Middleware.workflows.managers.workflow_manager import WorkflowManager
from Middleware.workflows.models.early_end import RunEndsEarly
from Middleware.workflows.models.request_scope import ClientParameters, RequestScope
from Middleware.workflows.models.server_parts import ServerParts
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """What a door knows of a request besides what it asks."""

    door: str
    request_id: str
    cancel: CancelToken
    conversation_id: str | None = None
    """From a header (decisions §9)."""
    caller: Caller | None = None
    """Whose key it was; None where no keys are demanded."""
    api_key: str | None = field(default=None, repr=False)
    """The key itself: it separates what is remembered of different people (front-doors §2.1)."""


class RequestRunner:
    """One a server."""

    def __init__(
        self,
        store: ConfigStore,
        backends: BackendPool,
        recorder: Recorder,
        clock: Clock | None = None,
        server: ServerParts | None = None,
    ) -> None:
        self._store = store
        self._backends = backends
        self._recorder = recorder
        self._clock = clock or SystemClock()
        self._server = server or ServerParts()

    def answer(self, asked: ChatRequest, info: RequestInfo) -> Answer:
        """Start a run; nothing of it has happened when this returns.

        Raises UnknownModel, MalformedRequest, ConfigError.
        """
        selection = select(self._store, asked.model)
        config = self._store.snapshot(selection.user)
        named = info.conversation_id or _named_id(asked)
        conversation = take_in(asked.messages, config.user, named)
        scope = RequestScope(
            config=config,
            backends=self._backends,
            request_id=info.request_id,
            cancel=info.cancel,
            caller=info.caller,
            api_key=info.api_key,
            recorder=self._recorder,
            clock=self._clock,
            tools=asked.tools,
            tool_choice=asked.tool_choice,
            parameters=ClientParameters(asked.parameters),
            filler=conversation.filler,
            server=self._server,
            door=info.door,
        )
        events = _events(scope, selection, conversation, asked)
        return Answer(
            model=selection.served_name,
            events=events,
            rest=lambda: _rest(events, info.request_id),
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
            server=self._server,
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
    finished = False
    try:
        for event in WorkflowManager(call, scope).events():
            finished = finished or isinstance(event, Finish)
            yield event
    except RunEndsEarly as end:
        # The answer that there is stands; without one the client is told why there is none.
        if not finished:
            yield TextDelta(end.message)
            yield Finish("stop", scope.totals.usage or Usage())


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
    except MiddlewareError as error:
        detail = f" ({error.detail})" if error.detail else ""
        text = f"{error.message}{detail}"
        logger.warning("nodes behind the answer failed request=%s: %s", request_id, text)
    # The outermost guard of what runs behind the answer: nobody is left to tell but the log.
    except Exception:
        logger.exception("nodes behind the answer failed request=%s", request_id)
