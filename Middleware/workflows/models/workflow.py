"""A workflow file, loaded and validated: a list of nodes, ready to run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """``variables`` are the top-level keys of the file other than ``nodes``."""

    name: str
    folder: str
    hash: str
    """SHA-256 of the file's bytes, hex."""
    nodes: tuple[Node, ...]
    responder: int
    """Position of the node whose words the caller sees."""
    first_prompt_node: int | None
    variables: Mapping[str, Any] = field(default_factory=dict)
    live_placeholders: bool = False

    @property
    def record(self) -> dict[str, Any]:
        return {"name": self.name, "folder": self.folder, "hash": self.hash}

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)
