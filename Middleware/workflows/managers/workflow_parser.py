"""A workflow file becomes a :class:`Workflow`; what is odd about it is reported on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from Middleware.config.files import Source
from Middleware.config.problems import BrokenFile, Problem
from Middleware.workflows.handlers import impl as impl
from Middleware.workflows.managers.edges import (
    Edges,
    answering,
    parse_edges,
    warn_of_lost_nodes,
    warn_of_lost_routes,
    with_branches,
)
from Middleware.workflows.managers.node_parser import Spot, node_ids, parse_node
from Middleware.workflows.models.workflow import Node, Workflow

Variables = Mapping[str, Any]


def parse_workflow(raw: Any, source: Source) -> Workflow:
    """A list of nodes, or an object with ``nodes`` whose other keys are variables; with
    ``edges`` it is a graph. Raises BrokenFile with every mistake of the file at once.
    """
    entries, variables = _parts(raw, source)
    nodes = _nodes(entries, source)
    edges: Edges | None = None
    mistakes: list[Problem] = []
    if "edges" in variables:
        edges, mistakes = parse_edges(variables["edges"], nodes, source)
    outer, wrong_branches = with_branches(nodes, source)
    if mistakes or wrong_branches:
        raise BrokenFile((*mistakes, *wrong_branches))
    first_prompt = next((node.position for node in nodes if node.takes_prompt), None)
    parallel = edges is None and variables.get("parallel") is True
    outer = answering(outer, edges, source)
    folder, _, name = source.file.removeprefix("Workflows/").rpartition("/")
    workflow = Workflow(
        name=name.rsplit(".", 1)[0],
        folder=folder,
        hash=source.digest,
        nodes=outer,
        edges=edges,
        first_prompt_node=first_prompt,
        variables=variables,
        live_placeholders=_is_live(variables),
        parallel=parallel,
    )
    if edges is None:
        warn_of_lost_routes(nodes, source)
    else:
        warn_of_lost_nodes(workflow.first, outer, edges, source)
    return workflow


def _parts(raw: Any, source: Source) -> tuple[Sequence[Any], Variables]:
    if isinstance(raw, list):
        entries, variables = raw, {}
    elif isinstance(raw, Mapping):
        if "nodes" not in raw:
            # Settings of memory nodes are such files, and lie among workflows.
            raise BrokenFile((replace(_no_node(source), code="no_nodes"),))
        entries = raw["nodes"]
        variables = {key: value for key, value in raw.items() if key != "nodes"}
    else:
        raise BrokenFile(
            (_mistake(source, "", "a workflow is a list of nodes, or an object with `nodes`."),)
        )
    if not isinstance(entries, list):
        raise BrokenFile((_mistake(source, "nodes", "must be a list of nodes."),))
    if not entries:
        raise BrokenFile((_no_node(source),))
    return entries, variables


def _no_node(source: Source) -> Problem:
    return _mistake(source, "nodes", "there is no node to run.", "Add at least one node.")


def _nodes(entries: Sequence[Any], source: Source) -> list[Node]:
    nodes: list[Node] = []
    mistakes: list[Problem] = []
    ids = node_ids(entries, source)
    for index, entry in enumerate(entries):
        spot = Spot(source, index, ids[index])
        if not isinstance(entry, Mapping):
            mistakes.append(_mistake(source, spot.place, "a node must be an object."))
            continue
        parsed = parse_node(entry, spot)
        if isinstance(parsed, Node):
            nodes.append(parsed)
        else:
            mistakes.extend(parsed)
    if mistakes:
        raise BrokenFile(tuple(mistakes))
    return nodes


def _is_live(variables: Variables) -> bool:
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
