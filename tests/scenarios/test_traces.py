"""Requests that are part of somebody's trace. Only what sends spans away is a fake one."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.fakes.headrace import Tree, answers, calls, wait_until

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
BODY = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    module = ModuleType("trace_exporter")
    module.OTLPSpanExporter = lambda: exporter  # type: ignore[attr-defined]
    name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)
    yield exporter
    exporter.shutdown()


def spans_of(
    folder: Path, exporter: InMemorySpanExporter, **headers: str
) -> Sequence[ReadableSpan]:
    tree = Tree(folder).scripted("Main").own("Inner", [answers()])
    with tree.workflow("assistant", [calls("Inner")]).serve() as live:
        assert live.ask("POST", "/v1/chat/completions", BODY, **headers).status == 200
        wait_until(lambda: len(exporter.get_finished_spans()) == 4)
    return exporter.get_finished_spans()


def test_spans_are_below_the_one_that_the_client_names(
    tmp_path: Path, exported: InMemorySpanExporter
) -> None:
    spans = spans_of(tmp_path, exported, traceparent=f"00-{TRACE}-{SPAN}-01", tracestate="vendor=1")

    assert {f"{span.context.trace_id:032x}" for span in spans if span.context} == {TRACE}
    outer = spans[-1]
    assert outer.name.startswith("invoke_workflow")
    assert outer.parent is not None
    assert f"{outer.parent.span_id:016x}" == SPAN
    assert dict(outer.parent.trace_state) == {"vendor": "1"}


@pytest.mark.parametrize(
    "parent",
    [
        "nonsense",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}x-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01" * 20,
    ],
)
def test_what_is_malformed_is_ignored(
    tmp_path: Path, exported: InMemorySpanExporter, parent: str
) -> None:
    outer = spans_of(tmp_path, exported, traceparent=parent)[-1]

    assert outer.parent is None
    assert outer.context is not None
    assert f"{outer.context.trace_id:032x}" != TRACE
