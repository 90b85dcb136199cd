"""Bytes of a file -> plain values. JSON and YAML give the same kinds of values.

YAML is read by ``SafeLoader`` with the values that JSON does not have left out: a date stays the
text it was written as, and keys are always text.
"""

import json
import re
from collections.abc import Hashable
from typing import Any

import yaml

from Middleware.config.problems import BrokenFile, Problem

SUFFIXES = (".json", ".yaml", ".yml")
"""In the order in which they are looked for."""


def parse_bytes(data: bytes, file: str) -> tuple[Any, tuple[Problem, ...]]:
    """The value and what is odd about it; raises :class:`BrokenFile` with line and column."""
    text = _decode(data, file)
    if not text.strip():
        raise _broken("bad_syntax", file, "", "The file is empty.", "")
    parse = _parse_json if file.lower().endswith(".json") else _parse_yaml
    try:
        return parse(text, file)
    except RecursionError:
        raise _broken("bad_syntax", file, "", "The values are nested too deeply.", "") from None


def _decode(data: bytes, file: str) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise _broken(
            "bad_encoding", file, "", "The file is written in UTF-16.", "Save it as UTF-8."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _broken(
            "bad_encoding",
            file,
            f"line {line}",
            "This line is not UTF-8.",
            "Save the file as UTF-8.",
        ) from None


def _broken(code: str, file: str, place: str, message: str, remedy: str) -> BrokenFile:
    problem = Problem(
        code=code, severity="error", file=file, place=place, message=message, remedy=remedy
    )
    return BrokenFile((problem,))


def _twice(file: str, place: str, key: str) -> Problem:
    return Problem(
        code="duplicate_key",
        severity="warning",
        file=file,
        place=place,
        message=f"The key `{key}` is given twice; the last one counts.",
        remedy="Remove one of them.",
    )


# JSON


class _NotANumber(ValueError):
    pass


def _refuse_constant(name: str) -> Any:
    raise _NotANumber(name)


def _parse_json(text: str, file: str) -> tuple[Any, tuple[Problem, ...]]:
    repeated: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        built = dict(found)
        if len(built) != len(found):
            names = [name for name, _ in found]
            repeated.extend(name for name in built if names.count(name) > 1)
        return built

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        message, remedy = _explain(text, error)
        place = f"line {error.lineno}, column {error.colno}"
        raise _broken("bad_syntax", file, place, message, remedy) from None
    except _NotANumber as error:
        raise _broken(
            "bad_syntax", file, "", f"{error} is no JSON value.", "Write a number or null."
        ) from None
    except ValueError:
        raise _broken("bad_syntax", file, "", "A number has too many digits.", "") from None
    if "\\ud" in text.lower():
        _refuse_lone_surrogates(value, file)
    return value, tuple(_twice(file, key, key) for key in repeated)


def _refuse_lone_surrogates(value: Any, file: str) -> None:
    """They cannot be sent to anybody, so it is better to hear of them now."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _broken(
            "bad_encoding",
            file,
            "",
            r"The file holds one half of a \uD800-\uDFFF pair.",
            "Write both halves, or the character itself.",
        ) from None


_COMMA_BEFORE_END = ("A comma stands before a closing bracket or brace.", "Remove that comma.")
_NO_COMMENTS = ("JSON has no comments.", "Remove it.")
_STRAY = {
    "/": _NO_COMMENTS,
    "#": _NO_COMMENTS,
    "'": ("JSON knows only double quotes.", "Write \" instead of '."),
    "": ("The file ends too early.", "A closing bracket, brace or quote is missing."),
}
"""By the character that the parser stumbled over."""
_SAID = (
    ("Illegal trailing comma", *_COMMA_BEFORE_END),
    ("Unterminated string", "A text that begins here has no closing quote.", 'Close it with ".'),
    (
        "Invalid control character",
        "A text goes over the end of its line.",
        r"Write the line break as \n.",
    ),
    ("Invalid \\", "A backslash stands before a character that needs none.", r"Write it as \\."),
)
"""By what the parser says, where that tells more than the character."""
_EXPECTED = (
    ("Extra data", "Something follows after the end of the value.", "Remove it."),
    ("Expecting ',' delimiter", "A comma is missing before this.", "Put one there."),
    ("Expecting ':' delimiter", "A colon is missing after the key.", "Put one there."),
    ("Expecting property name", "A key was expected here.", 'Put the key in "double quotes".'),
    ("", "A value was expected here.", "Text needs double quotes."),
)
_BEFORE_COMMA = re.compile(r",\s*\Z")


def _explain(text: str, error: json.JSONDecodeError) -> tuple[str, str]:
    """Message and remedy in plain words for what the parser stumbled over."""
    found = text[error.pos : error.pos + 1]
    if found in ("}", "]") and _BEFORE_COMMA.search(text[: error.pos]):
        return _COMMA_BEFORE_END
    for beginning, message, remedy in _SAID:
        if error.msg.startswith(beginning):
            return message, remedy
    if found in _STRAY:
        return _STRAY[found]
    return next((m, r) for beginning, m, r in _EXPECTED if error.msg.startswith(beginning))


# YAML


class _Loader(yaml.SafeLoader):
    """``SafeLoader`` for values that JSON has too, with repeated keys noted."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.repeated: list[tuple[str, str]] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        self.flatten_mapping(node)
        built: dict[Hashable, Any] = {}
        written: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be plain text", key_node.start_mark
                )
            key = str(key_node.value)
            # A merged mapping (`<<`) may hold keys that are written out again: that is its use,
            # and its keys come first.
            if key in written and node.start_mark.line <= written[key]:
                self.repeated.append((_mark(key_node.start_mark), key))
            written[key] = key_node.start_mark.line
            built[key] = self.construct_object(value_node, deep=True)
        return built


def _plain_text(loader: _Loader, node: yaml.ScalarNode) -> str:
    return str(node.value)


def _object(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    return loader.construct_mapping(node, deep=True)


def _whole(loader: _Loader, node: yaml.ScalarNode) -> Any:
    """22:30 is a time of day and no number to the base of 60."""
    return node.value if ":" in node.value else loader.construct_yaml_int(node)


def _real(loader: _Loader, node: yaml.ScalarNode) -> Any:
    return node.value if ":" in node.value else loader.construct_yaml_float(node)


_Loader.add_constructor("tag:yaml.org,2002:map", _object)
_Loader.add_constructor("tag:yaml.org,2002:int", _whole)
_Loader.add_constructor("tag:yaml.org,2002:float", _real)
for _tag in ("timestamp", "value"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _plain_text)
for _tag in ("binary", "omap", "pairs", "set"):
    # None is the entry for tags that nobody knows.
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", yaml.SafeLoader.yaml_constructors[None])


def _mark(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


_MOST_VALUES = 1_000_000
"""A file of ordinary size has some hundreds."""


def _refuse_bombs(root: yaml.Node | None, file: str) -> None:
    """Aliases of aliases: a few lines that stand for more values than any machine can hold, or for
    a value inside of itself. Each value is looked at once, however often it is named.
    """
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known == 0:
            place = _mark(node.start_mark)
            raise _broken("bad_syntax", file, place, "A value holds itself.", "Remove the alias.")
        if known is None:
            sizes[id(node)] = 0
            parts: list[Any] = node.value if isinstance(node, yaml.CollectionNode) else []
            if isinstance(node, yaml.MappingNode):
                parts = [one for pair in node.value for one in pair]
            # A long text that is named often is as much.
            own = 1 + len(node.value) // 64 if isinstance(node, yaml.ScalarNode) else 1
            known = sizes[id(node)] = own + sum(map(size, parts))
        return known

    if root is not None and size(root) > _MOST_VALUES:
        message = f"Its aliases stand for more than {_MOST_VALUES:,} values."
        raise _broken("bad_syntax", file, "", message, "Write out what is needed.")


def _parse_yaml(text: str, file: str) -> tuple[Any, tuple[Problem, ...]]:
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        _refuse_bombs(node, file)
        value = None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise _broken(
            "bad_syntax", file, _mark(mark) if mark else "", f"This is no YAML: {said}.", ""
        ) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _broken(
            "bad_syntax",
            file,
            f"line {line}",
            "This line holds a character that YAML does not allow.",
            "Remove it.",
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        raise _broken("bad_syntax", file, "", f"This is no YAML: {error}.", "") from None
    finally:
        if loader is not None:
            loader.dispose()
    if value is None:
        raise _broken("bad_syntax", file, "", "The file is empty.", "")
    if "\\ud" in text.lower():
        _refuse_lone_surrogates(value, file)
    return value, tuple(_twice(file, place, key) for place, key in loader.repeated)
