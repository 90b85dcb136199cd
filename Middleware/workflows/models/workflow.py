"""A workflow file, loaded and validated: a list of nodes, ready to run."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from Middleware.workflows.models.error_policy import NO_POLICY, ErrorPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of a file. Everything that does not change between runs is worked out here."""

    id: str
    """The file's ``id``, or ``node_1`` ... by position; unique in the workflow."""
    position: int
    """From 1: the N of ``agent{N}Output``."""
    type_name: str
    name: str
    """What people call it: title, else agentName, else id."""
    options: Any
    """The node type's own frozen options."""
    handler: Any
    early_fields: Mapping[str, str] = field(default_factory=dict)
    """Option -> text with variables, resolved before each run (variables §6)."""
    takes_prompt: bool = False
    """Whether the file gives it a ``systemPrompt`` or ``prompt``: overrides go to the first."""
    slug: str = ""
    """What ``{{…}}`` may call it besides its id: made of agentName or title (decisions §3)."""
    responds: bool = False
    """Whether it answers the caller when it is reached and nobody has answered yet."""
    policy: ErrorPolicy = NO_POLICY
    needs: frozenset[int] = frozenset()
    """Positions of nodes that must have run before, where independent nodes run at once."""
    branches: tuple[tuple["Node", ...], ...] = ()
    """Of a ``Parallel`` node: the nodes of each branch, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """``variables`` are the top-level keys of the file other than ``nodes``."""

    name: str
    folder: str
    hash: str
    """SHA-256 of the file's bytes, hex."""
    nodes: tuple[Node, ...]
    first_prompt_node: int | None
    edges: Mapping[str, Mapping[str, str]] | None = None
    """Graphs: id of a node -> route -> id of the next; the route "" is the default. None: a
    list, whose edges go to the next node."""
    parallel: bool = False
    """Whether nodes that do not need each other run at once."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    live_placeholders: bool = False

    @property
    def label(self) -> str:
        """What people call it: an entry workflow goes by the name of its folder."""
        if self.name == "_DefaultWorkflow" and self.folder:
            return self.folder.rpartition("/")[2]
        return self.name

    @property
    def record(self) -> dict[str, Any]:
        return {"name": self.name, "folder": self.folder, "hash": self.hash}

    @property
    def global_defaults(self) -> Mapping[str, Any]:
        """``globalVariables`` of the file, where it is an object."""
        given = self.variables.get("globalVariables")
        return given if isinstance(given, Mapping) else {}

    def switch(self, key: str, otherwise: bool) -> bool:
        """A setting of users that a workflow's file may decide for itself."""
        said = self.variables.get(key)
        if said is None:
            return otherwise
        return said.strip().lower() == "true" if isinstance(said, str) else bool(said)

    @property
    def is_graph(self) -> bool:
        return self.edges is not None

    @property
    def first(self) -> Node:
        """A graph begins at its Start node, anything else at the top."""
        if self.is_graph:
            for node in self.nodes:
                if node.type_name == "Start":
                    return node
        return self.nodes[0]

    def node(self, id: str) -> Node | None:
        return next((node for node in self if node.id == id), None)

    def successor(self, node: Node, route: str | None) -> Node | None:
        """The node to run after ``node``; None where the run ends.

        In a list a route names the node to go on with. In a graph it names an edge; a route
        without an edge of its own takes the default edge.
        """
        if self.edges is None:
            if route is not None:
                return self.node(route)
            # In a list the positions rise; nodes of branches stand in between and have left it.
            place = bisect_right(self.nodes, node.position, key=lambda other: other.position)
            return self.nodes[place] if place < len(self.nodes) else None
        leaving = self.edges.get(node.id, {})
        target = leaving.get(route or "", leaving.get(""))
        return None if target is None else self.node(target)

    def __iter__(self) -> Iterator[Node]:
        """Every node, those inside of branches too."""
        for node in self.nodes:
            for branch in node.branches:
                yield from branch
            yield node
