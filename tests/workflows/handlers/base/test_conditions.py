"""The grammar of conditions, against tables and against an evaluator of its own."""

import logging
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.workflows.handlers.base.conditions import evaluate
from Middleware.workflows.variables.pieces import Piece

VECTORS = """
    5 > 3                                  | T
    'b' > 'a'                              | F
    a == 'a'                               | T
    'a' == 'A'                             | F
    ''                                     | F
    ' '                                    | T
    hello                                  | T
    0                                      | F
    TRUE OR FALSE AND FALSE                | T
    (TRUE OR FALSE) AND FALSE              | F
    NOT TRUE                               | F
    hello world == 'hello world'           | F
    'hello world' == 'hello world'         | T
    a.b == 'a.b'                           | F
    1 < 2 < 3                              | F
    (5 > 3                                 | F
    ()                                     | F
    x and y                                | T
    10-3 == 7                              | F
    5>=5                                   | T
    '5' != 5                               | T
    TRUE > 0                               | T
    -5 < -3                                | T
    inf > 5                                | T
    nan == nan                             | F
    TRUE == 'TRUE'                         | F
    TRUE == 1                              | T
    5 == 5.0                               | T
    "FALSE"                                | T
    FALSE                                  | F
    false                                  | F
    True                                   | T
    'x' >= 5                               | F
    FALSE < TRUE                           | T
    $5 == 5                                | T
    50% > 20                               | T
    5 = 5                                  | F
    TRUE && FALSE                          | F
    1,000 == 1000                          | F
    1e3 == 1000                            | F
    5 > 3)                                 | F
    AND                                    | F
    TRUE AND                               | F
    OR TRUE                                | F
    (5) > 3                                | F
    TRUE OR (5 >                           | F
    == 5                                   | F
    'it's' == 'x'                          | F
    android == 'android'                   | T
    TRUE or FALSE                          | T
    ((TRUE))                               | T
    "it's" == "it's"                       | T
    a == b == c                            | F
    (a == a) AND (b == b OR c == d)        | T
"""
ROWS = [line.rsplit("|", 1) for line in VECTORS.strip().splitlines()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [pytest.param(text.strip(), mark.strip() == "T", id=text.strip()) for text, mark in ROWS],
)
def test_a_condition_of_plain_text(text: str, expected: bool) -> None:
    assert evaluate([Piece(text)]) is expected


def v(text: str) -> Piece:
    return Piece(text, "value")


def a(text: str) -> Piece:
    return Piece(text, "author")


@dataclass(frozen=True)
class Case:
    id: str
    parts: Sequence[Piece]
    expected: bool


VALUES = [
    Case(
        "a value of several words is one operand",
        [v("hello world"), Piece(" == 'hello world'")],
        True,
    ),
    Case("and so is one with dots", [v("a.b"), Piece(" == 'a.b'")], True),
    Case("a currency is a text and no number", [v("$5"), Piece(" == 5")], False),
    Case("a value that is a number", [v("5"), Piece(" == 5")], True),
    Case("with white space around it", [v(" 5\n"), Piece(" == 5")], True),
    Case("a value that is no whole number", [v("-1.5"), Piece(" < 0")], True),
    Case("in quotes it is a text", [Piece("'"), v("5"), Piece("' == 5")], False),
    Case("a value that is a truth value", [v("True"), Piece(" == TRUE")], True),
    Case("in quotes that is a text too", [Piece("'"), v("TRUE"), Piece("' == 'TRUE'")], True),
    Case(
        "a value may hold the quote it stands in",
        [Piece("'"), v("it's"), Piece("' == \"it's\"")],
        True,
    ),
    Case(
        "and may not end the text", [Piece("'"), v("x' OR '1' == '1"), Piece("' == 'yes'")], False
    ),
    Case("nor add an operator", [v("x OR TRUE"), Piece(" == 'yes'")], False),
    Case("a word that is an operator is an operand", [v("or"), Piece(" == 'or'")], True),
    Case("a value in quotes of its own", [v("'yes'"), Piece(" == 'yes'")], True),
    Case("an empty value alone", [v("")], False),
    Case("an empty value in quotes", [Piece("'"), v(""), Piece("' == ''")], True),
    Case("an empty value without quotes equals an empty text", [v(""), Piece(" == ''")], True),
    Case("a value alone may be an expression", [v("3 > 5")], False),
    Case("what is no expression then is a text", [v("hello world")], True),
    Case(
        "a value glued to text is one operand", [Piece("abc_"), v("1"), Piece(" == 'abc_1'")], True
    ),
    Case("a sign in front of a value", [Piece("-"), v("5"), Piece(" < 0")], True),
    Case("two values glued together", [v("1"), v("2"), Piece(" == 12")], True),
    Case("an operator that is a value", [Piece("5 "), v(">"), Piece(" 3")], True),
    Case("a value between parentheses", [Piece("("), v("a b"), Piece(") AND TRUE")], True),
    Case("values without spaces around", [v("10"), Piece(">="), v("9")], True),
    Case("a text of the author's own variable is syntax", [a("5 > 3"), Piece(" AND TRUE")], True),
    Case("and its data is not", [a("'"), v("x' OR 'y"), a("' == 'y'")], False),
    Case(
        "what is no syntax then is an operand", [a("hello world"), Piece(" == 'hello world'")], True
    ),
    Case("an unknown name is text", [Piece("{agent9Output}", "unknown"), Piece(" == 'x'")], False),
    Case("a template is text", [Piece("TRUE AND "), Piece("a == 'b'", "mixed")], False),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in VALUES])
def test_a_condition_with_values(case: Case) -> None:
    assert evaluate(case.parts) is case.expected


@pytest.mark.parametrize("text", ["", "  ", "5 >", "a b"])
def test_what_cannot_be_read_is_reported(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert evaluate([Piece(text)]) is False

    assert "counts as false" in caplog.text


def test_characters_that_mean_nothing_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert evaluate([Piece("$5 == 5")]) is True

    assert "'$'" in caplog.text


def test_the_log_does_not_quote_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        evaluate([v("canary! %canary"), Piece(" 5")])

    assert "means nothing" in caplog.text
    assert "canary" not in caplog.text


def test_parentheses_may_be_as_deep_as_they_like() -> None:
    deep = 20_000

    assert evaluate([Piece("(" * deep + "TRUE" + ")" * deep)]) is True


def test_a_long_value_takes_no_long_time() -> None:
    long = "-" * 200_000

    assert evaluate([Piece("'x' == "), v(long)]) is False
    assert evaluate([v(long)]) is True


# --------------------------------------------------------- an evaluator that works differently


@dataclass(frozen=True)
class Generated:
    """An expression, and what it comes to by a rule of its own: its tree."""

    text: str
    value: bool
    parts: tuple[Piece, ...] = field(default=())


Leaf = tuple[str, object]
WORDS = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,6}", fullmatch=True).filter(
    lambda word: (
        word.upper() not in ("AND", "OR", "TRUE", "FALSE")
        and not re.fullmatch("(?i)inf|infinity|nan", word)
    )
)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="'\0"), max_size=8)
LEAVES: st.SearchStrategy[Leaf] = st.one_of(
    st.integers(-99, 99).map(lambda n: (str(n), float(n))),
    st.decimals(-9, 9, places=2).map(lambda n: (str(n), float(n))),
    st.sampled_from(["TRUE", "true", "FALSE", "False"]).map(lambda w: (w, w.upper() == "TRUE")),
    st.sampled_from([("inf", math.inf), ("nan", math.nan)]),
    WORDS.map(lambda word: (word, word)),
    TEXTS.map(lambda text: (f"'{text}'", text)),
)
SIGNS = st.sampled_from(["==", "!=", ">", "<", ">=", "<="])
SPACES = st.sampled_from([" ", "  ", "\n"])


def compared(left: object, sign: str, right: object) -> bool:
    if sign in ("==", "!="):
        return (left == right) is (sign == "==")
    if not isinstance(left, bool | float) or not isinstance(right, bool | float):
        return False
    difference = float(left) - float(right)
    if left == right:
        return "=" in sign
    if math.isnan(difference):
        return False
    return (difference > 0) is sign.startswith(">")


@st.composite
def factors(draw: st.DrawFn) -> Generated:
    text, value = draw(LEAVES)
    if draw(st.booleans()):
        return Generated(text, bool(value))
    sign, (other, right) = draw(SIGNS), draw(LEAVES)
    gap = draw(SPACES)
    return Generated(f"{text}{gap}{sign}{gap}{other}", compared(value, sign, right))


def joined(inner: st.SearchStrategy[Generated]) -> st.SearchStrategy[Generated]:
    @st.composite
    def build(draw: st.DrawFn) -> Generated:
        """A disjunction of conjunctions, in parentheses, so that it may stand as a factor."""
        terms = draw(st.lists(st.lists(inner, min_size=1, max_size=3), min_size=1, max_size=3))
        word_and, word_or = draw(st.sampled_from([("AND", "OR"), ("and", "Or")]))
        gap = draw(SPACES)
        texts = [f"{gap}{word_and}{gap}".join(one.text for one in term) for term in terms]
        value = any(all(one.value for one in term) for term in terms)
        return Generated(f"({f'{gap}{word_or}{gap}'.join(texts)})", value)

    return build()


EXPRESSIONS = st.recursive(factors(), joined, max_leaves=12)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_what_is_built_by_the_rules_comes_to_what_the_rules_say(expression: Generated) -> None:
    assert evaluate([Piece(expression.text)]) is expression.value
    assert evaluate([Piece(expression.text[1:-1])]) is expression.value or not (
        expression.text.startswith("(")
    )


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30), st.sampled_from(["==", "!="]))
def test_a_quoted_value_is_compared_as_the_text_it_is(value: str, sign: str) -> None:
    held = evaluate([Piece("'"), v(value), Piece(f"' {sign} 'yes'")])

    assert held is ((value == "yes") is (sign == "=="))


@settings(max_examples=200, deadline=None)
@given(st.text("()'\"<>=! ANDORandor15xTRUE.%$-\0", max_size=40), st.text(max_size=10))
def test_nothing_that_is_written_makes_it_fail(text: str, value: str) -> None:
    assert evaluate([Piece(text), v(value), Piece(text)]) in (True, False)
