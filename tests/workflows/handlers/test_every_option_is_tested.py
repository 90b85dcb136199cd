"""An option that no test gives to a node of its type may as well not be there."""

import re
from pathlib import Path

import pytest

from Middleware.config.schema import keys_of
from Middleware.workflows.handlers.base.node_handler import node_types
from Middleware.workflows.handlers.base.node_options import NodeOptions

TESTS = Path(__file__).parents[2]
TEXTS = {
    path: path.read_text(encoding="utf-8")
    for folder in ("workflows", "scenarios")
    for path in (TESTS / folder).rglob("*.py")
    if path != Path(__file__)
}


def options_of_nodes() -> dict[type[NodeOptions], set[str]]:
    """Each class of options that adds some -> the types of nodes that have them."""
    found: dict[type[NodeOptions], set[str]] = {NodeOptions: set()}
    for name, kind in node_types:
        for cls in kind.options.__mro__:
            if issubclass(cls, NodeOptions) and cls is not NodeOptions:
                found.setdefault(cls, set()).update({name, type(kind.handler).__name__})
    # A node of no type, or of an unknown one, is of this; most tests leave it to a helper.
    return {cls: set() if "Standard" in types else types for cls, types in found.items()}


def own_keys(options: type[NodeOptions]) -> list[str]:
    fields = options.model_fields
    return [keys_of(name, fields[name])[0] for name in options.__annotations__ if name in fields]


CASES = [
    pytest.param(key, types, id=f"{options.__name__}-{key}")
    for options, types in options_of_nodes().items()
    for key in own_keys(options)
]


@pytest.mark.parametrize(("key", "types"), CASES)
def test_some_test_gives_it_to_a_node_of_the_type(key: str, types: set[str]) -> None:
    given = re.compile(rf"[\"']{re.escape(key)}[\"']|\b{re.escape(key)}=")
    files = [text for text in TEXTS.values() if not types or any(name in text for name in types)]

    assert any(given.search(text) for text in files)
