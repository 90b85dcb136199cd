"""The order of nodes: edges of a graph, branches, and who answers (design §5, §6)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from Middleware.config.files import Source
from Middleware.config.problems import Problem
from Middleware.core.registry import nearest
from Middleware.workflows.managers.node_parser import Spot
from Middleware.workflows.models.workflow import Node

Edges = dict[str, dict[str, str]]


def parse_edges(raw: Any, nodes: Sequence[Node], source: Source) -> tuple[Edges, list[Problem]]:
    """``edges`` of a graph, and what is wrong with them."""
    mistakes: list[Problem] = []
    edges: Edges = {}
    if not isinstance(raw, list):
        return {}, [_mistake(source, "edges", "must be a list of {from, to, route}.")]
    ids = [node.id for node in nodes]
    for index, edge in enumerate(raw):
        place = f"edges[{index}]"
        if not isinstance(edge, Mapping):
            mistakes.append(_mistake(source, place, "an edge must be an object {from, to, route}."))
            continue
        start, end, route = edge.get("from"), edge.get("to"), _route(edge.get("route"))
        wrong = [
            _unknown_end(source, f"{place}.{key}", end_id, ids)
            for key, end_id in (("from", start), ("to", end))
            if end_id not in ids
        ]
        mistakes.extend(wrong)
        if wrong:
            continue
        leaving = edges.setdefault(str(start), {})
        if route in leaving:
            shown = f"route {route!r}" if route else "default route"
            mistakes.append(
                _mistake(source, place, f"node {start!r} has a second edge for its {shown}.")
            )
            continue
        leaving[route] = str(end)
    return edges, mistakes


def _route(written: Any) -> str:
    """YAML reads an unquoted ``true`` as a truth value; here it is the route of that name."""
    if isinstance(written, bool):
        return "true" if written else "false"
    return str(written or "")


def warn_of_lost_nodes(first: Node, nodes: Sequence[Node], edges: Edges, source: Source) -> None:
    """Nodes that no path from the first one reaches, and routes that lead nowhere."""
    reached, waiting = set[str](), [first.id]
    while waiting:
        id = waiting.pop()
        if id not in reached:
            reached.add(id)
            waiting.extend(edges.get(id, {}).values())
    for node in nodes:
        spot = Spot(source, node.position - 1, node.id)
        if node.id not in reached:
            spot.warn("unreachable_node", "", f"no edge leads to node {node.id!r}.")
        leaving = edges.get(node.id, {})
        missing = [r for r in node.handler.routes(node.options) if r not in leaving]
        if missing and "" not in leaving:
            spot.warn(
                "missing_route",
                "",
                f"node {node.id!r} has no edge for {', '.join(map(repr, missing))}; the run "
                "ends there.",
            )


def warn_of_lost_routes(nodes: Sequence[Node], source: Source) -> None:
    """A list has no edges: a route names the node to go on with."""
    ids = {node.id for node in nodes}
    for node in nodes:
        policy = node.policy
        if policy.on_error == "route" and policy.route not in ids:
            Spot(source, node.position - 1, node.id).warn(
                "missing_route",
                "onErrorRoute",
                f"there is no node {policy.route!r}; the run ends when this one fails.",
                "Name the id of the node to go on with.",
            )


def answering(nodes: Sequence[Node], edges: Edges | None, source: Source) -> tuple[Node, ...]:
    """The nodes with ``responds`` set where they may answer.

    Those that say so: of a list only the first (workflow-engine §6). If none does, the last node
    of a list, and the nodes of a graph that no edge leaves.
    """
    said = [node for node in nodes if _says_so(node)]
    if edges is None:
        for extra in said[1:]:
            Spot(source, extra.position - 1, extra.id).warn(
                "two_responders",
                "",
                f"node {said[0].position} answers already; this one does not reach the client.",
                "Keep `is_responder` on one node.",
            )
        chosen = {said[0].id if said else nodes[-1].id}
    elif said:
        chosen = {node.id for node in said}
    else:
        chosen = {node.id for node in nodes if not edges.get(node.id)}
    return tuple(replace(node, responds=node.id in chosen) for node in nodes)


def with_branches(nodes: Sequence[Node], source: Source) -> tuple[tuple[Node, ...], list[Problem]]:
    """Parallel nodes with their branches; the nodes in those are taken out of the order."""
    by_id = {node.id: node for node in nodes}
    taken: set[str] = set()
    mistakes: list[Problem] = []
    whole: list[Node] = []
    for node in nodes:
        named = getattr(node.options, "branches", ())
        place = f"nodes[{node.position - 1}].branches"
        inside = [id for branch in named for id in branch]
        unknown = [id for id in inside if id not in by_id]
        nested = [id for id in inside if id in by_id and hasattr(by_id[id].options, "branches")]
        for id in nested:
            message = f"node {id!r} is a Parallel node, which cannot stand in a branch."
            remedy = "Put its branches into this node, or what they do into a workflow."
            mistakes.append(_mistake(source, place, message, remedy))
        twice = [id for id in inside if id in taken]
        for id in unknown:
            mistakes.append(_unknown_end(source, place, id, list(by_id)))
        for id in twice:
            mistakes.append(_mistake(source, place, f"node {id!r} is in another branch already."))
        if unknown or nested or twice or not named:
            whole.append(node)
            continue
        taken.update(inside)
        branches = tuple(tuple(by_id[id] for id in branch) for branch in named if branch)
        whole.append(replace(node, branches=branches))
    return tuple(node for node in whole if node.id not in taken), mistakes


def _says_so(node: Node) -> bool:
    options = node.options
    says: bool = options.return_to_user if options.is_responder is None else options.is_responder
    return says


def _unknown_end(source: Source, place: str, id: Any, ids: list[str]) -> Problem:
    close = nearest(str(id), ids)
    return _mistake(
        source,
        place,
        f"there is no node {id!r}.",
        f"Did you mean {close!r}?" if close else f"There are: {', '.join(ids)}.",
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
