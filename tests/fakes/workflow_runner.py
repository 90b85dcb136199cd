"""Stands in for the workflow manager: remembers what was asked, says what it was given."""

from collections.abc import Iterator
from typing import Any

from Middleware.core.events import Event, collect
from Middleware.workflows.models.workflow_context import WorkflowPayload


class RecordingRunner:
    def __init__(self, *events: Event) -> None:
        self.asked: list[dict[str, Any]] = []
        self._events = events

    def run_custom_workflow(
        self, workflow_name: str, **call: Any
    ) -> Iterator[Event] | WorkflowPayload:
        self.asked.append({"workflow_name": workflow_name, **call})
        if call["is_streaming"]:
            return iter(self._events)
        return WorkflowPayload.of_reply(collect(self._events))
