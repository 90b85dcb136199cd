"""Counts and times of runs and steps, as Prometheus wants them (``GET /metrics`` writes them).

Filled by the thread that writes the run log, after the fact. Nothing of it is made with the
library's own counters: each of those takes a lock and a look-up, and a run would need eight.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from Middleware.runs.refusals import Refusals

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Upper limits of the buckets of all times."""

Labels: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class Times:
    """A histogram."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    total: float = 0.0

    def add(self, milliseconds: float | None) -> None:
        """None is nothing that could be measured."""
        if milliseconds is not None:
            seconds = milliseconds / 1000
            self.counts[bisect_left(SECONDS, seconds)] += 1
            self.total += seconds

    def buckets(self) -> Iterator[tuple[str, int]]:
        """Upper limit -> how many were below it, the last without limit."""
        below = 0
        for limit, count in zip((*map(str, SECONDS), "+Inf"), self.counts, strict=True):
            below += count
            yield limit, below


@dataclass(slots=True)
class OfRuns:
    """Of one door and one workflow."""

    by_status: dict[str, int] = field(default_factory=dict)
    duration: Times = field(default_factory=Times)
    first_token: Times = field(default_factory=Times)


@dataclass(slots=True)
class OfSteps:
    """Of one door, workflow, node type and endpoint."""

    errors: int = 0
    duration: Times = field(default_factory=Times)
    first_token: Times = field(default_factory=Times)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    priced: bool = False
    """Whether a price was ever known: nothing is not the same as for nothing."""


class Metrics:
    """One a server. Safe to read while it is filled: numbers may be a moment old."""

    RUN_LABELS: Final = ("door", "workflow")
    STEP_LABELS: Final = ("door", "workflow", "node_type", "endpoint")

    def __init__(self) -> None:
        self.runs: dict[Labels, OfRuns] = {}
        self.steps: dict[Labels, OfSteps] = {}
        self.refusals = Refusals()
        self.dropped_runs = 0
        """Runs that the log could not keep up with, or could not write."""
        self.lock = threading.Lock()

    def add_run(self, run: Mapping[str, Any], first_token_ms: float | None) -> None:
        """A finished run that no other run has started; ``run`` is its ``to_dict()``."""
        key = (run["door"], workflow_label(run))
        with self.lock:
            of = self.runs.get(key)
            if of is None:
                of = self.runs[key] = OfRuns()
            of.by_status[run["status"]] = of.by_status.get(run["status"], 0) + 1
            of.duration.add(run["durationMs"])
            of.first_token.add(first_token_ms)

    def add_step(self, door: str, workflow: str, step: Mapping[str, Any]) -> None:
        """A finished node; ``step`` is its ``to_dict()``."""
        meta = step["meta"]
        key = (door, workflow, meta["module_type"], meta.get("endpoint") or "")
        tokens, cost = meta.get("tokens"), step["cost"]
        with self.lock:
            of = self.steps.get(key)
            if of is None:
                of = self.steps[key] = OfSteps()
            of.duration.add(step["processingTimeMs"])
            of.first_token.add(meta.get("firstTokenMs"))
            of.errors += "error" in meta
            if tokens:
                of.prompt_tokens += tokens["prompt"]
                of.completion_tokens += tokens["completion"]
            if cost is not None:
                of.cost += cost
                of.priced = True


def workflow_label(run: Mapping[str, Any]) -> str:
    return f"{run['folder']}/{run['workflow']}" if run["folder"] else str(run["workflow"])
