"""Filling in variables inside of objects and lists."""

from collections.abc import Mapping
from typing import Any

from Middleware.workflows.models.execution_context import ExecutionContext


def rendered(context: ExecutionContext, value: Any) -> Any:
    """``value`` with variables filled in in its texts, however deep; keys stay as they are."""
    if isinstance(value, str):
        return context.render(value)
    if isinstance(value, Mapping):
        return {key: rendered(context, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rendered(context, inner) for inner in value]
    return value
