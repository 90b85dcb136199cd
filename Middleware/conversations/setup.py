"""The conversations of a configuration tree, as the server and the commands use them."""

from functools import partial
from pathlib import Path

from Middleware.config.store import ConfigStore
from Middleware.conversations.profiles import FileProfiles
from Middleware.conversations.service import Conversations, Parts
from Middleware.conversations.settings import WorkerSettings
from Middleware.conversations.workflow_runs import WorkflowRuns
from Middleware.core.errors import ConfigError

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
    url: str, store: ConfigStore, run: WorkflowRuns, settings: WorkerSettings | None = None
) -> Conversations:
    """Opens and starts nothing yet."""
    return Conversations(
        Parts(
            database_url=url,
            profiles=FileProfiles(store),
            run=run,
            is_workflow=partial(_is_workflow, store),
            settings=settings or WorkerSettings(),
        )
    )
