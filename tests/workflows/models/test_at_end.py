import logging

import pytest

from Middleware.workflows.models.at_end import AtEnd


def test_the_last_is_done_first_and_each_once(caplog: pytest.LogCaptureFixture) -> None:
    at_end = AtEnd()
    done: list[int] = []

    def fail() -> None:
        raise RuntimeError("broken")

    for work in (lambda: done.append(1), fail, lambda: done.append(3)):
        at_end.add(work)

    with caplog.at_level(logging.ERROR):
        at_end.run()
        at_end.run()

    assert done == [3, 1]
    assert "cleaned up" in caplog.text
