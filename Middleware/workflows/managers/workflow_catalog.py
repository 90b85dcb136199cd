"""Finds a workflow and loads it. Parsed once by the file cache, again when the file changes."""

from Middleware.config.files import Snapshot
from Middleware.workflows.managers.workflow_parser import parse_workflow
from Middleware.workflows.models.workflow import Workflow


def load_workflow(config: Snapshot, name: str, folder: str | None = None) -> Workflow:
    """The workflow ``name`` of a folder below ``Workflows/`` (None: the user's own).

    Raises ConfigError naming the file and what is wrong with it, or the nearest name.
    """
    return config.load(config.workflow_file(name, folder), parse_workflow)
