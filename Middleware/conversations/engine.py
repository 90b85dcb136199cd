"""The durable engine, DBOS Transact. No other module imports it, and importing this one costs
half a second and 64 MB: ``service.py`` does so when the first conversation is used.

What is used of it: a queue that a transaction of ours can add to; workflows that are begun again
after a crash; recorded step results; writes that only the owner of a workflow can make. What is
not: its messages, its events, its own recovery, its pickled values (style §15).
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, WorkflowStatus
from dbos._queue import queue_worker_thread
from sqlalchemy import Connection

from Middleware.conversations.database import Database, reaching_it
from Middleware.conversations.pace import Pace
from Middleware.conversations.repair import EngineTask
from Middleware.conversations.settings import EngineSettings

logger = logging.getLogger(__name__)

APPLICATION = "headrace"
VERSION = "conversations-1"
"""Never the program's own version: work of another one would wait for ever (ENG-6)."""
SCHEMA = "dbos"
QUEUE = "conversations"
WORKFLOW = "advance"
MOST_AT_ONCE = 64
"""The setting in the database, where the last writer wins: so all write the same. How many turns a
process works on is bounded by the process itself."""

_WAITING = ("ENQUEUED", "DELAYED")
_RUNNING = "PENDING"

RunStep = Callable[[str, Callable[[], str]], str]


class EngineQueue:
    """The engine as seen from a process that accepts signals; it need not work itself."""

    def __init__(self, database: Database) -> None:
        self._client = DBOSClient(
            system_database_engine=database.engine,
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
            retry_connection_errors=False,
            lazy=True,
        )

    def enqueue(self, connection: Connection, conversation_id: str, task_id: str) -> None:
        self._client.enqueue_in_transaction(
            connection,
            {
                "workflow_name": WORKFLOW,
                "queue_name": QUEUE,
                "workflow_id": task_id,
                "app_version": VERSION,
            },
            conversation_id,
            task_id,
        )

    @reaching_it()
    def look(self, task_ids: Sequence[str]) -> Mapping[str, EngineTask]:
        found = self._client.list_workflows(
            workflow_ids=list(task_ids), load_input=False, load_output=False
        )
        return {status.workflow_id: _task(status) for status in found if _is_open(status)}

    @reaching_it()
    def running(self, limit: int) -> Mapping[str, str | None]:
        found = self._client.list_workflows(
            name=WORKFLOW, status=_RUNNING, load_input=False, load_output=False, limit=limit
        )
        return {status.workflow_id: status.executor_id for status in found}

    def is_run_by(self, task_id: str, executor: str) -> bool:
        """Whether the engine still has this executor down as the one that runs the task."""
        task = self.look([task_id]).get(task_id)
        return task is not None and task.runs and task.executor == executor

    @reaching_it()
    def hand_on(self, task_id: str) -> None:
        self._client.resume_workflow(task_id, queue_name=QUEUE)

    @reaching_it()
    def drop(self, task_id: str) -> None:
        self._client.cancel_workflow(task_id)

    def forget_finished(self, before: str, limit: int) -> int:
        """Remove records of tasks that ended before a time (ISO 8601); how many (ENG-11)."""
        ended = self._client.list_workflows(
            name=WORKFLOW,
            status=["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"],
            completed_before=before,
            load_input=False,
            load_output=False,
            limit=limit,
        )
        if ended:
            self._client.delete_workflows([status.workflow_id for status in ended])
        return len(ended)

    def close(self) -> None:
        self._client.destroy()


def _is_open(status: WorkflowStatus) -> bool:
    return status.status in _WAITING or status.status == _RUNNING


def _task(status: WorkflowStatus) -> EngineTask:
    return EngineTask(
        waits=status.status in _WAITING,
        runs=status.status == _RUNNING,
        executor=status.executor_id,
        ours=status.app_version in (None, VERSION),
    )


class Engine:
    """Runs tasks in this process. There can be one at a time: the library is a singleton."""

    def __init__(self, database: Database, executor: str, settings: EngineSettings) -> None:
        self._database = database
        self._executor = executor
        self._settings = settings
        self._pace = Pace(database.has_waiting_task)
        self._loop: threading.Thread | None = None

    def hurry(self) -> None:
        """A task was made in this process: it need not wait to be seen."""
        self._pace.hurry()

    @reaching_it()
    def start(self, advance: Callable[[str, str, RunStep], str], *, works: bool) -> None:
        """Create or update the engine's tables; then take tasks if ``works``.

        ``advance`` gets the ids of conversation and task, and a function that runs a step by its
        name and records the result.
        """
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_engine": self._database.engine,
            "application_version": VERSION,
            "executor_id": self._executor,
            "serializer": DBOSPortableJSONSerializer(),
            "dbos_system_schema": SCHEMA,
            "use_listen_notify": False,
            "log_level": "WARNING",
            "max_executor_threads": MOST_AT_ONCE * 2,
        }
        _log_like_everybody_else()
        library = DBOS(config=config)

        @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
        def workflow(conversation_id: str, task_id: str) -> str:
            return advance(conversation_id, task_id, _run_step)

        # The library would look for work at every tick of its clock, 3 % of a core for nothing. Its
        # own loop is run here instead, with a clock of ours: the one thing that is not public of
        # what is used of it (and versions are exact).
        DBOS.listen_queues([])
        try:
            DBOS.launch()
        except BaseException:
            # Half a start would be in the way of the next one.
            self.stop()
            raise
        queue = DBOS.register_queue(
            QUEUE,
            worker_concurrency=MOST_AT_ONCE,
            polling_interval_sec=self._settings.poll_seconds,
            on_conflict="always_update",
        )
        if works:
            loop = threading.Thread(
                target=queue_worker_thread,
                args=(self._pace, library, queue),
                name="conversation-tasks",
                daemon=True,
            )
            loop.start()
            self._loop = loop

    def stop(self) -> None:
        """Tasks that are being worked on stay as they are, for the next worker."""
        self._pace.stop()
        if self._loop is not None:
            self._loop.join(timeout=10)
        DBOS.destroy(destroy_registry=True)


def _log_like_everybody_else() -> None:
    """The library brings a handler of its own; the server's log is the place for its lines."""
    library = logging.getLogger("dbos")
    library.handlers = [logging.NullHandler()]
    library.propagate = True


def _run_step(name: str, step: Callable[[], str]) -> str:
    return DBOS.run_step({"name": name}, step)
