"""A request becomes a run: which user, which workflow, which conversation. Doors talk to this."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from Middleware.config.files import Snapshot
from Middleware.config.models import User
from Middleware.config.selection import Selection, own_model, require_own, select
from Middleware.config.store import ConfigStore
from Middleware.core.cancellation import CancelToken
from Middleware.core.clock import Clock, SystemClock
from Middleware.core.errors import ConfigError, MiddlewareError
from Middleware.core.events import Event, Finish, TextDelta, Usage
from Middleware.core.messages import Caller, ChatRequest
from Middleware.runs.recorder import Recorder
from Middleware.workflows.managers import liveness
from Middleware.workflows.managers.chores import is_chore
from Middleware.workflows.managers.conversation_intake import Conversation, is_safe_id, take_in
from Middleware.workflows.managers.liveness import LivenessCall, cleaned, kept_alive
from Middleware.workflows.managers.routing import route
from Middleware.workflows.managers.workflow_catalog import ENTRY_WORKFLOW as ENTRY_WORKFLOW
from Middleware.workflows.managers.workflow_catalog import find_workflow
from Middleware.workflows.managers.workflow_manager import WorkflowManager
from Middleware.workflows.models.early_end import RunEndsEarly
from Middleware.workflows.models.request_scope import (
    TOOLS,
    Backends,
    ClientParameters,
    RequestScope,
)
from Middleware.workflows.models.server_parts import ServerParts
from Middleware.workflows.models.workflow_call import WorkflowCall

logger = logging.getLogger(__name__)


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
    clamped: Callable[[], int]
    """How many messages the context clamp has left out, for the header; asked as ``ignored`` is."""
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
    front_end_id: str | None = None
    """From a front end's own header; counts where the user allows it (decisions §9)."""
    idempotency_key: str | None = None
    """What makes a repeated request the same one."""
    session: str | None = None
    """Of a coding agent: groups its runs, but is no conversation (decisions §9)."""
    trace_context: Mapping[str, str] = field(default_factory=dict)
    """The headers ``traceparent`` and ``tracestate``, as they came."""


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that begins when its events are read."""

    id: str
    events: Iterator[Event]


class RequestRunner:
    """One a server."""

    def __init__(
        self,
        store: ConfigStore,
        backends: Backends,
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

        Raises UnknownModel, KeyNotAllowed, MalformedRequest, ConfigError.
        """
        model = asked.model or own_model(self._store, info.caller)
        selection = select(self._store, model, info.caller)
        require_own(info.caller, selection)
        config = self._store.snapshot(selection.user)
        alive = self._liveness(config)
        messages = cleaned(asked.messages, alive) if alive else asked.messages
        named = info.conversation_id or _named_id(asked) or _front_end_id(info, config.user)
        conversation = take_in(messages, config.user, named)
        if is_chore(asked):
            conversation = replace(conversation, discussion_id=None, chore=True)
            # Not what it says: it quotes the conversation.
            logger.info("a chore of the front end, no turn request=%s", info.request_id)
        scope = replace(
            self._scope(config, conversation, info),
            tools=asked.tools,
            tool_choice=asked.tool_choice,
            parameters=ClientParameters(asked.parameters),
        )
        events = _events(scope, selection, conversation, asked)
        if alive and asked.stream and info.door in liveness.DOORS:
            events = kept_alive(events, alive, lambda: scope.totals.keeps_alive, info.request_id)
        return Answer(
            model=selection.served_name,
            events=events,
            rest=lambda: _rest(events, info.request_id),
            has_rest=lambda: scope.totals.unfinished,
            clamped=lambda: scope.totals.dropped_messages,
            ignored=lambda: _ignored(scope, asked),
            heartbeat_seconds=config.user.heartbeat_seconds,
            conversation_id=conversation.discussion_id,
        )

    def _liveness(self, config: Snapshot) -> LivenessCall | None:
        value = config.user.liveness_tool_call
        if value is None:
            return None
        call = LivenessCall.parse(value)
        if call is None:
            self._store.warn_once(
                f"Users/{config.user.name}: `livenessToolCall` names no `toolName`; it is off."
            )
        return call

    def run_workflow(
        self, call: WorkflowCall, info: RequestInfo, user: str | None = None
    ) -> Iterator[Event]:
        """Run one workflow by its name, as the terminal and the test runner do.

        ``user`` None is the default user. Raises as :meth:`answer` does.
        """
        return self._manager(self._store.snapshot(user), call, info).events()

    def start_workflow(self, name: str, call: WorkflowCall, info: RequestInfo) -> StartedRun:
        """The same by the name that people use (``find_workflow``), for who wants to look on.

        The workflow is the caller's; without one it is the default user's.
        """
        user = info.caller.user if info.caller else ""
        config = self._store.snapshot(user or None)
        folder, workflow = find_workflow(config, name)
        manager = self._manager(config, replace(call, workflow=workflow, folder=folder), info)
        return StartedRun(id=manager.run_id, events=manager.events())

    def _manager(self, config: Snapshot, call: WorkflowCall, info: RequestInfo) -> WorkflowManager:
        conversation = take_in(tuple(call.messages), config.user, info.conversation_id)
        call = replace(
            call, messages=conversation.messages, discussion_id=conversation.discussion_id
        )
        return WorkflowManager(call, self._scope(config, conversation, info))

    def _scope(
        self, config: Snapshot, conversation: Conversation, info: RequestInfo
    ) -> RequestScope:
        return RequestScope(
            config=config,
            backends=self._backends,
            request_id=info.request_id,
            session=info.session,
            trace_context=info.trace_context,
            cancel=info.cancel,
            caller=info.caller,
            api_key=info.api_key,
            recorder=self._recorder,
            clock=self._clock,
            filler=conversation.filler,
            server=self._server,
            door=info.door,
        )


def _ignored(scope: RequestScope, asked: ChatRequest) -> tuple[str, ...]:
    """What nobody has used so far, as the client calls it: sampling fields, tools that no node let
    through, and fields that nothing here knows."""
    tools = [
        name
        for name, value in (("tools", asked.tools), ("tool_choice", asked.tool_choice))
        if value and TOOLS not in scope.parameters.used
    ]
    parameters = [asked.field_names.get(name, name) for name in scope.parameters.unused()]
    return (*parameters, *tools, *asked.unknown_fields)


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
    if conversation.chore and user.chore_workflow:
        return _of_chores(scope.config)
    if selection.workflow is not None:
        return ENTRY_WORKFLOW, selection.folder
    if user.custom_workflow_override:
        if not user.custom_workflow:
            raise ConfigError(
                "This is empty although `customWorkflowOverride` is on.",
                file=f"Users/{user.name}.json",
                where="customWorkflow",
                remedy="Name the workflow that is to answer.",
            )
        return user.custom_workflow, None
    return route(scope, conversation.messages, conversation.discussion_id), None


def _of_chores(config: Snapshot) -> tuple[str, str | None]:
    """``choreWorkflow``: one in the user's folder, else a shared one."""
    name = config.user.chore_workflow
    shared = config.shared_workflow(name)
    if shared is not None:
        try:
            config.workflow_file(name)
        except ConfigError:
            return ENTRY_WORKFLOW, shared
    return name, None


def _front_end_id(info: RequestInfo, user: User) -> str | None:
    """One that cannot name a folder is not refused: the person at the front end cannot change it
    (Open WebUI's temporary chats are called ``local:...``).
    """
    found = info.front_end_id if user.conversation_id_from_front_end else None
    return found if found is not None and is_safe_id(found) else None


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
