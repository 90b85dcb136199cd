"""What is wrong with workflow files: each by itself, and what they name (design §3, `check`)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from Middleware.config.check import files_below, own_problems
from Middleware.config.files import Snapshot
from Middleware.config.lookup import Found, ambiguous, differ_by_case, find_folder
from Middleware.config.paths import UnsafeName, parts_of
from Middleware.config.problems import Problem, Severity
from Middleware.config.store import CURRENT_USER_FILE, ConfigStore
from Middleware.core.errors import ConfigError
from Middleware.workflows.check_names import Asker, named_problems
from Middleware.workflows.check_nodes import CODES as NODE_CODES
from Middleware.workflows.check_nodes import node_problems
from Middleware.workflows.check_scripts import CODES as SCRIPT_CODES
from Middleware.workflows.cycles import SubCall, cycles, is_certain
from Middleware.workflows.handlers.base.named_files import names_in
from Middleware.workflows.handlers.base.node_handler import node_types
from Middleware.workflows.managers.workflow_catalog import workflows_named
from Middleware.workflows.managers.workflow_parser import parse_workflow
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.variables.known import (
    CATEGORY_MEANINGS,
    MEANINGS,
    template_problems,
)

CODES = {
    "no_nodes": "an object without `nodes` where a workflow is wanted",
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
    "workflow_cycle": "a workflow that comes to run itself",
    "missing_workflow": "a node names a workflow that is not there",
    "missing_endpoint": "a node names an endpoint that is not there, or is broken",
    "missing_preset": "a node names a preset that is not there, or is broken",
    "missing_mcp_server": "a node names an MCP server that is not there, or is broken",
    "missing_schema": "a node names a JSON Schema that is not there, or is broken",
    "unknown_variable": "a {name} that nothing can fill in; it stays as text",
    "escaped_variable": "{{name}} in a file where that is the name in single braces, as text",
    "unknown_placeholder": "a {{name}} that nothing can fill in; it stays as text",
    "jinja_syntax": "a Jinja2 template that cannot be read",
    "lone_brace": "a brace that belongs to no variable; it stays as text",
    **NODE_CODES,
    **SCRIPT_CODES,
}
_EARLY_FIELDS = ("endpointName", "preset")
_CONTENT_FIELDS = (
    "systemPrompt",
    "prompt",
    "content",
    "conditionalKey",
    "condition",
    "expression",
    "fieldToExtract",
    "filepath",
    "jsonToExtractFrom",
    "keywords",
    "message",
    "promptToSearch",
    "ragTarget",
    "tagToExtractFrom",
    "url",
)
_OUTPUT = re.compile(r"agent(\d+)Output")


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
    labels: dict[Path, str] = {}
    calls: dict[Path, tuple[SubCall, ...]] = {}
    while waiting:
        folder = waiting.pop(0)
        if folder in seen:
            continue
        seen.add(folder)
        for files in _by_name(config, folder):
            if len(files) > 1:
                found = Found(files[0], files)
                yield ambiguous(found, config.store.locations.show, using_last_good=False)
            for path in files:
                # As requests load it, so that an edit that breaks it later does no harm.
                file = config.store.cache.file(path, parse_workflow)
                yield from (one for one in own_problems(file) if not _is_settings(one))
                if file.newest is None:
                    continue
                workflow = file.newest.value.value
                yield from _references(config, workflow, file.file)
                waiting.extend(_folders_named(config, workflow))
                labels[path] = workflow.label
                calls[path] = tuple(_calls(config, workflow, file.file))
        yield from _alike(config, folder)
    yield from cycles(labels, calls)


def _calls(config: Snapshot, workflow: Workflow, file: str) -> Iterator[SubCall]:
    """The workflows that a file names, as far as one can tell before it runs."""
    for node in workflow:
        for named, target in workflows_named(config, node):
            # One that is not there is said where the names are looked at.
            if isinstance(target, Path):
                place = f"nodes[{node.position - 1}].{named.key}"
                yield SubCall(file, place, target, is_certain(workflow, node))


def _alike(config: Snapshot, folder: str) -> Iterator[Problem]:
    root = _root(config, folder)
    if root is not None:
        listing = config.store.cache.listing_now(root)
        yield from differ_by_case(listing, root, config.store.locations.show)


def _is_settings(problem: Problem) -> bool:
    """Settings of memory nodes lie among workflows. One that must be a workflow is no such."""
    return problem.code == "no_nodes" and not Path(problem.file).stem.startswith("_Default")


def _folders(config: Snapshot) -> Iterator[str]:
    user = config.user
    yield user.workflow_folder
    for name in config.shared_workflows():
        yield f"{user.shared_folder}/{name}"


def _folders_named(config: Snapshot, workflow: Workflow) -> Iterator[str]:
    """Where the workflows lie that this one names."""
    for node in workflow:
        own = config.user.workflow_folder
        folder = getattr(node.options, "workflow_user_folder_override", "") or own
        if "{" not in folder:
            yield folder
            for named in names_in(node.options):
                if named.kind == "workflow" and "/" in named.name:
                    yield f"{folder}/{named.name.rpartition('/')[0]}"


def _root(config: Snapshot, folder: str) -> Path | None:
    listing_of = config.store.cache.listing_now
    try:
        parts = parts_of(folder)
    except UnsafeName:
        # Said where it is named.
        return None
    return find_folder(listing_of, config.store.locations.workflows, parts, exact=False)


def _by_name(config: Snapshot, folder: str) -> list[tuple[Path, ...]]:
    """The files of each name in a folder; usually one."""
    root = _root(config, folder)
    if root is None:
        return []
    names = config.store.cache.listing_now(root).by_name
    return [tuple(root / file for file in names[name]) for name in sorted(names)]


def _references(config: Snapshot, workflow: Workflow, file: str) -> Iterator[Problem]:
    known = _known_names(config, workflow)
    for node in workflow:
        place = f"nodes[{node.position - 1}]"
        if node_types.find(node.type_name) is None:
            message = f"nodes of type {node.type_name!r} cannot be run by this version."
            yield _problem("later_node_type", file, f"{place}.type", message, severity="warning")
        asker = Asker(config, node.options, workflow.variables, file, f"{place}.")
        yield from named_problems(asker, node)
        yield from node_problems(asker, node, workflow)
        yield from _lost_overrides(config, node, file, place)
        told_outputs = _outputs(workflow, node)
        for problem in _texts(node, known | told_outputs, _live_names(workflow), file, place):
            yield _explained(problem, workflow, node)


def _lost_overrides(config: Snapshot, node: Node, file: str, place: str) -> Iterator[Problem]:
    """Overrides that no route ever finds: capitalised otherwise than they are looked up
    (decisions §5), or of a route that the node does not have."""
    overrides = node.options.get("routeOverrides")
    if not isinstance(overrides, Mapping):
        return
    for key in overrides:
        right = key.strip().capitalize()
        if not _has_route(node, key.strip().lower()):
            message = f"no route is called {key!r}, and none runs in its place."
            remedy = "Add it to conditionalWorkflows, or remove the override."
        elif config.user.route_overrides_lookup == "capitalized" and key != right:
            message = (
                "routes are looked up with the first letter upper case and the others lower "
                f"case, so {key!r} is never found."
            )
            remedy = (
                f"Write {right!r}, or set routeOverridesLookup to 'caseInsensitive' in the user "
                "file."
            )
        else:
            continue
        where = f"{place}.routeOverrides.{key}"
        yield _problem("override_never_found", file, where, message, remedy, severity="warning")


def _has_route(node: Node, key: str) -> bool:
    """Whether a workflow runs for a key: its own, or the default one."""
    named = node.options.get("conditionalWorkflows")
    pairs = named.items() if isinstance(named, Mapping) else ()
    routes = {str(name).strip().lower() for name, workflow in pairs if workflow}
    says_text = node.options.get("UseDefaultContentInsteadOfWorkflow") is not None
    return key in routes or ("default" in routes and not says_text)


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


def _outputs(workflow: Workflow, node: Node) -> frozenset[str]:
    """Outputs that may be there when the node runs: in a graph any node may have run before."""
    last = len(tuple(workflow)) if workflow.is_graph else node.position - 1
    return frozenset(f"agent{number}Output" for number in range(1, last + 1))


def _explained(problem: Problem, workflow: Workflow, node: Node) -> Problem:
    """What is wrong with an output that is named too early, or that no node has."""
    found = _OUTPUT.search(problem.message) if problem.code == "unknown_variable" else None
    if found is None:
        return problem
    number, count = int(found[1]), len(tuple(workflow))
    if number > count or number == 0:
        message = f"There is no node {number}: the workflow has {count}."
        remedy = "Name the output of one of them."
    else:
        message = f"The output of node {number} is not there yet when node {node.position} runs."
        remedy = "Move that node in front of this one, or name the output of an earlier one."
    return replace(problem, message=f"{message} {found[0]} stays as text.", remedy=remedy)


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
    # What is settled before the node runs is never a Jinja2 template, and never live.
    early = [(key, text, False, None) for key, text in _texts_of(node.options, _EARLY_FIELDS)]
    jinja = bool(node.options.jinja2)
    late = [(key, text, jinja, live) for key, text in _content_fields(node.options)]
    for key, text, is_jinja, placeholders in (*early, *late):
        for problem in template_problems(text, known, jinja=is_jinja, live=placeholders):
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
