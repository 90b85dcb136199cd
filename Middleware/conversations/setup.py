"""The conversations of a configuration tree, as the server and the commands use them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from Middleware.config.durable import Durable
from Middleware.config.store import ConfigStore
from Middleware.conversations.profiles import FileProfiles
from Middleware.conversations.rules import Limits
from Middleware.conversations.service import Conversations, Parts
from Middleware.conversations.settings import RepairSettings, RetentionSettings, WorkerSettings
from Middleware.conversations.workflow_runs import WorkflowRuns
from Middleware.core.errors import ConfigError

Adapt = Callable[[WorkerSettings], WorkerSettings]

FOLDER, FILE = "SqlLiteDBs", "durable.sqlite"


def database_url(given: str | None, public: Path, folder: Path | None = None) -> str:
    """Where conversations are kept: ``--database``, else a file among the run-time data."""
    if given:
        return given
    return f"sqlite:///{(folder or public / FOLDER).absolute() / FILE}"


def _is_workflow(store: ConfigStore, name: str) -> bool:
    try:
        return store.snapshot().shared_workflow(name) is not None
    except ConfigError:
        return False


def build_conversations(
    url: str, store: ConfigStore, run: WorkflowRuns, adapted: Adapt = lambda settings: settings
) -> Conversations:
    """Opens and starts nothing yet. ``adapted`` may change what the configuration says."""
    wanted = durable_settings(store)
    return Conversations(
        Parts(
            database_url=url,
            profiles=FileProfiles(store),
            run=run,
            is_workflow=partial(_is_workflow, store),
            limits=Limits(
                payload_bytes=wanted.max_payload_bytes,
                unapplied_signals=wanted.max_unapplied_signals,
            ),
            settings=adapted(worker_settings(wanted)),
        )
    )


def durable_settings(store: ConfigStore) -> Durable:
    """What the default user's file says; defaults where it cannot be read, which `check` tells."""
    try:
        return store.snapshot().user.durable
    except ConfigError:
        return Durable()


def worker_settings(wanted: Durable) -> WorkerSettings:
    """What a user file says, as a worker takes it."""
    return WorkerSettings(
        lease_seconds=wanted.lease_seconds,
        loop_throttle_seconds=wanted.repair_every_seconds,
        turns_at_once=wanted.turns_at_once,
        model_max_attempts=wanted.model_max_attempts,
        retry_pause_seconds=wanted.retry_pause_seconds,
        task_max_failures=wanted.task_max_failures,
        repair=RepairSettings(
            redispatch_after_seconds=wanted.redispatch_after_seconds,
            scan_limit=wanted.repair_scan_limit,
            failure_backoff_max_seconds=wanted.failure_backoff_max_seconds,
        ),
        retention=RetentionSettings(
            record_days=wanted.keep_replies_days,
            conversation_days=wanted.keep_conversations_days,
        ),
    )
