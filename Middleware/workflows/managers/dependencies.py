"""Which nodes of a ``parallel`` workflow must wait for which (design §6).

A node needs the nodes whose outputs it names, directly or through a variable of its file, and
everything that those need. Nodes with side effects keep their order among each other, and a node
that changes the conversation, or that may end the run in front of what it protects, is needed by
all behind it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from Middleware.workflows.models.workflow import Node

_OUTPUT = re.compile(r"agent(\d+)Output")
_PLACEHOLDER = re.compile(r"\{\{\s*([^{}.|\s]+)")


def with_needs(nodes: Sequence[Node], variables: Mapping[str, Any]) -> tuple[Node, ...]:
    """The nodes, each knowing the positions that it has to wait for."""
    by_name = {name: node.position for node in nodes for name in (node.id, node.slug)}
    needs: dict[int, frozenset[int]] = {}
    before: int | None = None
    barrier: set[int] = set()
    ready: list[Node] = []
    for node in nodes:
        direct = {p for p in _named(node, variables, by_name) if p < node.position} | barrier
        if _has_side_effects(node):
            if before is not None:
                direct.add(before)
            before = node.position
        if node.handler.changes_conversation or node.handler.guards_what_follows:
            direct.update(needs)
            barrier.add(node.position)
        every = direct.union(*(needs.get(position, frozenset()) for position in direct))
        needs[node.position] = frozenset(every)
        ready.append(replace(node, needs=needs[node.position]))
    return tuple(ready)


def _has_side_effects(node: Node) -> bool:
    """The node type says so; a file may know better about a sub-workflow."""
    said = node.options.get("sideEffects")
    return said if isinstance(said, bool) else bool(node.handler.has_side_effects)


def _named(node: Node, variables: Mapping[str, Any], by_name: Mapping[str, int]) -> frozenset[int]:
    text = json.dumps(dict(node.options.raw), default=str)
    for name, value in variables.items():
        if name in text:
            text += json.dumps(value, default=str)
    outputs = {int(number) for number in _OUTPUT.findall(text)}
    named = {by_name[name] for name in _PLACEHOLDER.findall(text) if name in by_name}
    return frozenset(outputs | named)
