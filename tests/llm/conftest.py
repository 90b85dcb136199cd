from collections.abc import Iterator

import pytest

from Middleware.llm.connections import Connections


@pytest.fixture
def connections() -> Iterator[Connections]:
    """Closed at the end, so that no socket is left open."""
    kept = Connections()
    yield kept
    kept.close()
