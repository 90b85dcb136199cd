"""Jinja2 texts (variables §7 with Surprises 7-9): sandboxed, the last newline kept."""

import copy
import logging
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Any

from jinja2 import Template, TemplateSyntaxError, Undefined, meta
from jinja2.sandbox import SandboxedEnvironment

from Middleware.core.errors import WorkflowError
from Middleware.workflows.variables.table import MISSING, VariableTable

logger = logging.getLogger(__name__)

_CODE_NAME = "<template>"


class _Absent(Undefined):
    """A name nobody knows: prints as nothing, and says so in the log."""

    __slots__ = ()

    def __str__(self) -> str:
        logger.warning("Unknown name %r in a Jinja2 text: nothing is put in.", self._undefined_name)
        return ""


_environment = SandboxedEnvironment(undefined=_Absent, keep_trailing_newline=True, autoescape=False)


@dataclass(frozen=True, slots=True)
class _Compiled:
    template: Template
    names: tuple[str, ...]
    """The variables it may ask for; no others are computed."""


def render_jinja(text: str, table: VariableTable) -> str:
    """``text`` as a Jinja2 template; raises WorkflowError with the line where it is at fault."""
    if "{" not in text:
        return text
    compiled = _compile(text)
    values = {
        name: value for name in compiled.names if (value := _value(name, table)) is not MISSING
    }
    # A template is a small program of the author: it may raise anything.
    try:
        return compiled.template.render(values)
    except Exception as error:
        line = _line_of(error.__traceback__)
        raise WorkflowError(
            f"The Jinja2 text fails{f' in line {line}' if line else ''}: {error}"
        ) from error


def names_in_jinja(text: str) -> tuple[str, ...]:
    """The variables that a template may ask for; raises WorkflowError when it has a mistake."""
    return _compile(text).names


@lru_cache(maxsize=512)
def _compile(text: str) -> _Compiled:
    try:
        names = meta.find_undeclared_variables(_environment.parse(text))
        names -= _environment.globals.keys()
        return _Compiled(_environment.from_string(text), tuple(sorted(names)))
    except RecursionError as error:
        raise WorkflowError("The Jinja2 text is nested too deeply.") from error
    except TemplateSyntaxError as error:
        raise WorkflowError(
            f"The Jinja2 text has a mistake in line {error.lineno}: {error.message}"
        ) from error


def _value(name: str, table: VariableTable) -> Any:
    found = table.lookup(name)
    if found is None:
        return table.live(name)
    # Values from files are shared by all requests, and a template may change a list it is given.
    if found.author_text and isinstance(found.value, dict | list):
        return copy.deepcopy(found.value)
    return found.value


def _line_of(traceback: TracebackType | None) -> int | None:
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _CODE_NAME:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
