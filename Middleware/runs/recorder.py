"""The record of every run. It stores the dictionaries of ``to_dict()`` and knows no workflow
class; the processor is given a :class:`Recorder`.
"""

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol


class Recordable(Protocol):
    """Anything that can describe itself as JSON values."""

    def to_dict(self) -> dict[str, Any]: ...


class RunRecord(Recordable, Protocol):
    """One run, while it happens and afterwards."""

    @property
    def id(self) -> str: ...


class Recorder(Protocol):
    """Told what happens, on the request path: must be quick and must not raise."""

    def run_started(self, run: RunRecord) -> None: ...

    def step_started(self, run: RunRecord, node_id: str) -> None: ...

    def step_finished(self, run: RunRecord, step: Recordable) -> None: ...

    def run_finished(self, run: RunRecord) -> None: ...


class Silent:
    """Keeps nothing."""

    def run_started(self, run: RunRecord) -> None:
        pass

    def step_started(self, run: RunRecord, node_id: str) -> None:
        pass

    def step_finished(self, run: RunRecord, step: Recordable) -> None:
        pass

    def run_finished(self, run: RunRecord) -> None:
        pass


class MemoryRecorder(Silent):
    """Keeps the newest runs in memory, those still running included."""

    def __init__(self, most: int = 1000) -> None:
        self._runs: deque[RunRecord] = deque(maxlen=most)
        self._by_id: dict[str, RunRecord] = {}
        self._lock = threading.Lock()

    def run_started(self, run: RunRecord) -> None:
        with self._lock:
            if len(self._runs) == self._runs.maxlen:
                self._by_id.pop(self._runs[0].id, None)
            self._runs.append(run)
            self._by_id[run.id] = run

    def find(self, run_id: str) -> dict[str, Any] | None:
        run = self._by_id.get(run_id)
        return run.to_dict() if run else None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Newest first."""
        with self._lock:
            runs = list(self._runs)
        return (run.to_dict() for run in reversed(runs))
