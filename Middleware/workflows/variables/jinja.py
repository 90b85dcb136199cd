"""Jinja2 texts (variables §7 with Surprises 7-9): sandboxed, the last newline kept."""

import copy
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from itertools import chain
from types import TracebackType
from typing import Any

from jinja2 import Template, TemplateSyntaxError, Undefined, meta
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import generate_lorem_ipsum

from Middleware.core.errors import WorkflowError
from Middleware.workflows.variables.table import MISSING, VariableTable

logger = logging.getLogger(__name__)

_CODE_NAME = "<template>"
_WIDE = re.compile(r"%[^a-zA-Z%]*\d{8,}|\{[^{}]*:[^{}]*\d{8,}[^{}]*\}")
_WIDTH_IS_GIVEN = re.compile(r"%[^a-zA-Z%]*\*|\{[^{}]*:[^{}]*\{")


class _Absent(Undefined):
    """A name nobody knows: prints as nothing, and says so in the log."""

    __slots__ = ()

    def __str__(self) -> str:
        logger.warning("Unknown name %r in a Jinja2 text: nothing is put in.", self._undefined_name)
        return ""


_LARGEST = 10_000_000
"""Characters or items that one step of a template may make; bits of a number."""


class _Sandbox(SandboxedEnvironment):
    """The sandbox keeps a template from what is not its own. This keeps it from taking all of the
    memory with one expression, which what users write may have a part in."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            _require_small(_length(left) * _count(right), _length(right) * _count(left))
        elif operator == "**" and isinstance(left, int) and isinstance(right, int):
            _require_small(left.bit_length() * max(right, 0))
        elif operator == "%" and isinstance(left, str):
            _require_narrow(left, right if isinstance(right, tuple) else (right,))
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        if isinstance(getattr(obj, "__self__", None), str):
            # `center`, `zfill`, `expandtabs`: whole numbers are widths there.
            _require_small(*map(_count, (*args, *kwargs.values())))
        return super().call(context, obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        text: str = value.__self__

        def checked(*args: Any, **kwargs: Any) -> str:
            named = [one.values() for one in args if isinstance(one, Mapping)]
            _require_narrow(text, (*args, *kwargs.values(), *chain.from_iterable(named)))
            return wrapped(*args, **kwargs)

        return checked


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _require_narrow(text: str, values: Iterable[Any]) -> None:
    """The widths that a text for `%` or `format` asks for, written in it or given as values."""
    if _WIDE.search(text):
        _require_small(_LARGEST + 1)
    if _WIDTH_IS_GIVEN.search(text):
        _require_small(*map(_count, values))


def _require_small(*sizes: int) -> None:
    if any(size > _LARGEST for size in sizes):
        raise SecurityError(f"one step would make more than {_LARGEST:,} characters")


def _bounded(filter_: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that takes no width beyond what is allowed."""

    @wraps(filter_)
    def checked(*args: Any, **kwargs: Any) -> Any:
        _require_small(*map(_count, (*args, *kwargs.values())))
        return filter_(*args, **kwargs)

    return checked


_environment = _Sandbox(undefined=_Absent, keep_trailing_newline=True, autoescape=False)


for _name in ("center", "indent", "wordwrap", "batch", "slice"):
    _environment.filters[_name] = _bounded(_environment.filters[_name])
_format = _environment.filters["format"]


def _narrow_format(value: Any, *args: Any, **kwargs: Any) -> Any:
    _require_narrow(str(value), (*args, *kwargs.values()))
    return _format(value, *args, **kwargs)


_environment.filters["format"] = _narrow_format
_environment.globals["lipsum"] = _bounded(generate_lorem_ipsum)


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
