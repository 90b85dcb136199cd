from dataclasses import dataclass

import pytest

from Middleware.core.messages import Message
from Middleware.memory.search import (
    best_chunks,
    filtered_query,
    matching_chunks,
    score,
    speakers,
    words_of,
)


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ("red fox", "red fox"),
        ("(red OR fox) AND Bob", "( red OR fox ) AND"),
        ("Bob: fox label: den", "fox den"),
        ("(Bob) fox", "fox"),
        ("((bob))", ""),
        ("", ""),
    ],
)
def test_speakers_and_labels_are_not_looked_for(keywords: str, expected: str) -> None:
    assert filtered_query(keywords, {"bob"}) == expected


def test_speakers_are_those_of_the_newest_ten_messages() -> None:
    old = [Message("user", "Carol: hello")]
    new = [Message("user", "Bob: hi\nAlice: there")] + [Message("user", "x")] * 9

    assert speakers(old + new) == {"bob", "alice"}


def test_operators_are_no_words() -> None:
    assert words_of("Red AND fox OR the") == {"red", "fox", "the"}


@dataclass(frozen=True)
class Case:
    id: str
    text: str
    query: str
    expected: int


SCORES = [
    Case("none", "a b c", "fox", 0),
    Case("occurrences", "Fox fox, foxes", "fox", 2),
    Case("two words near each other", "red x x x x fox", "red fox", 3),
    Case("two words that stand apart", "red x x x x x fox", "red fox", 2),
    Case("the same word twice is no pair", "fox fox", "fox", 2),
    Case("every near pair counts", "red fox red", "red fox", 5),
    Case("speakers of the text do not count", "fox: red", "red fox", 1),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SCORES])
def test_the_score_of_a_text(case: Case) -> None:
    assert score(case.text, words_of(case.query)) == case.expected


def test_the_best_come_first_and_those_without_any_word_not_at_all() -> None:
    chunks = ["fox", "nothing", "fox fox", "fox too"]

    assert best_chunks(chunks, "fox", 3) == ["fox fox", "fox", "fox too"]
    assert best_chunks(chunks, "fox", 1) == ["fox fox"]
    assert best_chunks(chunks, "", 3) == []


def test_matches_keep_their_order() -> None:
    assert matching_chunks(["a Fox", "b", "fox fox"], "fox b", 2) == ["a Fox", "b"]
    assert matching_chunks(["a"], "", 2) == []
