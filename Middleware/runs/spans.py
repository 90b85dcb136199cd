"""OpenTelemetry spans of runs and nodes, under the names of the GenAI conventions.

Made after the fact, by the thread that writes the run log, with the times that were measured:
no client waits for it. The library is an extra, and imported only when the environment asks for
traces as it does for any program (``OTEL_EXPORTER_OTLP_ENDPOINT``).
"""

import importlib
import logging
import os
from collections.abc import Sequence
from typing import Any, Final

from Middleware.runs.metrics import workflow_label
from Middleware.runs.recorder import RunRecord, StepRecord
from Middleware.runs.tracking import EndOfTree

logger = logging.getLogger(__name__)

_ASKED_FOR: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_NANOSECONDS: Final = 1_000_000_000
_TOOL_TYPES: Final = frozenset({"MCPToolCall"})


def span_writer() -> EndOfTree | None:
    """None when nobody asks for traces, or what is needed for them is not installed."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if not any(os.environ.get(name) for name in _ASKED_FOR):
        return None
    try:
        exporter = importlib.import_module(_EXPORTER).OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        logger.warning(
            "traces are asked for, but %s is missing: "
            "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http",
            error.name,
        )
        return None
    provider = TracerProvider(resource=_resource())
    provider.add_span_processor(BatchSpanProcessor(exporter()))
    return Spans(provider)


def _resource() -> Any:
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    # What the environment says wins over this.
    name = os.environ.get("OTEL_SERVICE_NAME") or "headrace"
    return Resource.create({SERVICE_NAME: name})


class Spans:
    """Gives finished trees of runs to a provider of the library."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._incoming = TraceContextTextMapPropagator()
        self._tracer = provider.get_tracer("headrace")

    def __call__(self, runs: Sequence[RunRecord]) -> None:
        """``runs`` are a run that has finished, and all that it started."""
        by_id = {run.id: run for run in runs}
        # What is malformed is ignored; a trace that the caller does not sample is not written.
        caller = self._incoming.extract(runs[0].trace_context)
        self._run(runs[0], by_id, caller)
        for orphan in tuple(by_id.values()):
            # Started by a node whose step was never written.
            self._run(orphan, {}, caller)

    def _run(self, run: RunRecord, waiting: dict[str, RunRecord], parent: Any) -> None:
        waiting.pop(run.id, None)
        told = run.to_dict(steps=False)
        start = _nanoseconds(run.started_at)
        span = self._tracer.start_span(
            f"invoke_workflow {workflow_label(told)}",
            context=parent,
            start_time=start,
            attributes=_of_run(told),
        )
        inside = self._trace.set_span_in_context(span)
        for step in tuple(run.steps):
            self._step(step, waiting, inside, fallback=start)
        if told["status"] != "succeeded":
            self._fail(span, told["status"])
        span.end(end_time=start + _milliseconds(told["durationMs"]))

    def _step(
        self, step: StepRecord, waiting: dict[str, RunRecord], parent: Any, *, fallback: int
    ) -> None:
        told = step.to_dict()
        meta = told["meta"]
        calls_model = bool(meta.get("endpoint"))
        start = fallback if step.started_at is None else _nanoseconds(step.started_at)
        span = self._tracer.start_span(
            _name(told, step.model, calls_model),
            context=parent,
            kind=self._trace.SpanKind.CLIENT if calls_model else self._trace.SpanKind.INTERNAL,
            start_time=start,
            attributes=_of_step(told, step.model, calls_model),
        )
        child = waiting.get(meta.get("childRunId") or "")
        if child is not None:
            self._run(child, waiting, self._trace.set_span_in_context(span))
        if "error" in meta:
            self._fail(span, "node_failed")
        span.end(end_time=start + _milliseconds(told["processingTimeMs"]))

    def _fail(self, span: Any, kind: str) -> None:
        # Of messages there may be texts of users in it; the run log has them.
        span.set_attribute("error.type", kind)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))


def _name(step: dict[str, Any], model: str | None, calls_model: bool) -> str:
    meta = step["meta"]
    if calls_model:
        return f"chat {model}" if model else "chat"
    title = meta.get("title") or step["nodeName"]
    if meta["module_type"] in _TOOL_TYPES:
        return f"execute_tool {title}"
    return f"{meta['module_type']} {title}"


def _of_run(run: dict[str, Any]) -> dict[str, Any]:
    return _known(
        {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": workflow_label(run),
            "headrace.run.id": run["id"],
            "headrace.request.id": run["requestId"],
            "headrace.door": run["door"],
            "headrace.user": run["user"],
            "headrace.status": run["status"],
        }
    )


def _of_step(step: dict[str, Any], model: str | None, calls_model: bool) -> dict[str, Any]:
    meta = step["meta"]
    tokens = meta.get("tokens") or {}
    first_token_ms = meta.get("firstTokenMs")
    told = {
        "headrace.node.id": step["nodeName"],
        "headrace.node.type": meta["module_type"],
        "headrace.node.attempts": meta.get("attempts"),
        "headrace.cost": step["cost"],
    }
    if calls_model:
        told |= {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": tokens.get("prompt"),
            "gen_ai.usage.output_tokens": tokens.get("completion"),
            "gen_ai.response.time_to_first_chunk": first_token_ms and first_token_ms / 1000,
            "headrace.endpoint": meta["endpoint"],
            "headrace.tokens.estimated": tokens.get("estimated"),
        }
    elif meta["module_type"] in _TOOL_TYPES:
        told["gen_ai.operation.name"] = "execute_tool"
    return _known(told)


def _known(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * _NANOSECONDS)


def _milliseconds(milliseconds: float | None) -> int:
    return int((milliseconds or 0.0) * 1_000_000)
