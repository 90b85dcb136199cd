"""Whether an answer is the JSON that was asked for. What the back end promised does not count."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

_SHOWN: Final = 5
_LONGEST: Final = 300
_FENCE: Final = re.compile(r"\A```\w*\s*\n(.*)\n?```\s*\Z", re.DOTALL)


class NoSchema(ValueError):
    """What should be a JSON Schema is none; says why."""


class Checked(NamedTuple):
    """An answer that was looked at."""

    text: str
    """The JSON alone, where it was there."""
    problems: tuple[str, ...]
    value: Any = None
    """What the JSON says; None where there is none."""


class SchemaCheck:
    """Checks answers against one schema. References to other documents are not followed: they
    would be fetched from wherever the schema's author says.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        kind = validator_for(schema, default=Draft202012Validator)
        try:
            kind.check_schema(dict(schema))
        except (SchemaError, RecursionError) as error:
            problem = error.message if isinstance(error, SchemaError) else "it is nested too deeply"
            raise NoSchema(_short(problem)) from error
        self._validator = kind(schema, registry=EMPTY_REGISTRY)

    def check(self, text: str) -> Checked:
        """Raises NoSchema for a schema that refers to what is not in it."""
        inner = without_fence(text)
        try:
            value = json.loads(inner)
        except (ValueError, RecursionError) as error:
            return Checked(text, (f"it is no JSON ({error})",))
        return Checked(inner, self.problems(value), value)

    def problems(self, value: Any) -> tuple[str, ...]:
        try:
            errors = sorted(self._validator.iter_errors(value), key=lambda error: str(error.path))
        except Unresolvable as error:
            raise NoSchema(f"it refers to {_short(str(error.ref))}, which is not in it") from error
        except RecursionError:
            return ("it is nested too deeply",)
        return tuple(
            f"{'.'.join(map(str, error.absolute_path)) or 'the whole'}: {_short(error.message)}"
            for error in errors[:_SHOWN]
        )


def complaint(problems: tuple[str, ...]) -> str:
    """What a model is told whose answer does not fit."""
    told = "\n".join(f"- {problem}" for problem in problems)
    return (
        f"That does not fit the required JSON Schema:\n{told}\n"
        "Answer again with the corrected JSON and nothing else."
    )


def without_fence(text: str) -> str:
    """Models like to put JSON into a Markdown block."""
    stripped = text.strip()
    found = _FENCE.match(stripped)
    return found[1].strip() if found else stripped


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
