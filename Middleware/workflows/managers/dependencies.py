"""Which nodes of a ``parallel`` workflow must wait for which (design §6).

A node needs the nodes whose outputs it names, directly or through a variable of its file, and
everything that those need. Nodes with side effects keep their order among each other; a node that
changes the conversation, works on the step before it, or may end the run in front of what it
protects, is needed by all behind it. A node that only runs others has the effects of what it
runs: its branches, and the workflows that it names, as far down as they go.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from Middleware.config.files import Snapshot
from Middleware.core.errors import ConfigError
from Middleware.workflows.managers.workflow_catalog import workflows_named
from Middleware.workflows.managers.workflow_parser import parse_workflow
from Middleware.workflows.models.workflow import Node, Workflow

_OUTPUT = re.compile(r"agent(\d+)Output")
_PLACEHOLDER = re.compile(r"\{\{\s*([^{}.|\s]+)")


class Effects(NamedTuple):
    """What a node does to others."""

    ordered: bool
    """It changes something, so it keeps its place among those that do."""
    barrier: bool
    """All nodes behind it wait for it."""


_UNKNOWN = Effects(ordered=True, barrier=False)


def in_order(config: Snapshot, workflow: Workflow) -> Workflow:
    """The workflow, each of its nodes knowing the positions that it has to wait for."""
    if not workflow.parallel:
        return workflow

    def build() -> Workflow:
        return replace(workflow, nodes=_with_needs(config, workflow))

    return config.once(("needs", workflow.folder, workflow.name, workflow.hash), build)


def _with_needs(config: Snapshot, workflow: Workflow) -> tuple[Node, ...]:
    places = _places(workflow.nodes)
    needs: dict[int, frozenset[int]] = {}
    before: int | None = None
    barrier: set[int] = set()
    ready: list[Node] = []
    for node in workflow.nodes:
        named = _named(node, workflow.variables, places)
        direct = {position for position in named if position < node.position} | barrier
        effects = _effects(config, node, set())
        if effects.ordered:
            if before is not None:
                direct.add(before)
            before = node.position
        if effects.barrier:
            direct.update(needs)
            barrier.add(node.position)
        every = direct.union(*(needs.get(position, frozenset()) for position in direct))
        needs[node.position] = frozenset(every)
        ready.append(replace(node, needs=needs[node.position]))
    return tuple(ready)


def _effects(config: Snapshot, node: Node, seen: set[Path], *, below: bool = False) -> Effects:
    """The node type says so; a file may know better. ``seen``: workflows that were looked at.
    ``below``: the node is one of a sub-workflow, whose steps are its own."""
    if node.handler.only_runs_others(node.options):
        every = [*_of_parts(config, node, seen, below)]
        effects = Effects(any(one.ordered for one in every), any(one.barrier for one in every))
    else:
        kind = node.handler
        barrier = kind.changes_conversation or kind.guards_what_follows
        effects = Effects(kind.has_side_effects, barrier)
    said = node.options.get("sideEffects")
    if isinstance(said, bool):
        effects = Effects(said, said and effects.barrier)
    # What is not named is found by the order alone: any node may have put it there.
    reads = node.handler.reads_step_before(node.options) and not below
    return effects._replace(barrier=True) if reads else effects


def _of_parts(config: Snapshot, node: Node, seen: set[Path], below: bool) -> Iterator[Effects]:
    for branch in node.branches:
        for one in branch:
            yield _effects(config, one, seen, below=below)
    for _, path in workflows_named(config, node):
        if isinstance(path, ConfigError):
            # The run says what is wrong with it, if it comes there.
            yield _UNKNOWN
        elif path not in seen:
            seen.add(path)
            try:
                child = config.load(path, parse_workflow)
            except ConfigError:
                yield _UNKNOWN
                continue
            for one in child.nodes:
                yield _effects(config, one, seen, below=True)


def _places(nodes: Sequence[Node]) -> dict[str | int, int]:
    """Id, slug or position of a node -> where it runs: nodes of branches run in their node."""
    places: dict[str | int, int] = {}
    for node in nodes:
        for one in (*(inner for branch in node.branches for inner in branch), node):
            places.update(dict.fromkeys((one.id, one.slug, one.position), node.position))
    return places


def _named(
    node: Node, variables: Mapping[str, Any], places: Mapping[str | int, int]
) -> frozenset[int]:
    """Where the nodes run whose outputs a node names, or a node of its branches."""
    nodes = (node, *(inner for branch in node.branches for inner in branch))
    text = json.dumps([dict(one.options.raw) for one in nodes], default=str)
    for name, value in variables.items():
        if name in text:
            text += json.dumps(value, default=str)
    wanted: list[str | int] = [int(number) for number in _OUTPUT.findall(text)]
    wanted += _PLACEHOLDER.findall(text)
    return frozenset(places[name] for name in wanted if name in places)
