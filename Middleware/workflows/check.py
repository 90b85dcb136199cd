"""What is wrong with workflow files: each by itself, and what they name (design §3, `check`)."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from Middleware.config.check import files_below
from Middleware.config.files import Snapshot, Source
from Middleware.config.problems import BrokenFile, Problem, Severity
from Middleware.config.store import CURRENT_USER_FILE, ConfigStore
from Middleware.core.errors import ConfigError
from Middleware.workflows.handlers.base.node_handler import node_types
from Middleware.workflows.managers.workflow_parser import parse_workflow
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.variables.early import resolve_early
from Middleware.workflows.variables.known import (
    CATEGORY_MEANINGS,
    MEANINGS,
    template_problems,
)

CODES = {
    "invalid_workflow": "a workflow file that cannot be run",
    "unknown_node_type": "a node type that does not exist; it runs as Standard",
    "later_node_type": "a node type that this version cannot run yet",
    "duplicate_node_id": "two nodes of one id",
    "two_responders": "more than one node says that it answers the client",
    "invalid_on_error": "a word for onError that is none; the node fails",
    "unreachable_node": "a node of a graph that no edge leads to",
    "missing_route": "a route of a node that no edge follows; the run ends there",
    "not_a_number": "a number that is none; the default is used",
    "override_never_found": "a key of routeOverrides that no route can ever find",
    "missing_workflow": "a node names a workflow that is not there",
    "missing_endpoint": "a node names an endpoint that is not there, or is broken",
    "missing_preset": "a node names a preset that is not there, or is broken",
    "unknown_variable": "a {name} that nothing can fill in; it stays as text",
    "escaped_variable": "{{name}} in a file where that is the name in single braces, as text",
    "unknown_placeholder": "a {{name}} that nothing can fill in; it stays as text",
    "jinja_syntax": "a Jinja2 template that cannot be read",
    "lone_brace": "a brace that belongs to no variable; it stays as text",
}
_SUFFIXES = {".json", ".yaml", ".yml"}
_EARLY_FIELDS = ("endpointName", "preset")
_CONTENT_FIELDS = ("systemPrompt", "prompt", "content", "conditionalKey")


def check_workflows(store: ConfigStore) -> list[Problem]:
    """Every problem of the workflows that any user of the tree can reach, each told once."""
    found: dict[tuple[str, str, str, str], Problem] = {}
    for path in files_below(store, store.locations.configs / "Users", deepest=0):
        name = path.stem
        if name == CURRENT_USER_FILE:
            continue
        try:
            config = store.snapshot(name)
        except ConfigError:
            # The user's file is broken, which `check_files` tells.
            continue
        for problem in _of_user(config):
            key = (problem.code, problem.file, problem.place, problem.message)
            found.setdefault(key, problem)
    return list(found.values())


def _of_user(config: Snapshot) -> Iterator[Problem]:
    waiting, seen = list(_folders(config)), set[str]()
    while waiting:
        folder = waiting.pop(0)
        if folder in seen:
            continue
        seen.add(folder)
        for path in _files(config, folder):
            try:
                workflow = config.load(path, _parse)
            except BrokenFile as error:
                yield from error.problems
                continue
            except ConfigError as error:
                yield _problem("invalid_workflow", path.name, "", error.problem, error.remedy)
                continue
            if workflow is None:
                continue
            yield from workflow.reports
            yield from _references(config, workflow.workflow, workflow.file)
            waiting.extend(_folders_named(workflow.workflow))


def _folders(config: Snapshot) -> Iterator[str]:
    user = config.user
    yield user.workflow_folder
    for name in config.shared_workflows():
        yield f"{user.shared_folder}/{name}"


def _folders_named(workflow: Workflow) -> Iterator[str]:
    for node in workflow:
        folder = node.options.get("workflowUserFolderOverride")
        if isinstance(folder, str) and folder and "{" not in folder:
            yield folder


def _files(config: Snapshot, folder: str) -> list[Path]:
    root = config.store.locations.workflows / folder
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.suffix.lower() in _SUFFIXES)


class _Checked:
    """A workflow with what was reported while it was read."""

    def __init__(self, workflow: Workflow, file: str, reports: tuple[Problem, ...]) -> None:
        self.workflow = workflow
        self.file = file
        self.reports = reports


class _Listener:
    """A source that keeps the reports as well."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.reports: list[Problem] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def report(self, problem: Problem) -> None:
        self.reports.append(problem)


def _parse(raw: Any, source: Source) -> _Checked | None:
    """None for settings files, which lie among workflows too: objects without ``nodes``."""
    if isinstance(raw, Mapping) and "nodes" not in raw:
        return None
    listener: Any = _Listener(source)
    workflow = parse_workflow(raw, listener)
    return _Checked(workflow, source.file, tuple(listener.reports))


def _references(config: Snapshot, workflow: Workflow, file: str) -> Iterator[Problem]:
    known = _known_names(config, workflow)
    for node in workflow:
        place = f"nodes[{node.position - 1}]"
        if node_types.find(node.type_name) is None:
            message = f"nodes of type {node.type_name!r} cannot be run by this version."
            yield _problem("later_node_type", file, f"{place}.type", message, severity="warning")
        yield from _workflows_named(config, workflow, node, file, place)
        yield from _models_named(config, workflow, node, file, place)
        yield from _texts(node, known, _live_names(workflow), file, place)


def _workflows_named(
    config: Snapshot, workflow: Workflow, node: Node, file: str, place: str
) -> Iterator[Problem]:
    options = node.options
    folder = options.get("workflowUserFolderOverride") or None
    if isinstance(folder, str) and "{" in folder:
        return
    named: dict[str, Any] = {}
    if options.get("workflowName"):
        named["workflowName"] = options.get("workflowName")
    routes = options.get("conditionalWorkflows")
    if isinstance(routes, Mapping):
        named.update({f"conditionalWorkflows.{key}": name for key, name in routes.items()})
    for key, name in named.items():
        if not isinstance(name, str) or not name:
            continue
        try:
            config.workflow_file(name, folder)
        except ConfigError as error:
            yield _problem(
                "missing_workflow", file, f"{place}.{key}", error.message, severity="error"
            )


def _models_named(
    config: Snapshot, workflow: Workflow, node: Node, file: str, place: str
) -> Iterator[Problem]:
    def resolved(text: Any) -> str | None:
        if not isinstance(text, str) or not text:
            return None
        user = config.user.user_wide_workflow_variables
        filled = resolve_early(text, workflow.variables, {}, user, {})
        return None if "{" in filled else filled

    name = resolved(node.options.get("endpointName"))
    if name is None:
        return
    try:
        endpoint = config.endpoint(name)
        api_type = config.api_type(endpoint.api_type_config_file_name)
    except ConfigError as error:
        yield _problem(
            "missing_endpoint", file, f"{place}.endpointName", error.message, severity="error"
        )
        return
    preset = resolved(node.options.get("preset"))
    try:
        config.preset(endpoint, api_type, preset)
    except ConfigError as error:
        yield _problem("missing_preset", file, f"{place}.preset", error.message, severity="error")


def _known_names(config: Snapshot, workflow: Workflow) -> frozenset[str]:
    inputs = {f"agent{number}Input" for number in range(1, 51)}
    return frozenset(
        {
            *MEANINGS,
            *CATEGORY_MEANINGS,
            *workflow.variables,
            *map(str, config.user.user_wide_workflow_variables),
            *inputs,
        }
    )


def _live_names(workflow: Workflow) -> frozenset[str] | None:
    """What ``{{name}}`` may name; None in a file where it is an escape."""
    if not workflow.live_placeholders:
        return None
    given = workflow.variables.get("globalVariables")
    return frozenset({"question", *(given if isinstance(given, Mapping) else ())}) | {
        node.id for node in workflow
    }


def _texts(
    node: Node, known: frozenset[str], live: frozenset[str] | None, file: str, place: str
) -> Iterator[Problem]:
    names = known | {f"agent{number}Output" for number in range(1, node.position)}
    # What is settled before the node runs is never a Jinja2 template, and never live.
    early = [(key, text, False, None) for key, text in _texts_of(node.options, _EARLY_FIELDS)]
    jinja = bool(node.options.jinja2)
    late = [(key, text, jinja, live) for key, text in _content_fields(node.options)]
    for key, text, is_jinja, placeholders in (*early, *late):
        for problem in template_problems(text, names, jinja=is_jinja, live=placeholders):
            yield _problem(
                problem.code,
                file,
                f"{place}.{key}",
                problem.message,
                problem.remedy,
                severity="error" if problem.code == "jinja_syntax" else "warning",
            )


def _texts_of(options: Any, keys: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for key in keys:
        text = options.get(key)
        if isinstance(text, str):
            yield key, text


def _content_fields(options: Any) -> Iterator[tuple[str, str]]:
    yield from _texts_of(options, _CONTENT_FIELDS)
    for key in ("scoped_variables", "scopedVariables", "strings"):
        items = options.get(key)
        if isinstance(items, list):
            for index, item in enumerate(items):
                if isinstance(item, str):
                    yield f"{key}[{index}]", item


def _problem(
    code: str, file: str, place: str, message: str, remedy: str = "", severity: Severity = "error"
) -> Problem:
    return Problem(
        code=code, severity=severity, file=file, place=place, message=message, remedy=remedy
    )
