"""Whether what nodes name is there: workflows, endpoints, presets, MCP servers, schemas, and the
settings files of node types. Which options name something, their types say (``named_files``).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from Middleware.config.check import own_problems
from Middleware.config.files import Snapshot
from Middleware.config.models import ApiType, Endpoint
from Middleware.config.problems import Problem, Severity
from Middleware.core.errors import ConfigError
from Middleware.llm.check import problems_of_use
from Middleware.workflows.handlers.base.named_files import Named, names_in
from Middleware.workflows.managers.workflow_catalog import workflows_named
from Middleware.workflows.managers.workflow_parser import parse_workflow
from Middleware.workflows.models.workflow import Node
from Middleware.workflows.variables.early import resolve_early


class Asker(NamedTuple):
    """What names something: a node, or the settings file of a node type."""

    config: Snapshot
    options: BaseModel
    variables: Mapping[str, Any]
    """Of its file; endpoints and presets may be named by them."""
    file: str
    place: str
    """``nodes[2].``, or nothing."""

    def problem(
        self, code: str, key: str, message: str, remedy: str = "", severity: Severity = "error"
    ) -> Problem:
        place = f"{self.place}{key}"
        return Problem(
            code=code,
            severity=severity,
            file=self.file,
            place=place,
            message=message,
            remedy=remedy,
        )

    def written(self, named: Named, found: str) -> Iterator[Problem]:
        """A name that is found on any system, because nobody minds upper and lower case here."""
        asked = named.name.replace("\\", "/").rpartition("/")[2]
        if asked != found:
            message = f"It names {named.name!r}; the file is called {found!r}."
            yield self.problem("name_case", named.key, message, f"Write {found!r}.", "warning")


def named_problems(asker: Asker, node: Node) -> Iterator[Problem]:
    """Everything about the names of one node, and about its settings file."""
    yield from _workflows(asker, node)
    yield from _others(asker)
    yield from _settings_file(asker, node)


def _workflows(asker: Asker, node: Node) -> Iterator[Problem]:
    for named, found in workflows_named(asker.config, node):
        if isinstance(found, ConfigError):
            yield asker.problem("missing_workflow", named.key, found.message)
            continue
        yield from asker.written(named, found.stem)
        failure = asker.config.store.cache.file(found, parse_workflow).failure
        yield from (one for one in failure if one.code == "no_nodes")


def _others(asker: Asker) -> Iterator[Problem]:
    endpoint: str | None = None
    preset = False
    for named in names_in(asker.options):
        if named.kind == "workflow":
            continue
        resolved = _resolved(asker, named)
        preset = preset or named.kind == "preset"
        if "{" in resolved.name:
            continue
        if named.key == "endpointName":
            endpoint = resolved.name
        try:
            found = _find(asker.config, resolved, endpoint)
        except ConfigError as error:
            yield asker.problem(f"missing_{_CODES[named.kind]}", named.key, error.message)
            continue
        if found is not None:
            yield from asker.written(resolved, found)
        if named.kind == "endpoint":
            model = _endpoint(asker.config, resolved.name)
            place = f"{asker.place}{named.key}"
            yield from problems_of_use(asker.config, *model, asker.file, place)
    if not preset:
        # What the endpoint itself always appends may be missing, too.
        try:
            _find_preset(asker.config, endpoint, None)
        except ConfigError as error:
            yield asker.problem("missing_preset", "preset", error.message)


_CODES = {
    "endpoint": "endpoint",
    "preset": "preset",
    "mcp_server": "mcp_server",
    "structured_output": "schema",
}


def _resolved(asker: Asker, named: Named) -> Named:
    """Endpoints and presets are known before a run; other names only where they are literal."""
    if named.kind not in ("endpoint", "preset"):
        return named
    user = asker.config.user.user_wide_workflow_variables
    return named._replace(name=resolve_early(named.name, asker.variables, {}, user, {}))


def _find(config: Snapshot, named: Named, endpoint_name: str | None) -> str | None:
    """What the file is called; None when it does not matter. Raises ConfigError."""
    if named.kind == "mcp_server":
        return config.mcp_server(named.name).name
    if named.kind == "structured_output":
        config.structured_output(named.name)
        return config.structured_output_file(named.name).stem
    if named.kind == "endpoint":
        return _endpoint(config, named.name)[0].name
    return _find_preset(config, endpoint_name, named.name)


def _endpoint(config: Snapshot, name: str) -> tuple[Endpoint, ApiType]:
    endpoint = config.endpoint(name)
    return endpoint, config.api_type(endpoint.api_type_config_file_name)


def _find_preset(config: Snapshot, endpoint_name: str | None, name: str | None) -> str | None:
    if endpoint_name is None:
        return None
    try:
        endpoint, api_type = _endpoint(config, endpoint_name)
    except ConfigError:
        # Said of the endpoint.
        return None
    config.preset(endpoint, api_type, name)
    return config.preset_file(api_type, name).stem if name else None


def _settings_file(asker: Asker, node: Node) -> Iterator[Problem]:
    settings = node.handler.settings_file
    if settings is None:
        return
    config, name = asker.config, settings.name(asker.config.user).strip()
    if not name:
        message = f"It does nothing: the user has no {settings.key}."
        remedy = f"Name its settings file in the user file, under {settings.key}."
        yield asker.problem("incomplete", "type", message, remedy, "warning")
        return
    try:
        path = config.workflow_file(name)
    except ConfigError:
        # Said of the user's file.
        return
    file = config.store.cache.file(path, settings.parse)
    yield from own_problems(file)
    if file.newest is None:
        return
    value = file.newest.value.value
    of_file = Asker(config, value, {}, file.file, "")
    if not getattr(value, "endpoint_name", ""):
        message = "This is missing or empty; nothing can be done without a model."
        yield of_file.problem("missing_key", "endpointName", message, "Name an endpoint.")
    yield from _others(of_file)
