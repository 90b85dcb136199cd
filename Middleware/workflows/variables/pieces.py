"""A rendered text that still tells what its author wrote from what variables brought in.

Where data may not act as syntax (the host of a URL, the operand of a condition, a placeholder
such as ``[TextChunk]``), looking at the rendered text alone is not enough.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from Middleware.workflows.variables.grammar import Field, LiveField, Part, parse
from Middleware.workflows.variables.table import VariableTable
from Middleware.workflows.variables.templates import PartialText, render

_JINJA_TAG = re.compile(r"\{[{%#]")

Origin: TypeAlias = Literal["text", "author", "value", "mixed", "unknown"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a rendered text.

    ``text`` is written in the field itself, ``author`` came from a variable of the author's own
    files, ``value`` is data, ``mixed`` is what a template made of both, and ``unknown`` is a name
    that nobody knows, as it was written.
    """

    text: str
    origin: Origin = "text"

    @property
    def is_data(self) -> bool:
        """Whether any of it may be data."""
        return self.origin in ("value", "mixed")


def pieces(
    text: str, table: VariableTable, *, jinja: bool = False, live: bool = False
) -> tuple[Piece, ...]:
    """``render(text, ...)``, cut into pieces: put together they are the same text.

    Of a Jinja2 template only what stands before its first tag is known to be the author's.
    """
    if isinstance(text, PartialText):
        return tuple(_from_parts(text.parts, table))
    if jinja:
        return tuple(_from_jinja(text, table))
    if "{" not in text and "}" not in text:
        return (Piece(text),) if text else ()
    return tuple(_from_parts(parse(text, "live" if live else "plain"), table, expand=not live))


def joined(parts: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in parts)


def with_author_text(parts: Iterable[Piece], change: Callable[[str], str]) -> str:
    """The text, with ``change`` applied to what the author wrote, as far as that can be told."""
    return "".join(
        piece.text if piece.origin in ("value", "unknown") else change(piece.text)
        for piece in parts
    )


def _from_parts(
    parts: Iterable[Part], table: VariableTable, *, expand: bool = True
) -> Iterator[Piece]:
    for part in parts:
        if isinstance(part, str):
            yield Piece(part)
        elif isinstance(part, LiveField):
            told = render(f"{{{part.escaped}}}", table, live=True)
            yield Piece(told, "unknown" if told == part.escaped else "value")
        else:
            yield from _from_field(part, table, expand=expand)


def _from_field(field: Field, table: VariableTable, *, expand: bool) -> Iterator[Piece]:
    found = table.lookup(field.name)
    # A live text names variables of the author too, but does not fill in the names in them.
    told = render(field.source, table, live=not expand)
    if found is None or told == field.source:
        yield Piece(told, "unknown")
    elif not found.author_text:
        yield Piece(told, "value")
    elif expand and field.is_bare and isinstance(found.value, str) and "{" in found.value:
        for inner in parse(found.value, "nested"):
            if isinstance(inner, Field):
                yield from _from_field(inner, table, expand=False)
            elif isinstance(inner, str):
                yield Piece(inner, "author")
    else:
        yield Piece(told, "author")


def _from_jinja(text: str, table: VariableTable) -> Iterator[Piece]:
    told = render(text, table, jinja=True)
    written = _JINJA_TAG.split(text, maxsplit=1)[0]
    if not told.startswith(written):
        written = ""
    if written:
        yield Piece(written)
    if len(told) > len(written):
        yield Piece(told[len(written) :], "mixed")
