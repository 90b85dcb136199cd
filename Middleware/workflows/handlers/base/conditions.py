"""The grammar of `Conditional` (nodes §5), also that of every other node that asks a question.

    expr := term { OR term } ; term := factor { AND factor } ; factor := '(' expr ')' | operand
    [ comparison operand ]

What a variable brings in is one operand, whatever stands in it (S12): it can neither end a quoted
text nor add an operator. Texts that were written for plain substitution keep their meaning: a
condition that cannot be read that way is read once more with the values as if they were typed.
"""

import logging
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from Middleware.workflows.variables.pieces import Piece, joined

logger = logging.getLogger(__name__)

Operand: TypeAlias = bool | float | str

_MARK: Final = "\0"
"""Stands for one value while the text is cut into tokens."""

_TOKEN = r"""
    (?P<quoted>'[^']*'|"[^"]*")
  | (?P<compare>==|!=|>=|<=|>|<)
  | (?P<paren>[()])
  | (?P<number>-?\d+(?:\.\d+)?)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
"""
_TYPED = re.compile(_TOKEN, re.VERBOSE)
_MARKED = re.compile(rf"(?P<mixed>[\w.\-]*\0[\w.\-\0]*) | {_TOKEN}", re.VERBOSE)
"""With values in it, and what is glued to them."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


@dataclass(frozen=True, slots=True)
class _Operand:
    value: Operand


_Token: TypeAlias = str | _Operand
"""An operator or a parenthesis, or an operand."""


class _Malformed(ValueError):
    """The text is no expression. Says what is wrong with it."""


def evaluate(parts: Sequence[Piece]) -> bool:
    """Whether a rendered condition holds. What is no expression does not, with a warning."""
    problem = "is empty"
    # What users and models say does not belong into the log.
    quotes = not any(piece.is_data for piece in parts)
    for reading in _readings(parts):
        try:
            return _value_of(list(_tokens(reading, quotes=quotes)))
        except _Malformed as error:
            problem = str(error)
    logger.warning("a condition %s, so it counts as false", problem)
    return False


def fault_of(text: str) -> str | None:
    """What is wrong with a condition, as in ``has nothing behind ==``; None where nothing is."""
    if not text.strip():
        return "is empty"
    try:
        _value_of(list(_tokens((Piece(text),), quotes=None)))
    except _Malformed as error:
        return str(error)
    return None


def _readings(parts: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    """The ways to read it, the best first."""
    text = joined(parts)
    if not text.strip():
        return
    some = [piece for piece in parts if piece.text.strip()]
    typed = (Piece(text),)
    # A condition that is one variable and nothing else may be a whole expression.
    if len(some) == 1 and some[0].origin == "value":
        yield typed
    yield parts
    if any(piece.origin == "author" for piece in parts):
        yield [Piece(p.text, "value" if p.origin == "author" else p.origin) for p in parts]
    yield typed


def _tokens(parts: Iterable[Piece], *, quotes: bool | None) -> Iterator[_Token]:
    """Characters between tokens are left out, as they always were, and reported (S12); not where
    ``quotes`` is None.
    """
    values = iter([piece.text for piece in parts if piece.origin == "value"])
    text = "".join(
        _MARK if piece.origin == "value" else piece.text.replace(_MARK, "") for piece in parts
    )
    at = 0
    for found in (_MARKED if _MARK in text else _TYPED).finditer(text):
        _report(text[at : found.start()], quotes=quotes)
        at = found.end()
        yield _token(found, values)
    _report(text[at:], quotes=quotes)


def _report(skipped: str, *, quotes: bool | None) -> None:
    if skipped.strip() and quotes is not None:
        shown = repr(skipped.strip()[:20]) if quotes else "something"
        logger.warning("a condition holds %s that means nothing there", shown)


def _token(found: re.Match[str], values: Iterator[str]) -> _Token:
    text = found[0]
    match found.lastgroup:
        case "mixed":
            return _Operand(_operand_of(_filled(text, values).strip()))
        case "quoted":
            return _Operand(_filled(text[1:-1], values))
        case "word" if text.upper() in ("AND", "OR"):
            return text.upper()
        case "word":
            return _Operand(_word(text))
        case "number":
            return _Operand(float(text))
        case _:
            return text


def _filled(text: str, values: Iterator[str]) -> str:
    return "".join(next(values) if sign == _MARK else sign for sign in text)


def _operand_of(value: str) -> Operand:
    """A value as if it had been typed alone: quotes around it are quotes."""
    if _NUMBER.fullmatch(value):
        return float(value)
    if _WORD.fullmatch(value):
        return _word(value)
    if (
        len(value) > 1
        and value[0] == value[-1]
        and value[0] in "'\""
        and value[0] not in value[1:-1]
    ):
        return value[1:-1]
    return value


def _word(text: str) -> Operand:
    if text.upper() in ("TRUE", "FALSE"):
        return text.upper() == "TRUE"
    try:
        # Words that are numbers: inf and nan.
        return float(text)
    except ValueError:
        return text


def _value_of(tokens: Sequence[_Token]) -> bool:
    """One pass with a stack, so that the depth of parentheses has no limit.

    Each level holds the terms that are finished and the factors of the term at hand.
    """
    levels: list[_Level] = [_Level()]
    at = 0
    while at < len(tokens):
        token = tokens[at]
        level = levels[-1]
        if isinstance(token, _Operand):
            value, at = _comparison(tokens, at)
            level.add(value)
            continue
        at += 1
        if token == "(":
            level.require_gap()
            levels.append(_Level())
        elif token == ")":
            if len(levels) == 1:
                raise _Malformed("has a ) without a (")
            value = levels.pop().close()
            levels[-1].add(value)
        elif token in ("AND", "OR"):
            level.join(token)
        else:
            raise _Malformed(f"has nothing in front of {token}")
    if len(levels) > 1:
        raise _Malformed("has a ( without a )")
    return levels[0].close()


class _Level:
    """What stands between a pair of parentheses, read so far."""

    __slots__ = ("_any", "_term", "_waits")

    def __init__(self) -> None:
        self._any = False
        self._term = True
        self._waits = True

    def require_gap(self) -> None:
        if not self._waits:
            raise _Malformed("has two values with nothing between them")

    def add(self, value: bool) -> None:
        self.require_gap()
        self._term = self._term and value
        self._waits = False

    def join(self, word: str) -> None:
        if self._waits:
            raise _Malformed(f"has nothing in front of {word}")
        self._waits = True
        if word == "OR":
            self._any = self._any or self._term
            self._term = True

    def close(self) -> bool:
        if self._waits:
            raise _Malformed("has nothing where a value is needed")
        return self._any or self._term


def _comparison(tokens: Sequence[_Token], at: int) -> tuple[bool, int]:
    """The truth of the operand at ``at``, or of its comparison, and where it goes on."""
    left = tokens[at]
    assert isinstance(left, _Operand)
    sign = tokens[at + 1] if at + 1 < len(tokens) else None
    if not isinstance(sign, str) or sign not in ("==", "!=", *_COMPARISONS):
        return bool(left.value), at + 1
    right = tokens[at + 2] if at + 2 < len(tokens) else None
    if not isinstance(right, _Operand):
        raise _Malformed(f"has nothing behind {sign}")
    return _compare(left.value, sign, right.value), at + 3


def _compare(left: Operand, sign: str, right: Operand) -> bool:
    if sign == "==":
        return left == right
    if sign == "!=":
        return left != right
    if isinstance(left, str) or isinstance(right, str):
        return False
    return _COMPARISONS[sign](left, right)
