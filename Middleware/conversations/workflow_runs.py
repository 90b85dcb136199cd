"""Turns run ordinary workflows, with the configuration of the moment (MAP-2)."""

from collections.abc import Iterator

from Middleware.config.files import Snapshot
from Middleware.config.store import ConfigStore
from Middleware.conversations.model import TurnRun
from Middleware.core.cancellation import CancelToken
from Middleware.core.clock import Clock
from Middleware.core.events import Event
from Middleware.llm.pool import BackendPool
from Middleware.runs.recorder import Recorder
from Middleware.workflows.managers.workflow_manager import WorkflowManager
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.server_parts import ServerParts
from Middleware.workflows.models.workflow_call import WorkflowCall

DOOR = "durable"
ENTRY_WORKFLOW = "_DefaultWorkflow"


class WorkflowRuns:
    """A shared workflow by its name, else a file in the user's own folder; ``folder/name`` too."""

    def __init__(
        self,
        store: ConfigStore,
        backends: BackendPool,
        recorder: Recorder,
        clock: Clock,
        server: ServerParts | None = None,
    ) -> None:
        self._store = store
        self._backends = backends
        self._recorder = recorder
        self._clock = clock
        self._server = server or ServerParts()

    def __call__(self, run: TurnRun, cancel: CancelToken) -> Iterator[Event]:
        config = self._store.snapshot()
        name, folder = place_of(config, run.workflow)
        scope = RequestScope(
            config=config,
            backends=self._backends,
            request_id=run.request_id,
            cancel=cancel,
            recorder=self._recorder,
            clock=self._clock,
            server=self._server,
            tools=run.tools,
            door=DOOR,
        )
        call = WorkflowCall(
            workflow=name,
            folder=folder,
            messages=run.messages,
            discussion_id=run.conversation_id,
            streaming=True,
            inputs=run.inputs,
            globals=run.variables,
        )
        yield from WorkflowManager(call, scope).events()


def place_of(config: Snapshot, workflow: str) -> tuple[str, str | None]:
    """Name and folder of the workflow that a profile names."""
    folder, _, name = workflow.rpartition("/")
    shared = None if folder else config.shared_workflow(name)
    if shared:
        return ENTRY_WORKFLOW, shared
    return name, folder or None
