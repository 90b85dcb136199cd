"""Finds a workflow and loads it. Parsed once by the file cache, again when the file changes."""

from collections.abc import Iterator
from pathlib import Path

from Middleware.config.files import Snapshot
from Middleware.config.problems import BrokenFile
from Middleware.core.errors import ConfigError, UnknownWorkflow
from Middleware.core.registry import nearest
from Middleware.workflows.handlers.base.named_files import Named, names_in
from Middleware.workflows.managers.workflow_parser import parse_workflow
from Middleware.workflows.models.workflow import Node, Workflow

ENTRY_WORKFLOW = "_DefaultWorkflow"
"""The file of a shared workflow that runs when its folder is named."""


def load_workflow(config: Snapshot, name: str, folder: str | None = None) -> Workflow:
    """The workflow ``name`` of a folder below ``Workflows/`` (None: the user's own).

    Raises ConfigError naming the file and what is wrong with it, or the nearest name.
    """
    return config.load(config.workflow_file(name, folder), parse_workflow)


def workflows_named(config: Snapshot, node: Node) -> Iterator[tuple[Named, Path | ConfigError]]:
    """The workflows that a node names, and their files or why there is none."""
    folder = getattr(node.options, "workflow_user_folder_override", "") or None
    for named in names_in(node.options):
        if named.kind != "workflow":
            continue
        try:
            yield named, config.workflow_file(named.name, folder)
        except ConfigError as error:
            yield named, error


def find_workflow(config: Snapshot, name: str) -> tuple[str | None, str]:
    """``folder/name``, the name of a shared workflow, or a file of the user's own folder.

    Raises UnknownWorkflow with the nearest name when there is none.
    """
    folder, _, workflow = name.rpartition("/")
    if folder:
        missing = _missing(config, workflow, folder)
        if missing is not None:
            raise UnknownWorkflow(f"There is no workflow {name!r}.", remedy=missing.remedy)
        return folder, workflow
    shared = config.shared_workflow(name)
    if shared is not None:
        return shared, ENTRY_WORKFLOW
    if _missing(config, name, None) is not None:
        known = config.shared_workflows()
        close = nearest(name, known)
        raise UnknownWorkflow(
            f"There is no workflow {name!r}.",
            remedy=f"Did you mean {close!r}?"
            if close
            else f"There are: {', '.join(known) or 'none'}; others are called folder/name.",
        )
    return None, name


def _missing(config: Snapshot, name: str, folder: str | None) -> BrokenFile | None:
    try:
        config.workflow_file(name, folder)
    except BrokenFile as error:
        if error.problems[0].code != "missing_file":
            raise
        return error
    return None
