"""What is left to do when a run ends, whether it succeeded, failed or was cancelled."""

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


class AtEnd:
    """One a run. Nodes add to it; whoever closes the run calls :meth:`run` once."""

    __slots__ = ("_work",)

    def __init__(self) -> None:
        self._work: list[Callable[[], None]] = []

    def add(self, work: Callable[[], None]) -> None:
        self._work.append(work)

    def run(self) -> None:
        """Do it, the last first. Never raises; a second call finds nothing to do."""
        while self._work:
            work = self._work.pop()
            try:
                work()
            # One that fails must not keep the others from being done, nor the run from ending.
            except Exception:
                logger.exception("something could not be cleaned up at the end of a run")
