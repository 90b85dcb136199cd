"""Types of options that several node types share. What they refuse breaks the file, by name."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, StrictBool

from Middleware.workflows.handlers.base.node_options import LONGEST_SECONDS


def _seconds(value: Any) -> Any:
    """A positive number, also as text; true and false are none."""
    if isinstance(value, bool):
        raise ValueError("must be a number of seconds")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError("must be a number of seconds") from None
    if not (math.isfinite(number) and 0 < number <= LONGEST_SECONDS):
        raise ValueError("must be more than 0 seconds, and at most a year")
    return number


Seconds = Annotated[float, BeforeValidator(_seconds)]
"""More than 0, also as text."""


def _fraction_or_template(value: Any) -> Any:
    if isinstance(value, str) and "{" not in value:
        try:
            return float(value)
        except ValueError:
            return value
    return value


FractionOrTemplate = Annotated[float | str | None, BeforeValidator(_fraction_or_template)]
"""Like IntOrTemplate, with decimals."""

Exactly = StrictBool
"""true or false, and nothing that might be taken for one: it guards something."""
