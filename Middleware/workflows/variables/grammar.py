"""How a text with braces is read (variables §3-4, decisions §3). Reading never fails.

* ``{name}``, ``{name[key]}``, ``{name.attribute}``, ``{name!r}``, ``{name:>10}`` are fields,
  as in ``str.format``. Whether the name is known turns out when the text is filled in; the
  field keeps its source for the case that it is not.
* ``{{`` is a literal ``{``. ``}}`` is a literal ``}`` when the innermost open brace is a doubled
  one or none is open: in ``{"a": {"b": 1}}`` it is two braces that close two single ones.
* Four braces are one literal brace, because the reference takes doubled braces away twice.
  In a live file they are two.
* ``{{name}}`` in a live file is a live field.
* Every other brace is text.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["plain", "nested", "live"]
"""``nested`` is the text of a value that may hold names once more: four braces are two there."""


@dataclass(frozen=True, slots=True)
class Field:
    """One ``{...}`` that may name a variable."""

    source: str
    """As written, braces included."""
    name: str
    path: tuple[tuple[str, bool], ...] = ()
    """Steps into the value: (text, whether it is a key in brackets and not an attribute)."""
    conversion: str = ""
    spec: str = ""
    is_bare: bool = False
    """True for ``{name}`` with nothing behind the name."""


@dataclass(frozen=True, slots=True)
class LiveField:
    """One ``{{...}}`` of a live file."""

    escaped: str
    """What it is when nobody knows the name: the same in single braces."""
    name: str
    """All that stands between the braces, trimmed."""
    steps: tuple[str, ...]
    """The name cut at dots and brackets: the root, then the path into its value."""


Part: TypeAlias = str | Field | LiveField

_BRACE = re.compile(r"[{}]")
_SINGLE = re.compile(r"\{([^{}]+)\}")
_DOUBLE = re.compile(r"\{\{([^{}]+)\}\}")
_FIELD = re.compile(
    r"""([^.\[!:"\n]+)                        # name
        ((?:\[[^\]]+\]|\.[^.\[!:]+)*)         # [key] and .attribute
        (?:!([rsa]))?
        (?::(.*))?
    """,
    re.VERBOSE | re.DOTALL,
)
_STEP = re.compile(r"\[([^\]]+)\]|\.([^.\[]+)")
LIVE_NAME = re.compile(r"[A-Za-z_][\w.\-\[\]]*")
"""What may be meant as a name in ``{{...}}``; JSON and code in doubled braces are not."""
_LIVE_STEP = re.compile(r"[^.\[\]]+")
# A width that only a mistake can mean; formatting it would fill the memory.
_ABSURD_WIDTH = re.compile(r"\d{6}")

_CACHED_CHARACTERS = 50_000


def parse(text: str, mode: Mode = "plain") -> tuple[Part, ...]:
    """Cut ``text`` into literal strings and fields. Neighbouring literals are joined."""
    # A text made up for one request is not worth a large place in the cache.
    if len(text) > _CACHED_CHARACTERS:
        return _Reader(text, mode).read()
    return _parse_cached(text, mode)


@lru_cache(maxsize=4096)
def _parse_cached(text: str, mode: Mode) -> tuple[Part, ...]:
    return _Reader(text, mode).read()


class _Reader:
    """One pass over one text. ``_open`` holds how many braces each open place was written with."""

    def __init__(self, text: str, mode: Mode) -> None:
        self._text = text
        self._mode = mode
        self._at = 0
        self._open: list[int] = []
        self._literal: list[str] = []
        self._parts: list[Part] = []
        self.lone: list[int] = []
        """Positions of braces that have no partner."""
        self._lone_open: list[int] = []

    def read(self) -> tuple[Part, ...]:
        text = self._text
        while brace := _BRACE.search(text, self._at):
            here = brace.start()
            self._literal.append(text[self._at : here])
            self._at = here
            if text[here] == "{":
                self._read_open()
            else:
                self._read_close()
        self._literal.append(text[self._at :])
        self._flush()
        self.lone += self._lone_open
        return tuple(self._parts)

    def _read_open(self) -> None:
        run = self._run_length("{")
        if run >= 4 and self._mode != "nested":
            self._escape_open(4)
        elif run >= 2:
            if not (self._mode == "live" and run == 2 and self._read_live_field()):
                self._escape_open(2)
        elif not self._read_field():
            self._lone_open.append(self._at)
            self._open.append(1)
            self._take(1, "{")

    def _escape_open(self, width: int) -> None:
        if width == 4 and self._mode == "live":
            self._open += (2, 2)
            self._take(4, "{{")
        else:
            self._open.append(width)
            self._take(width, "{")

    def _read_close(self) -> None:
        run = self._run_length("}")
        innermost = self._open[-1] if self._open else 0
        if innermost == 1:
            self._open.pop()
            self._lone_open.pop()
            self._take(1, "}")
        elif run >= 4 and innermost == 4:
            self._open.pop()
            self._take(4, "}")
        elif run >= 2:
            if innermost == 4:
                self._open[-1] = 2
            elif innermost == 2:
                self._open.pop()
            self._take(2, "}")
        else:
            self.lone.append(self._at)
            self._take(1, "}")

    def _read_field(self) -> bool:
        found = _SINGLE.match(self._text, self._at)
        field = _parse_field(found.group(0), found.group(1)) if found else None
        if found is None or field is None:
            return False
        self._add(field, found.end())
        return True

    def _read_live_field(self) -> bool:
        found = _DOUBLE.match(self._text, self._at)
        if found is None:
            return False
        name = found.group(1).strip()
        steps = tuple(_LIVE_STEP.findall(name))
        if not steps:
            return False
        self._add(LiveField(f"{{{found.group(1)}}}", name, steps), found.end())
        return True

    def _add(self, field: Field | LiveField, end: int) -> None:
        self._flush()
        self._parts.append(field)
        self._at = end

    def _take(self, width: int, literal: str) -> None:
        self._literal.append(literal)
        self._at += width

    def _flush(self) -> None:
        literal = "".join(self._literal)
        if literal:
            self._parts.append(literal)
        self._literal.clear()

    def _run_length(self, brace: str) -> int:
        """How many such braces stand here; no rule looks at more than four."""
        ahead = self._text[self._at : self._at + 4]
        return len(ahead) - len(ahead.lstrip(brace))


def _parse_field(source: str, inner: str) -> Field | None:
    found = _FIELD.fullmatch(inner)
    if found is None or found.group(1).isdigit():
        return None
    name, path, conversion, spec = found.groups(default="")
    if _ABSURD_WIDTH.search(spec):
        return None
    steps = tuple((key or attribute, bool(key)) for key, attribute in _STEP.findall(path))
    return Field(source, name, steps, conversion, spec, is_bare=name == inner)


def lone_braces(text: str) -> list[int]:
    """Positions of braces that have no partner and are therefore probably a mistake."""
    reader = _Reader(text, "plain")
    reader.read()
    return sorted(reader.lone)
