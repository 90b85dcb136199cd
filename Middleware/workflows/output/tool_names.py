"""Lower-case names of called functions (``lowercaseToolCallFunctionNames``, front-doors §7)."""

from collections.abc import Iterator
from dataclasses import replace

from Middleware.core.events import Event, ToolCallDelta
from Middleware.workflows.output.text_filter import close


def lowercase_tool_names(events: Iterator[Event]) -> Iterator[Event]:
    try:
        for event in events:
            if isinstance(event, ToolCallDelta) and event.name:
                event = replace(event, name=event.name.lower())
            yield event
    finally:
        close(events)
