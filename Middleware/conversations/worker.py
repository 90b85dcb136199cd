"""One process that works on conversations: its lease, its tasks, and its share of the repairs."""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import TypeVar

from Middleware.conversations import task as tasks
from Middleware.conversations.activities import Activities, Outside, WorkerStopping, error_text
from Middleware.conversations.database import Database
from Middleware.conversations.engine import Engine, EngineQueue, RunStep
from Middleware.conversations.failing import task_failed
from Middleware.conversations.leases import Duty, Lease, bury_all
from Middleware.conversations.models import LostTask, StorageUnavailable
from Middleware.conversations.repair import Repairer
from Middleware.conversations.retention import Retention
from Middleware.conversations.settings import WorkerSettings
from Middleware.conversations.sole_owner import SoleOwner
from Middleware.conversations.steps import Steps
from Middleware.conversations.task import DONE, Task
from Middleware.core.errors import MiddlewareError

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Worker:
    """Start it once. ``executor`` names this start of this process, and no other ever."""

    def __init__(
        self, database: Database, outside: Outside, settings: WorkerSettings | None = None
    ) -> None:
        self._settings = settings or WorkerSettings()
        self._database = database
        self._outside = outside
        self.executor = f"exec-{uuid.uuid4().hex}"
        self._engine = Engine(database, self.executor, self._settings.engine)
        self._lease = Lease(database, self.executor, self._settings.lease_seconds)
        self._sole = SoleOwner(database.file)
        self._queue = EngineQueue(database)
        self._repairer = Repairer(database, self._queue, self._settings.repair, outside.checkpoint)
        self._steps = Steps(database, self._queue)
        self._activities = Activities(database, outside)
        self._stopping = threading.Event()
        self._fallen: dict[str, float] = {}
        """Tasks that failed here, by id, and when."""
        self._slots = threading.Semaphore(self._settings.turns_at_once)
        self._thread = threading.Thread(target=self._maintain, name="conversations", daemon=True)

    def start(self) -> EngineQueue:
        """Takes tasks from now on. The queue is for the inbox of the same process."""
        if self._sole.is_proved():
            bury_all(self._database)
        self._sole.share()
        # Before the engine may take a task: nobody must think that this process is dead.
        self._lease.take()
        self._engine.start(self._advance, works=True)
        self._thread.start()
        return self._queue

    def hurry(self) -> None:
        """Something was accepted in this process: look for a task at once."""
        self._engine.hurry()

    @property
    def repairer(self) -> Repairer:
        return self._repairer

    def stop(self) -> None:
        """Ends without waiting for turns; they are gone on with by the next worker."""
        self._stopping.set()
        self._outside.cancel.cancel()
        self._thread.join(timeout=10)
        self._engine.stop()
        self._queue.close()
        with contextlib.suppress(MiddlewareError):
            self._lease.give_up()
        self._sole.close()

    # Tasks

    def _advance(self, conversation_id: str, task_id: str, run_step: RunStep) -> str:
        """One task, from one wait to the next (ENG-5). What it does next depends on recorded
        results alone, so that a repetition goes the same way.
        """
        self._fallen.pop(task_id, None)
        try:
            return self._work_on(conversation_id, task_id, run_step)
        except (LostTask, WorkerStopping):
            raise
        except Exception:
            self._fallen[task_id] = time.monotonic()
            raise

    def _work_on(self, conversation_id: str, task_id: str, run_step: RunStep) -> str:
        with self._slots:
            if not self._persist(lambda: self._queue.is_run_by(task_id, self.executor)):
                return DONE
            mine = self._persist(
                lambda: tasks.begin(self._database, conversation_id, task_id, self.executor)
            )
            if mine is None:
                return DONE
            self._outside.checkpoint("begin:committed")
            try:
                return self._run_steps(mine, run_step)
            except (LostTask, StorageUnavailable):
                raise
            except Exception as error:
                logger.exception("conversation %s cannot go on", conversation_id)
                self._note_failure(mine, error)
                raise

    def _run_steps(self, mine: Task, run_step: RunStep) -> str:
        step = "take"
        while step != DONE:
            following = run_step(step, self._step(step, mine))
            self._outside.checkpoint(f"{step}:recorded")
            if step == "hand_over":
                # The next run may have a task already.
                self.hurry()
            step = following
        return DONE

    def _note_failure(self, mine: Task, error: Exception) -> None:
        most = self._settings.task_max_failures
        longest = self._settings.repair.failure_backoff_max_seconds
        try:
            self._persist(
                lambda: task_failed(self._database, mine, error_text(error), most, longest)
            )
        except LostTask:
            return
        except Exception:
            # The first failure is the one to be told.
            logger.exception("a failure could not be noted, conversation=%s", mine.conversation_id)
        self._outside.changed(mine.conversation_id)

    def _pick_up(self) -> None:
        """The engine notes that a task has failed, and the repair pass sees it there. With a disk
        that was full it could not, and takes it for running in this process, which lives.
        """
        before = time.monotonic() - self._settings.repair.redispatch_after_seconds
        for task_id, fell_at in tuple(self._fallen.items()):
            if fell_at <= before:
                if self._queue.is_run_by(task_id, self.executor):
                    self._queue.hand_on(task_id)
                self._fallen.pop(task_id, None)

    def _step(self, name: str, mine: Task) -> Callable[[], str]:
        functions: dict[str, Callable[[Task], str]] = {
            "take": self._steps.take,
            "think": self._activities.think,
            "act": self._activities.act,
            "reply": self._steps.reply,
            "finish": self._steps.finish,
            "hand_over": self._steps.hand_over,
        }

        def step() -> str:
            self._outside.checkpoint(f"{name}:begin")
            following = self._persist(lambda: functions[name](mine))
            self._outside.changed(mine.conversation_id)
            self._outside.checkpoint(f"{name}:committed")
            return following

        return step

    def _persist(self, work: Callable[[], T]) -> T:
        """Waits while the database is gone, and goes on when it is back (FAIL-9)."""
        while True:
            try:
                return work()
            except StorageUnavailable as error:
                logger.warning("the database is gone, waiting: %s", error.detail)
            if self._stopping.wait(self._settings.storage_pause_seconds):
                raise WorkerStopping

    # Maintenance

    def _maintain(self) -> None:
        settings = self._settings
        beat = min(1.0, settings.lease_seconds / 3)
        renew_at = time.monotonic() + settings.lease_seconds / 3
        repair = Duty(self._database, "repair", self.executor)
        clean = Duty(self._database, "retention", self.executor)
        retention = Retention(self._database, self._queue, settings.retention)
        while not self._stopping.is_set():
            try:
                if time.monotonic() >= renew_at:
                    self._renew()
                    renew_at = time.monotonic() + settings.lease_seconds / 3
                self._outside.stops.look(self._database)
                self._pick_up()
                if self._repairer.wake_due():
                    self.hurry()
                if repair.take(settings.lease_seconds, settings.loop_throttle_seconds):
                    self._repairer.run()
                    repair.done()
                if clean.take(settings.lease_seconds, settings.retention.every_seconds):
                    retention.run()
                    clean.done()
            except StorageUnavailable as error:
                logger.warning("the database is gone: %s", error.detail)
            # The outermost guard of a background thread: the next round may do better.
            except Exception:
                logger.exception("maintenance of conversations failed")
            self._stopping.wait(beat)

    def _renew(self) -> None:
        if not self._lease.renew():
            logger.warning("the lease was lost, this process stood still for too long")
            self._lease.take()
