from Middleware.runs.metrics import Metrics, Times, workflow_label
from Middleware.workflows.models.run import Run
from tests.fakes.recorded import a_step, used


def test_times_are_counted_below_their_limits() -> None:
    times = Times()
    for milliseconds in (1.0, 5.0, 30.0, 700_000.0, None):
        times.add(milliseconds)

    buckets = dict(times.buckets())

    assert (buckets["0.005"], buckets["0.01"], buckets["0.05"]) == (2, 2, 3)
    assert (buckets["600"], buckets["+Inf"]) == (3, 4)
    assert round(times.total, 3) == 700.036


def test_steps_are_counted_by_what_they_are_and_where_they_ran() -> None:
    metrics = Metrics()
    for step in (
        a_step("a", endpoint="Main", usage=used(1, 2), cost=0.5, first_token_ms=20.0),
        a_step("b", endpoint="Main", usage=used(10, 20), error="It broke."),
        a_step("c", type_name="StaticResponse"),
    ):
        metrics.add_step("openai", "assistant", step.to_dict())

    main = metrics.steps[("openai", "assistant", "Standard", "Main")]
    static = metrics.steps[("openai", "assistant", "StaticResponse", "")]
    assert (main.prompt_tokens, main.completion_tokens, main.cost) == (11, 22, 0.5)
    assert (main.errors, static.errors) == (1, 0)
    assert (sum(main.duration.counts), sum(main.first_token.counts)) == (2, 1)
    assert (main.priced, static.priced) == (True, False)


def test_runs_are_counted_by_how_they_ended() -> None:
    metrics = Metrics()
    run = Run(id="r", workflow="w", folder="f", user="tester", door="openai", duration_ms=3.0)
    for status in ("succeeded", "failed", "succeeded"):
        metrics.add_run({**run.to_dict(), "status": status}, None)

    (of,) = metrics.runs.values()
    assert of.by_status == {"succeeded": 2, "failed": 1}
    assert sum(of.duration.counts) == 3
    assert sum(of.first_token.counts) == 0
    assert list(metrics.runs) == [("openai", workflow_label(run.to_dict()))] == [("openai", "f/w")]
