from pathlib import Path

import pytest

from tests.config.tree import API_TYPE, ENDPOINT, USER, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A small tree in which everything is in order: user ``bob``, endpoint ``Fast``."""
    tree = Tree(tmp_path)
    tree.write("Users/bob.json", USER)
    tree.write("ApiTypes/Chat.json", API_TYPE)
    tree.write("Endpoints/Fast.json", ENDPOINT)
    tree.write("Workflows/bob/_DefaultWorkflow.json", [{"title": "one"}])
    tree.clock.advance(10)
    return tree
