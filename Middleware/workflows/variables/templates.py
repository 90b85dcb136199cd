"""Filling in the variables of a text: ``{name}``, ``{{name}}`` in live files, Jinja2.

In plain and live mode nothing in a text makes this fail; only computing a variable may (a
prompt template that does not exist, for example). What a variable brings in is never read as a
template, with one exception: the values of workflow and user-wide variables are the author's
own text and may name variables once more (variables §4), except in live files (design §5).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from Middleware.workflows.models.workflow_context import WorkflowPayload, pretty_json
from Middleware.workflows.variables.grammar import LIVE_NAME, Field, LiveField, Part, parse
from Middleware.workflows.variables.jinja import render_jinja
from Middleware.workflows.variables.table import MISSING, Found, VariableTable

_CONVERSIONS: Mapping[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}


class PartialText(str):
    """A text whose variables were filled in as far as one workflow knows them.

    As a ``str`` it shows the rest as written. What was filled in is data: only the fields that
    stood open are looked up when another workflow's table fills it in (nodes S5).
    """

    parts: tuple[Part, ...]

    def __new__(cls, text: str, parts: Iterable[Part] | None = None) -> "PartialText":
        self = super().__new__(cls, text)
        self.parts = (text,) if parts is None else tuple(parts)
        return self


def render(text: str, table: VariableTable, *, jinja: bool = False, live: bool = False) -> str:
    """``text`` with its variables filled in; names that nobody knows stay as written.

    A :class:`PartialText` keeps its own rules, whatever the flags say. Raises WorkflowError,
    with the line, for a Jinja2 template that is wrong or fails.
    """
    if isinstance(text, PartialText):
        return render_partial(text, table)
    if jinja:
        return render_jinja(text, table)
    if "{" not in text and "}" not in text:
        return text
    if live:
        return _fill(parse(text, "live"), table, expand=False)
    return _fill(parse(text), table, expand=True)


def partial(
    text: str, table: VariableTable, *, jinja: bool = False, live: bool = False
) -> PartialText:
    """Fill in what ``table`` knows and leave the other ``{name}`` for :func:`render_partial`.

    Braces that are no variable are settled here. A Jinja2 template is settled as a whole.
    """
    if jinja and not isinstance(text, PartialText):
        return PartialText(render_jinja(text, table))
    if isinstance(text, PartialText):
        parts = text.parts
    else:
        parts = parse(text, "live" if live else "plain")
    filled = [_filled_part(part, table, expand=not live) for part in parts]
    return PartialText(
        "".join(part.source if isinstance(part, Field) else part for part in filled), filled
    )


def render_partial(text: PartialText, table: VariableTable) -> str:
    """Fill in what the first workflow left open."""
    return _fill(text.parts, table, expand=True)


def _fill(parts: tuple[Part, ...], table: VariableTable, *, expand: bool) -> str:
    pieces: list[str] = []
    for part in parts:
        if isinstance(part, str):
            pieces.append(part)
        elif isinstance(part, Field):
            found = table.lookup(part.name)
            text = None if found is None else _field_text(part, found, table, expand)
            pieces.append(part.source if text is None else text)
        else:
            pieces.append(_live_text(part, table))
    return "".join(pieces)


def _filled_part(part: Part, table: VariableTable, *, expand: bool) -> str | Field:
    if isinstance(part, LiveField):
        return _live_text(part, table)
    if isinstance(part, Field):
        found = table.lookup(part.name)
        if found is None:
            return part
        text = _field_text(part, found, table, expand)
        return part.source if text is None else text
    return part


def _field_text(field: Field, found: Found, table: VariableTable, expand: bool) -> str | None:
    """The text of one field, or None when the value has no such attribute, key or format."""
    value = found.value
    if not (field.is_bare and value.__class__ is str):
        # A value may be an object of a script, and its methods may raise anything.
        try:
            value = _formatted(field, value)
        except Exception:  # noqa: BLE001
            return None
    if expand and found.author_text and "{" in value:
        return _fill(parse(value, "nested"), table, expand=False)
    text: str = value
    return text


def _formatted(field: Field, value: Any) -> str:
    for step, is_key in field.path:
        value = _item(value, step) if is_key else _attribute(value, step)
    if field.conversion:
        value = _CONVERSIONS[field.conversion](value)
    return format(value, field.spec) if field.spec else str(value)


def _item(value: Any, key: str) -> Any:
    return value[int(key) if key.isdigit() else key]


def _attribute(value: Any, name: str) -> Any:
    """Keys of objects can be reached as attributes; what starts with ``_`` cannot be reached."""
    if name.startswith("_"):
        raise AttributeError(name)
    if isinstance(value, Mapping) and name in value:
        return value[name]
    return getattr(value, name)


def _live_text(field: LiveField, table: VariableTable) -> str:
    value = table.live(field.name)
    if value is MISSING and len(field.steps) > 1:
        value = _reach(table.live(field.steps[0]), field.steps[1:])
    if value is MISSING:
        if LIVE_NAME.fullmatch(field.name):
            table.note_unknown(field.name)
        return field.escaped
    if isinstance(value, str):
        return value
    # As above: a script's objects may raise anything.
    try:
        return _payload_text(value)
    except Exception:  # noqa: BLE001
        return field.escaped


def _reach(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        if isinstance(value, WorkflowPayload) and step in ("data", "content"):
            value = value.data if step == "data" else value.content
        elif isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list | tuple) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return MISSING
    return value


def _payload_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping | list | tuple):
        return pretty_json(value)
    return str(value)
