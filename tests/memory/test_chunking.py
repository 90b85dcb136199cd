from dataclasses import dataclass

import pytest

from Middleware.core.messages import Message
from Middleware.core.tokens import estimate_tokens
from Middleware.memory.chunking import chunk_text, chunked, without_roles


@dataclass(frozen=True)
class Case:
    id: str
    words: list[int]
    """How many words each message has."""
    expected: list[list[int]]


# A word is estimated at 1.485 tokens, so 20 words are 29 and 80 % of a size of 100 is 80.
CASES = [
    Case("nothing", [], []),
    Case("one", [20], [[20]]),
    Case("filled from the newest on", [20, 20, 20], [[20], [20, 20]]),
    Case(
        "the oldest rest is kept, however small", [30, 20, 20, 20, 20], [[30], [20, 20], [20, 20]]
    ),
    Case("one that is too large stands alone", [5, 500, 5], [[5], [500], [5]]),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES])
def test_a_conversation_is_cut_into_neighbours(case: Case) -> None:
    messages = [Message("user", " ".join("w" * count)) for count in case.words]

    groups = chunked(messages, 100)

    assert [[len(m.content.split()) for m in group] for group in groups] == case.expected
    assert [m for group in groups for m in group] == messages


def test_exactly_80_percent_is_not_too_much() -> None:
    messages = [Message("user", "x" * 28), Message("user", "y" * 28)]
    tokens = estimate_tokens("x" * 28)

    assert len(chunked(messages, int(2 * tokens / 0.8))) == 1
    assert len(chunked(messages, int(2 * tokens / 0.8) - 1)) == 2


def test_a_chunk_has_no_labels() -> None:
    assert chunk_text([Message("user", "a"), Message("assistant", "b")]) == "a\nb"
    assert without_roles("User: a\nsay Assistant: b") == "a\nsay b"
