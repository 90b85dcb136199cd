"""``GET /metrics`` for Prometheus. The library only writes them down here: they are counted in
``runs/metrics.py``, and nothing is imported before somebody asks.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flask import Blueprint, Response, request

from Middleware.runs.metrics import Labels, Metrics, OfRuns, OfSteps, Times
from Middleware.runs.refusals import Refusals

_RUNS = Metrics.RUN_LABELS
_STEPS = Metrics.STEP_LABELS


def metrics_door(metrics: Metrics, running: Callable[[], int]) -> Blueprint:
    """``running`` is how many runs have not finished."""
    door = Blueprint("metrics", __name__)
    collector = _Collector(metrics, running)

    @door.get("/metrics")
    def show() -> Response:
        """Counts and times for Prometheus."""
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import choose_encoder

        registry = CollectorRegistry(auto_describe=False)
        registry.register(collector)
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = encode(registry)
        return Response(body, content_type=content_type, headers={"Cache-Control": "no-store"})

    return door


class _Collector:
    """Metrics in the words of the library."""

    def __init__(self, metrics: Metrics, running: Callable[[], int]) -> None:
        self._metrics = metrics
        self._running = running

    def describe(self) -> list[Any]:
        """Nothing has to be asked for names beforehand."""
        return []

    def collect(self) -> Iterator[Any]:
        with self._metrics.lock:
            families = [*_of_runs(self._metrics.runs), *_of_steps(self._metrics.steps)]
        yield from families
        yield _of_refusals(self._metrics.refusals)
        yield from self._of_the_log()

    def _of_the_log(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        yield GaugeMetricFamily(
            "headrace_running",
            "Runs that have not finished, sub-workflows included.",
            value=self._running(),
        )
        yield CounterMetricFamily(
            "headrace_run_log_dropped",
            "Runs that are missing from the run log because it could not be written.",
            value=self._metrics.dropped_runs,
        )


def _of_runs(runs: Mapping[Labels, OfRuns]) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily

    requests = CounterMetricFamily(
        "headrace_requests",
        "Finished runs that no other run has started.",
        labels=(*_RUNS, "status"),
    )
    for labels, of in runs.items():
        for status, count in of.by_status.items():
            requests.add_metric((*labels, status), count)
    yield requests
    yield _times(
        "headrace_request_duration_seconds",
        "From the start of a run to its end, nodes behind the answer included.",
        _RUNS,
        {labels: of.duration for labels, of in runs.items()},
    )
    yield _times(
        "headrace_request_first_token_seconds",
        "From the start of a run to the first piece of a streamed answer.",
        _RUNS,
        {labels: of.first_token for labels, of in runs.items()},
    )


def _of_refusals(refusals: Refusals) -> Any:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(
        "headrace_refused_requests",
        "Requests that were answered with an error before a workflow ran.",
        labels=("door", "status"),
    )
    for labels, count in refusals.counts().items():
        family.add_metric(labels, count)
    return family


def _of_steps(steps: Mapping[Labels, OfSteps]) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily

    errors = CounterMetricFamily(
        "headrace_errors", "Nodes that failed, forgiven ones included.", labels=_STEPS
    )
    tokens = CounterMetricFamily(
        "headrace_tokens", "Tokens of model calls.", labels=(*_STEPS, "direction")
    )
    cost = CounterMetricFamily(
        "headrace_cost",
        "Cost of model calls whose price is known, in the currency of Prices.json.",
        labels=_STEPS,
    )
    for labels, of in steps.items():
        errors.add_metric(labels, of.errors)
        if of.prompt_tokens or of.completion_tokens:
            tokens.add_metric((*labels, "prompt"), of.prompt_tokens)
            tokens.add_metric((*labels, "completion"), of.completion_tokens)
        if of.priced:
            cost.add_metric(labels, of.cost)
    yield from (errors, tokens, cost)
    yield _times(
        "headrace_node_duration_seconds",
        "From the start of a node to its end.",
        _STEPS,
        {labels: of.duration for labels, of in steps.items()},
    )
    yield _times(
        "headrace_node_first_token_seconds",
        "From the start of a node to the first piece of its streamed answer.",
        _STEPS,
        {labels: of.first_token for labels, of in steps.items()},
    )


def _times(name: str, meaning: str, labels: Labels, by_labels: Mapping[Labels, Times]) -> Any:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, meaning, labels=labels)
    for values, times in by_labels.items():
        if any(times.counts):
            family.add_metric(values, list(times.buckets()), times.total)
    return family
