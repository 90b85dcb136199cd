import pytest

from Middleware.core.tokens import estimate_all, estimate_tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 1),
        ("hello", 1),
        ("a " * 100, 148),
        ("x" * 35, 11),
        (" \n\t ", 1),
        ("one\ntwo\tthree", 4),
    ],
    ids=[
        "nothing",
        "one letter",
        "one word",
        "words count",
        "characters count",
        "only white space",
        "any white space parts words",
    ],
)
def test_the_higher_of_words_and_characters_counts_with_a_margin(text: str, expected: int) -> None:
    assert estimate_tokens(text) == expected


def test_texts_are_estimated_one_by_one() -> None:
    assert estimate_all(["hello", "hello", ""]) == 2 * estimate_tokens("hello")
    assert estimate_all([]) == 0
