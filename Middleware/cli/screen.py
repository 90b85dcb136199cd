"""How wide the screen is, and texts that are made to fit it."""

import os
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TextIO

_LEAST = 20
"""Characters of a text that stand in a line, however narrow the screen is."""
_LEAST_CELL = 9
"""The same in a column of a table."""


def width_of(out: TextIO) -> int | None:
    """Columns of the screen that ``out`` writes to; None for a file or a pipe, whose lines are
    left as long as they are. ``COLUMNS`` wins."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdecimal() and int(told) > 0:
        return int(told)
    with suppress(OSError, ValueError):
        return os.get_terminal_size(out.fileno()).columns or None
    return None


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def hanging(name: str, text: str, width: int | None) -> Iterator[str]:
    """``name`` and the lines of ``text`` beside it, none of them wider than ``width``."""
    room = None if width is None else max(width - len(name), _LEAST)
    lead = name
    for line in text.splitlines() or [""]:
        pieces = [line] if room is None else textwrap.wrap(line, room, break_on_hyphens=False)
        for piece in pieces or [""]:
            yield f"{lead}{piece}".rstrip()
            lead = " " * len(name)


def in_columns(
    rows: Sequence[Sequence[str]], right: Sequence[str], give: Sequence[str], width: int | None
) -> list[str]:
    """A table as lines. The first row holds the heads: columns in ``right`` are numbers, those in
    ``give`` are shortened, one after the other, until all fit into ``width``."""
    heads = rows[0]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name in give:
        over = sum(widths) + 2 * (len(widths) - 1) - width if width is not None else 0
        if over > 0 and name in heads:
            place = heads.index(name)
            widths[place] = max(widths[place] - over, _LEAST_CELL)
    lines = []
    for row in rows:
        cells = [
            cell.rjust(wide) if head in right else shortened(cell, wide).ljust(wide)
            for head, cell, wide in zip(heads, row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
