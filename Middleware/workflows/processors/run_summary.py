"""The block that the log shows for every run (workflow-engine §14)."""

import logging

from Middleware.workflows.models.run import Run
from Middleware.workflows.models.workflow import Workflow
from Middleware.workflows.models.workflow_context import WorkflowStep


def log_summary(logger: logging.Logger, run: Run, workflow: Workflow) -> None:
    """One record a run: a record is a system call, and those cost more than their text.

    A sub-workflow's block is for those who look closer (debug); the request's own is info.
    """
    level = logging.DEBUG if run.parent_id else logging.INFO
    if not logger.isEnabledFor(level):
        return
    lines = [f"run {run.id} of workflow {workflow.label!r} {run.status}"]
    lines.extend(_line(number, step) for number, step in enumerate(run.context.steps, start=1))
    lines.append(f"  total {_seconds(run.duration_ms)}")
    if run.context.error:
        lines.append(f"  {run.context.error}")
    logger.log(level, "\n".join(lines))


def _line(number: int, step: WorkflowStep) -> str:
    endpoint = step.notes.endpoint if step.notes else None
    parts = [f"  {number}. {step.module_type} {step.title or step.node_name!r}"]
    if endpoint:
        parts.append(f"endpoint {endpoint!r}")
    parts.append(_seconds(step.processing_time_ms))
    return ", ".join(parts)


def _seconds(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "N/A"
    seconds = milliseconds / 1000
    return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
