"""What the processor tells of every run, and to whom.

A recorder gets the objects themselves and keeps their ``to_dict()``; it knows no workflow class.
Nobody is told of single pieces of an answer: who looks on reads them from ``RunRecord.said``.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from Middleware.core.messages import Caller


class Said(Protocol):
    """An answer that grows."""

    def texts(self, start: int = 0) -> list[str]:
        """Its pieces from number ``start`` on."""
        ...


class StepRecord(Protocol):
    """A finished node. It does not change any more."""

    @property
    def node_name(self) -> str:
        """The node's id."""
        ...

    @property
    def started_at(self) -> float | None:
        """Seconds since 1970."""
        ...

    @property
    def model(self) -> str | None:
        """What the endpoint calls the model."""
        ...

    def to_dict(self) -> dict[str, Any]: ...


class RunRecord(Protocol):
    """One run, while it happens and afterwards."""

    @property
    def id(self) -> str: ...

    @property
    def parent_id(self) -> str | None: ...

    @property
    def request_id(self) -> str: ...

    @property
    def trace_context(self) -> Mapping[str, str]:
        """The headers of the request that name the trace it belongs to, as they came."""
        ...

    @property
    def workflow(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def caller(self) -> Caller | None:
        """Whose key came with the request; None where no keys are demanded."""
        ...

    @property
    def answers_client(self) -> bool:
        """Whether its answer is the client's, or that of a run which answers the client."""
        ...

    @property
    def private(self) -> bool:
        """Whether no texts of users and models may be written down."""
        ...

    @property
    def status(self) -> str: ...

    @property
    def started_at(self) -> float:
        """Seconds since 1970."""
        ...

    @property
    def first_token_ms(self) -> float | None:
        """From the start of the run to the first piece of a streamed answer."""
        ...

    @property
    def current_node(self) -> str:
        """The node that was started last."""
        ...

    @property
    def steps(self) -> Sequence[StepRecord]:
        """Those that have finished. While the run runs, their order may still change."""
        ...

    @property
    def said(self) -> Said | None:
        """The words of the node that answers, or answered."""
        ...

    @property
    def answering(self) -> str:
        """That node."""
        ...

    def to_dict(self, *, steps: bool = True) -> dict[str, Any]:
        """``steps=False`` leaves the list of steps empty."""
        ...


class Recorder(Protocol):
    """Told what happens, on the request path: must be quick and must not raise."""

    def run_started(self, run: RunRecord) -> None: ...

    def step_started(self, run: RunRecord, node_id: str) -> None: ...

    def step_finished(self, run: RunRecord, step: StepRecord) -> None: ...

    def run_finished(self, run: RunRecord) -> None: ...


class Silent:
    """Keeps nothing."""

    def run_started(self, run: RunRecord) -> None:
        pass

    def step_started(self, run: RunRecord, node_id: str) -> None:
        pass

    def step_finished(self, run: RunRecord, step: StepRecord) -> None:
        pass

    def run_finished(self, run: RunRecord) -> None:
        pass


class Several:
    """Tells all of several recorders, in order."""

    def __init__(self, *recorders: Recorder) -> None:
        self._recorders = recorders

    def run_started(self, run: RunRecord) -> None:
        for recorder in self._recorders:
            recorder.run_started(run)

    def step_started(self, run: RunRecord, node_id: str) -> None:
        for recorder in self._recorders:
            recorder.step_started(run, node_id)

    def step_finished(self, run: RunRecord, step: StepRecord) -> None:
        for recorder in self._recorders:
            recorder.step_finished(run, step)

    def run_finished(self, run: RunRecord) -> None:
        for recorder in self._recorders:
            recorder.run_finished(run)


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
