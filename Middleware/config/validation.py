"""What a typed model has to say about a file, in plain words and with the file's own keys."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from Middleware.config.loose import FileModel
from Middleware.config.problems import BrokenFile, Problem
from Middleware.core.registry import nearest

M = TypeVar("M", bound=FileModel)

IGNORED_KEYS = frozenset(
    {
        "stream",
        "verboseLogging",
        "defaultParallelProcessWorkflow",
        "description",
        "modelNameForDisplayOnly",
        "nameForDisplayOnly",
        "displayOnlyComment",
        "thinkTagText",
        "promptTemplateGenSeparator",
    }
)
"""Keys that existing files have and that nothing reads, there or here."""

_SECRET = re.compile(
    r"(?i)key|sha256|secret|token$|password|passwd|authori[sz]ation|credential|headers|\benv\b"
    r"|endpoint$|url"
)
_SHOWN = 40


def show_place(loc: tuple[Any, ...]) -> str:
    """``("nodes", 2, "prompt")`` -> ``nodes[2].prompt``."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else str(part)
    return text


def show_value(value: Any, place: str = "") -> str:
    """The value as JSON, shortened; of something secret only what kind of thing it is."""
    if _SECRET.search(place):
        return f"{kind_of(value)} that is not shown here"
    if isinstance(value, dict | list):
        return kind_of(value)
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return kind_of(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a number"),
    (float, "a number"),
    (str, "text"),
    (Mapping, "an object {…}"),
    (list, "a list […]"),
)


def kind_of(value: Any) -> str:
    if value is None:
        return "null"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "something else")


_WANTED = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "dict_type": "an object {…}",
    "mapping_type": "an object {…}",
    "model_type": "an object {…}",
    "model_attributes_type": "an object {…}",
    "tuple_type": "a list […]",
    "list_type": "a list […]",
    "string_too_short": "text that is not empty",
}


def _remedy(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx") or {}
    given = error.get("input")
    if kind == "string_type" and isinstance(given, bool):
        return 'Write text; in YAML, yes, no, on and off need quotes: "no".'
    if kind in _WANTED:
        return f"Write {_WANTED[kind]}."
    if kind == "literal_error":
        expected = str(context.get("expected", ""))
        close = nearest(str(given), re.findall(r"'([^']*)'", expected))
        hint = f" Did you mean '{close}'?" if close else ""
        return f"Write {expected}.{hint}"
    limits = {
        "greater_than": ("more than", "gt"),
        "greater_than_equal": ("at least", "ge"),
        "less_than": ("less than", "lt"),
        "less_than_equal": ("at most", "le"),
    }
    if kind in limits:
        words, bound = limits[kind]
        return f"It must be {words} {context.get(bound)}."
    return ""


def problems_of(error: ValidationError, file: str, under: str = "") -> tuple[Problem, ...]:
    """One problem a bad field. ``under`` is put in front of every place."""
    return tuple(_problem_of(dict(one), file, under) for one in error.errors(include_url=False))


def _problem_of(error: Mapping[str, Any], file: str, under: str) -> Problem:
    place = _join(under, show_place(tuple(error["loc"])))
    if error["type"] == "missing":
        message, remedy = "This key is missing.", "Add it."
    elif error["type"] == "extra_forbidden":
        message, remedy = "This key is not known.", "Correct or remove it."
    elif error["type"] == "value_error":
        # The texts of our validators complete "It …".
        message, remedy = f"It {(error.get('ctx') or {}).get('error', 'is not right')}.", ""
    else:
        message = f"The value is {show_value(error.get('input'), place)}."
        remedy = _remedy(error) or f"{error['msg']}."
    return Problem(
        code="missing_key" if error["type"] == "missing" else "invalid_value",
        severity="error",
        file=file,
        place=place,
        message=message,
        remedy=remedy,
    )


def _join(under: str, place: str) -> str:
    if not under or not place:
        return under or place
    return f"{under}{place}" if place.startswith("[") else f"{under}.{place}"


def validated(model: type[M], raw: Any, file: str, *, under: str = "") -> M:
    """The typed value; raises :class:`BrokenFile` that names every bad field."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise BrokenFile(problems_of(error, file, under)) from None


def require_object(raw: Any, file: str) -> dict[str, Any]:
    """Most files are one object."""
    if isinstance(raw, dict):
        return raw
    problem = Problem(
        code="invalid_value",
        severity="error",
        file=file,
        message=f"The file is {kind_of(raw)}.",
        remedy="It must be an object {…}.",
    )
    raise BrokenFile((problem,))


def known_keys(model: type[FileModel]) -> tuple[str, ...]:
    """The keys that a file of this kind may hold."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def is_comment(key: str) -> bool:
    """Keys that people write for people."""
    return key in IGNORED_KEYS or key.startswith(("_", "$", "//", "#"))


def unknown_keys(value: FileModel, file: str, *, under: str = "") -> Iterator[Problem]:
    """A warning for every key that nothing reads, in nested parts too."""
    known = known_keys(type(value))
    for key in value.model_extra or {}:
        if not is_comment(key):
            yield unknown_key(key, known, file, under)
    for name, field in type(value).model_fields.items():
        place = _join(under, field.alias or name)
        inner = getattr(value, name)
        if isinstance(inner, FileModel):
            yield from unknown_keys(inner, file, under=place)
        elif isinstance(inner, tuple):
            for position, part in enumerate(inner):
                if isinstance(part, FileModel):
                    yield from unknown_keys(part, file, under=f"{place}[{position}]")


def unknown_key(key: str, known: tuple[str, ...], file: str, under: str = "") -> Problem:
    """The warning for one key, with the nearest right one."""
    close = nearest(key, known)
    return Problem(
        code="unknown_key",
        severity="warning",
        file=file,
        place=_join(under, key),
        message="Nothing reads this key.",
        remedy=f"Did you mean `{close}`?" if close else "Remove it, or check its spelling.",
    )
