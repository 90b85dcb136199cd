import logging
from typing import Any

import pytest

from Middleware.config.models import StructuredOutputRule
from Middleware.llm.structured_output import constrain

SCHEMA = {"type": "object"}


def rule(field: str, style: Any = "raw") -> StructuredOutputRule:
    return StructuredOutputRule(field=field, style=style)


def test_dots_nest_and_leave_alone_what_stands_beside() -> None:
    shared = {"format": {"a": 1}, "b": 2}
    payload: dict[str, Any] = {"text": shared}
    constrain(payload, rule("text.format"), SCHEMA, "fast")

    assert payload == {"text": {"format": SCHEMA, "b": 2}}
    assert shared == {"format": {"a": 1}, "b": 2}


def test_parents_that_are_not_there_are_made() -> None:
    payload: dict[str, Any] = {"a": "text"}
    constrain(payload, rule("a.b.c"), SCHEMA, "fast")

    assert payload == {"a": {"b": {"c": SCHEMA}}}


def test_what_is_replaced_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    payload: dict[str, Any] = {"format": "json"}
    constrain(payload, rule("format"), SCHEMA, "fast")

    assert payload == {"format": SCHEMA}
    assert "Endpoint 'fast': `format` of the request is replaced" in caplog.text
