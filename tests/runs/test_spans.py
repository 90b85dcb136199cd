"""Spans of finished runs, as an exporter of the library gets them."""

import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from Middleware.runs.spans import Spans, span_writer
from tests.fakes.recorded import FakeLog, run_log, used


def spans_of(folder: Path, play: Any) -> list[ReadableSpan]:
    """Everything that was exported, by the time it began and, of one time, the outer first."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with run_log(folder, end_of_tree=Spans(provider)) as log:
        play(log)
        log.log.flush()
    return list(exporter.get_finished_spans())


def test_spans_nest_as_runs_and_nodes_do(tmp_path: Path) -> None:
    def play(log: FakeLog) -> None:
        top = log.begin("top", request_id="q1")
        log.start_step(top, "call")
        child = log.below(top, "child")
        log.step(child, "node_1", "x", endpoint="Main", model="gpt-x", usage=used(3, 4))
        log.end(child)
        log.end_step(top, "call", "x", type_name="CustomWorkflow", child_run_id=child.id)
        log.end(top)

    spans = spans_of(tmp_path, play)

    by_id = {span.context.span_id: span.name for span in spans if span.context}
    nesting = {span.name: span.parent and by_id[span.parent.span_id] for span in spans}
    assert nesting == {
        "invoke_workflow top": None,
        "CustomWorkflow call": "invoke_workflow top",
        "invoke_workflow child": "CustomWorkflow call",
        "chat gpt-x": "invoke_workflow child",
    }
    assert len({span.context.trace_id for span in spans if span.context}) == 1


def test_a_model_call_has_the_names_of_the_conventions_and_its_own_times(tmp_path: Path) -> None:
    begun: list[float] = []

    def play(log: FakeLog) -> None:
        run = log.begin("assistant")
        begun.append(run.started_at)
        log.step(
            run,
            "node_1",
            "secret words",
            endpoint="Main",
            model="gpt-x",
            usage=used(3, 4),
            first_token_ms=250.0,
            resolved_prompt="secret prompt",
            attempts=1,
        )
        log.end(run)

    chat, run = spans_of(tmp_path, play)

    attributes = dict(chat.attributes or {})
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.response.time_to_first_chunk": 0.25,
        "headrace.node.id": "node_1",
        "headrace.node.type": "Standard",
        "headrace.node.attempts": 1,
        "headrace.endpoint": "Main",
        "headrace.tokens.estimated": False,
    }
    assert chat.kind is SpanKind.CLIENT
    assert "secret" not in chat.to_json() + run.to_json()
    assert (run.attributes or {})["gen_ai.workflow.name"] == "assistant"
    assert (run.attributes or {})["gen_ai.operation.name"] == "invoke_workflow"
    assert run.start_time == int(begun[0] * 1e9)
    assert run.end_time is not None
    assert run.end_time - (run.start_time or 0) == 12_500_000
    assert (chat.end_time or 0) - (chat.start_time or 0) == 1_500_000


def test_what_failed_is_marked_and_quotes_nothing(tmp_path: Path) -> None:
    def play(log: FakeLog) -> None:
        run = log.begin("assistant")
        log.step(run, "node_1", error="secret words of a model server")
        log.end(run, "failed", "secret words of a model server")

    node, run = spans_of(tmp_path, play)

    assert node.status.status_code is run.status.status_code is StatusCode.ERROR
    assert (run.attributes or {})["error.type"] == "failed"
    assert "secret" not in node.to_json() + run.to_json()


def test_a_sub_workflow_whose_node_has_no_step_is_not_lost(tmp_path: Path) -> None:
    def play(log: FakeLog) -> None:
        top = log.begin("top")
        log.end(log.below(top, "child"))
        log.end(top)

    assert {span.name for span in spans_of(tmp_path, play)} == {
        "invoke_workflow top",
        "invoke_workflow child",
    }


def test_nothing_is_made_unless_the_environment_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    assert span_writer() is None

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert span_writer() is None


def test_what_is_missing_for_it_is_named_and_is_no_reason_not_to_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)

    assert span_writer() is None
    assert "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http" in caplog.text
