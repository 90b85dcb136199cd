"""Tables in Markdown that say what a model of a file, or a command line, takes."""

import argparse
import json
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from Middleware.config.descriptions import field_texts
from Middleware.config.schema import keys_of

LATER: Final = "Not used yet: "
"""What the docstring of a field begins with that files may have and nothing uses."""

_WORDS: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    tuple: "list",
    Any: "anything",
}
_DEFAULT_IS_TOLD: Final = "Default:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    keys: tuple[str, ...]
    values: str
    default: str
    text: str

    @property
    def cells(self) -> tuple[str, ...]:
        return " or ".join(f"`{key}`" for key in self.keys), self.values, self.default, self.text


def model_tables(model: type[BaseModel], leave_out: Iterable[str] = ()) -> str:
    """What is used as a table; what is not, as a list of names."""
    rows = [row for row in rows_of(model) if not {*row.keys} & {*leave_out}]
    used = [row for row in rows if not row.text.startswith(LATER)]
    unused = [f"`{row.keys[0]}`" for row in rows if row.text.startswith(LATER)]
    shown = table(("Key", "Values", "Default", "Meaning"), (row.cells for row in used))
    if unused:
        shown += f"\nRead, but not used by this version: {', '.join(unused)}.\n"
    return shown


def rows_of(model: type[BaseModel]) -> Iterator[Row]:
    """What the model adds to its parents comes before what it has from them."""
    texts = field_texts(model)
    own = model.__annotations__
    for name, field in sorted(model.model_fields.items(), key=lambda item: item[0] not in own):
        text = texts.get(name, "")
        yield Row(
            keys=keys_of(name, field),
            values=values_of(field.annotation),
            default="" if _DEFAULT_IS_TOLD in text else _default_of(field),
            text=text,
        )


def values_of(annotation: Any) -> str:
    """What may be written, in words."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return values_of(get_args(annotation)[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        kinds = [one for one in get_args(annotation) if one is not type(None)]
        if kinds == [int, str]:
            return "whole number, or `{variable}`"
        return " or ".join(dict.fromkeys(values_of(one) for one in kinds))
    return _WORDS.get(origin or annotation, "object")


def _default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ("", (), {}) or isinstance(value, BaseModel):
        return ""
    return f"`{json.dumps(value)}`"


def option_tables(parser: argparse.ArgumentParser) -> str:
    """The options of a command line, a table for each group."""
    shown = []
    for group in parser._action_groups:
        actions = [one for one in group._group_actions if one.dest != "help"]
        if actions:
            rows = ((_spelling(one), _help_of(one)) for one in actions)
            title = (group.title or "").capitalize()
            shown.append(f"### {title}\n\n{table(('Option', 'Meaning'), rows)}")
    return "\n".join(shown)


def _help_of(action: argparse.Action) -> str:
    return (action.help or "").replace("<", "&lt;")


def _spelling(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.dest}`"
    if action.nargs == 0 or not action.option_strings:
        return names
    if action.choices:
        return f"{names} {' or '.join(f'`{choice}`' for choice in action.choices)}"
    return f"{names} `{action.metavar or action.dest.upper()}`"


def table(head: tuple[str, ...], rows: Iterable[Iterable[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
