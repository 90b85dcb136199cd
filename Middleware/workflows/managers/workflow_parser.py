"""A workflow file becomes a :class:`Workflow`; what is odd about it is reported on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from Middleware.config.files import Source
from Middleware.config.problems import BrokenFile, Problem
from Middleware.config.validation import problems_of
from Middleware.core.registry import nearest
from Middleware.workflows.handlers import impl as impl
from Middleware.workflows.handlers.base.node_handler import NodeType, node_types
from Middleware.workflows.handlers.base.node_options import NodeOptions, known_keys
from Middleware.workflows.handlers.impl.sub_workflow_handler import (
    ConditionalCustomWorkflowOptions,
)
from Middleware.workflows.managers.later_types import later_type
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.variables.early import EARLY_NUMBERS

_EARLY_TEXTS = ("endpointName", "preset")
_DEFAULT_TYPE = "Standard"


def parse_workflow(raw: Any, source: Source) -> Workflow:
    """A list of nodes, or an object with ``nodes`` whose other keys are variables.

    Raises BrokenFile with every mistake of the file at once.
    """
    entries, variables = _parts(raw, source)
    nodes: list[Node] = []
    mistakes: list[Problem] = []
    ids = _ids(entries, source)
    for index, entry in enumerate(entries):
        place = f"nodes[{index}]"
        if not isinstance(entry, Mapping):
            mistakes.append(_mistake(source, place, "a node must be an object."))
            continue
        parsed = _parse_node(entry, _Spot(source, place, index, ids[index]))
        if isinstance(parsed, Node):
            nodes.append(parsed)
        else:
            mistakes.extend(parsed)
    if mistakes:
        raise BrokenFile(tuple(mistakes))
    folder, _, name = source.file.removeprefix("Workflows/").rpartition("/")
    return Workflow(
        name=name.rsplit(".", 1)[0],
        folder=folder,
        hash=source.digest,
        nodes=tuple(nodes),
        responder=_responder(nodes, source),
        first_prompt_node=next((node.position for node in nodes if node.takes_prompt), None),
        variables=variables,
        live_placeholders=_is_live(variables),
    )


def _parts(raw: Any, source: Source) -> tuple[Sequence[Any], Mapping[str, Any]]:
    if isinstance(raw, list):
        entries, variables = raw, {}
    elif isinstance(raw, Mapping):
        entries = raw.get("nodes", [])
        variables = {key: value for key, value in raw.items() if key != "nodes"}
    else:
        raise BrokenFile(
            (_mistake(source, "", "a workflow is a list of nodes, or an object with `nodes`."),)
        )
    if not isinstance(entries, list):
        raise BrokenFile((_mistake(source, "nodes", "must be a list of nodes."),))
    if not entries:
        raise BrokenFile(
            (_mistake(source, "nodes", "there is no node to run.", "Add at least one node."),)
        )
    return entries, variables


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where in the file a node stands."""

    source: Source
    place: str
    index: int
    id: str

    def warn(self, code: str, key: str, message: str, remedy: str = "") -> None:
        self.source.report(
            Problem(
                code=code,
                severity="warning",
                file=self.source.file,
                place=f"{self.place}.{key}" if key else self.place,
                message=message,
                remedy=remedy,
            )
        )


def _parse_node(raw: Mapping[str, Any], spot: _Spot) -> Node | list[Problem]:
    kind = _type_of(raw, spot)
    try:
        options = kind.options.read(raw)
    except ValidationError as error:
        return list(problems_of(error, spot.source.file, spot.place))
    if kind.options is not NodeOptions:
        _warn_of_unknown_keys(raw, kind.options, spot)
    if isinstance(options, ConditionalCustomWorkflowOptions):
        _warn_of_lost_overrides(options, spot)
    return Node(
        id=spot.id,
        position=spot.index + 1,
        type_name=kind.name,
        name=options.title or options.agent_name or spot.id,
        options=options,
        handler=kind.handler,
        early_fields=_early_fields(raw, spot),
        takes_prompt="systemPrompt" in raw or "prompt" in raw,
    )


def _type_of(raw: Mapping[str, Any], spot: _Spot) -> NodeType:
    """The node's type; what is missing or unknown runs as Standard, with a warning (nodes S24)."""
    name = raw.get("type") or _DEFAULT_TYPE
    known = node_types.find(str(name)) or later_type(str(name))
    if known is not None:
        return known
    close = nearest(str(name), node_types.names())
    spot.warn(
        "unknown_node_type",
        "type",
        f"there is no node type {name!r}; it runs as {_DEFAULT_TYPE}.",
        f"Did you mean {close!r}?" if close else "",
    )
    return node_types.get(_DEFAULT_TYPE)


def _ids(entries: Sequence[Any], source: Source) -> list[str]:
    """The nodes' ids; a node without one is ``node_N`` by its place."""
    ids: list[str] = []
    for index, entry in enumerate(entries):
        given = entry.get("id") if isinstance(entry, Mapping) else None
        own = given if isinstance(given, str) and given.strip() else f"node_{index + 1}"
        if own in ids:
            _Spot(source, f"nodes[{index}]", index, own).warn(
                "duplicate_node_id",
                "id",
                f"node {ids.index(own) + 1} has the id {own!r} too; this one is called "
                f"node_{index + 1}.",
                "Give every node an id of its own.",
            )
            own = f"node_{index + 1}"
        ids.append(own)
    return ids


def _responder(nodes: Sequence[Node], source: Source) -> int:
    """The first that says so, else the last (workflow-engine §6)."""
    said = [node for node in nodes if _responds(node.options)]
    for extra in said[1:]:
        _Spot(source, f"nodes[{extra.position - 1}]", extra.position - 1, extra.id).warn(
            "two_responders",
            "",
            f"node {said[0].position} answers already; this one does not reach the client.",
            "Keep `is_responder` on one node.",
        )
    return said[0].position if said else nodes[-1].position


def _responds(options: NodeOptions) -> bool:
    if options.is_responder is not None:
        return options.is_responder
    return options.return_to_user


def _early_fields(raw: Mapping[str, Any], spot: _Spot) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    for key in (*_EARLY_TEXTS, *EARLY_NUMBERS):
        value = raw.get(key)
        if isinstance(value, str) and ("{" in value or not _is_plain(key, value)):
            fields[key] = value
            if "{" not in value:
                spot.warn("not_a_number", key, f"{value!r} is no number; the default is used.")
    return fields


def _is_plain(key: str, value: str) -> bool:
    if key in _EARLY_TEXTS or not value.strip():
        return True
    try:
        float(value)
    except ValueError:
        return False
    return True


def _warn_of_unknown_keys(raw: Mapping[str, Any], options: type[NodeOptions], spot: _Spot) -> None:
    known = known_keys(options)
    for key in raw:
        if key in known:
            continue
        close = nearest(key, known)
        if close is not None:
            spot.warn(
                "unknown_key",
                key,
                "this key is not known and has no effect.",
                f"Did you mean {close!r}?",
            )


def _warn_of_lost_overrides(options: ConditionalCustomWorkflowOptions, spot: _Spot) -> None:
    """Override keys are looked up capitalised: other spellings are never found (decisions §5)."""
    for key in options.route_overrides or {}:
        if key != key.strip().capitalize():
            spot.warn(
                "override_never_found",
                f"routeOverrides.{key}",
                f"routes are looked up with the first letter upper case and the others lower "
                f"case, so {key!r} is never found.",
                f"Write {key.strip().capitalize()!r}, or set routeOverridesLookup to "
                f"'caseInsensitive' in the user file.",
            )


def _is_live(variables: Mapping[str, Any]) -> bool:
    """Whether ``{{name}}`` is a placeholder in this file (decisions §3)."""
    return (
        "edges" in variables
        or isinstance(variables.get("globalVariables"), Mapping)
        or variables.get("placeholders") is True
    )


def _mistake(source: Source, place: str, message: str, remedy: str = "") -> Problem:
    return Problem(
        code="invalid_workflow",
        severity="error",
        file=source.file,
        place=place,
        message=message,
        remedy=remedy,
    )
