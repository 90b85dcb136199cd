from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from Middleware.core.messages import Message, ToolCall
from Middleware.memory.compaction import (
    Anchor,
    Compacted,
    Windows,
    covered_until,
    filled,
    is_due,
    transcript,
    windows,
)
from Middleware.memory.hashing import message_hash, text_hash


def talk(letters: str) -> list[Message]:
    """One message a letter, of 11 estimated tokens each; capital letters are ten times as long."""
    return [Message("user", letter * (350 if letter.isupper() else 35)) for letter in letters]


def letters(messages: Sequence[Message]) -> str:
    return "".join(message.content[0] for message in messages)


def cut_of(texts: str, recent: int = 22, old: int = 33) -> Windows:
    """Two messages are Recent, three are Old."""
    return windows(talk(texts), lookback=0, recent_tokens=recent, old_tokens=old)


def state_of(cut: Windows, **more: object) -> Compacted:
    """What a compaction of these windows leaves, as the reference writes it."""
    old = [
        {"text_block": "OLD", "hash": message_hash(cut.messages[cut.recent - 1])},
        {"text_block": "__boundary__", "hash": f"{cut.old}:{cut.first_old.hash}"},
    ]
    oldest = [{"text_block": "OLDEST", "hash": cut.at(0).hash, **more}]
    return Compacted.read(old, oldest)


@dataclass(frozen=True)
class Cut:
    id: str
    texts: str
    oldest: str
    old: str
    recent: str
    lookback: int = 0
    recent_tokens: int = 22
    old_tokens: int = 33


CUTS = [
    Cut("all three parts", "abcdefg", "ab", "cde", "fg"),
    Cut("exactly full windows", "abcde", "", "abc", "de"),
    Cut("one token less and a message stays out", "abcde", "ab", "cd", "e", 0, 21, 32),
    Cut("everything is recent", "ab", "", "", "ab"),
    Cut("the newest are not looked at", "abcdefgh", "a", "bcd", "ef", 2),
    Cut("no more messages than are left alone: all count", "abc", "", "a", "bc", 3),
    Cut("the newest message is larger than its window", "abcdE", "abcdE", "", ""),
    Cut("a large message ends the old window", "aBcd", "aB", "", "cd"),
    Cut("a large message within", "aBcde", "aB", "c", "de"),
    Cut("windows of nothing", "abc", "abc", "", "", 0, 0, 0),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CUTS])
def test_windows(case: Cut) -> None:
    cut = windows(
        talk(case.texts),
        lookback=case.lookback,
        recent_tokens=case.recent_tokens,
        old_tokens=case.old_tokens,
    )

    messages = list(cut.messages)
    parts = messages[: cut.old], messages[cut.old : cut.recent], messages[cut.recent :]
    assert tuple(map(letters, parts)) == (case.oldest, case.old, case.recent)


def test_the_system_prompt_of_a_front_end_is_in_no_window() -> None:
    messages = [Message("system", "s"), *talk("ab"), Message("developer", "d"), *talk("c")]

    cut = windows(messages, lookback=1, recent_tokens=11, old_tokens=11)

    assert letters(cut.messages) == "ab"


@dataclass(frozen=True)
class Due:
    id: str
    before: str
    now: str
    expected: bool
    old_tokens: int = 33


DUE = [
    Due("nothing new", "abcdefg", "abcdefg", False),
    Due("one message more", "abcdefg", "abcdefgh", True),
    Due("it is a small part of the window", "abcdefg", "abcdefgh", False, 111),
    Due("it is a tenth of the window", "abcdefg", "abcdefgh", True, 110),
    Due("the first old message was edited", "abcdefg", "abxdefg", True),
    Due("the last old message was edited", "abcdefg", "abcdxfg", True),
    Due("a small part, but the first old message was edited", "abcdefg", "abxdefgh", True, 1000),
    Due("the newest message was deleted", "abcdefg", "abcdef", True),
    Due("the oldest message was cut off", "abcdefg", "bcdefg", False),
    Due("nothing is old any more", "abcdefg", "fg", False),
    Due("a word that was said twice", "abcdefg", "abcdefge", True),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in DUE])
def test_when_to_compact(case: Due) -> None:
    state = state_of(cut_of(case.before))

    assert is_due(cut_of(case.now), state, case.old_tokens) is case.expected


def test_what_was_never_compacted_is_due_if_anything_is_old() -> None:
    due = [is_due(cut_of(texts), Compacted(), 33) for texts in ("a", "ab", "abc", "abcdefg")]

    assert due == [False, False, True, True]


@dataclass(frozen=True)
class Covered:
    id: str
    before: str
    now: str
    expected: int


COVERED = [
    Covered("the boundary stands where it stood", "abcdefg", "abcdefghi", 2),
    Covered("it has moved", "abcdefg", "bcdefghi", 1),
    Covered("of two, the one where it stood", "abcdefg", "cbcdefghi", 2),
    Covered("it is gone: all is merged once more", "abcdefg", "abxdefghi", 0),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in COVERED])
def test_what_is_in_the_oldest_summary_already(case: Covered) -> None:
    assert covered_until(cut_of(case.now), state_of(cut_of(case.before))) == case.expected


def test_the_oldest_summary_itself_knows_best_what_is_in_it() -> None:
    cut = cut_of("abcdefg")

    assert covered_until(cut, state_of(cut, covered=str(cut.at(1)))) == 1


def test_without_any_state_nothing_is_covered() -> None:
    assert covered_until(cut_of("abcdefg"), Compacted()) == 0


def test_a_boundary_without_a_place_is_found_by_its_hash() -> None:
    cut = cut_of("abcdefg")
    old = [
        {"text_block": "OLD", "hash": "x"},
        {"text_block": "__boundary__", "hash": message_hash(cut.messages[2])},
    ]

    assert covered_until(cut, Compacted.read(old, [])) == 2


def test_hashes_of_escaped_and_of_plain_text_are_known() -> None:
    cut = Windows([Message("user", "a"), Message("user", "{b}")], 0, 2)

    escaped = Anchor(text_hash("__WILMER_L_CURLY__b__WILMER_R_CURLY__"))
    assert [cut.find(escaped), cut.find(Anchor(text_hash("{b}")))] == [1, 1]


def test_messages_without_words_are_told_apart() -> None:
    calls = [
        Message("assistant", tool_calls=(ToolCall(id=name, name="f", arguments="{}"),))
        for name in "ab"
    ]
    cut = Windows(calls, 0, 2)

    assert [cut.find(Anchor(cut.at(1).hash, 0)), cut.find(Anchor(text_hash("")))] == [1, None]


def test_the_state_is_the_same_after_it_was_written_and_read() -> None:
    cut = cut_of("abcdefg")
    state = state_of(cut, covered=str(cut.at(2)))

    assert Compacted.read(state.old_entries(), state.oldest_entries()) == state


def test_files_that_hold_something_odd_count_as_empty() -> None:
    assert Compacted.read([1, None, "x"], [{"text_block": 3}]) == Compacted.read([], [])


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (Compacted(), ""),
        (Compacted(old="a"), "<context_compactor_old>a</context_compactor_old>"),
        (Compacted(oldest="b"), "<context_compactor_oldest>b</context_compactor_oldest>"),
        (
            Compacted(old="a<", oldest="b"),
            "<context_compactor_old>a<</context_compactor_old>\n"
            "<context_compactor_oldest>b</context_compactor_oldest>",
        ),
    ],
)
def test_what_is_put_out(state: Compacted, expected: str) -> None:
    assert state.shown() == expected


def test_the_transcript_names_roles_and_leaves_out_what_says_nothing() -> None:
    messages = [Message("user", "a\nb"), Message("assistant", " "), Message("tool", "c")]

    assert transcript(messages) == "user: a\nb\ntool: c"


def test_marks_in_what_was_filled_in_are_left_alone() -> None:
    assert filled("[A]-[B]-{c}", {"[A]": "[B]", "[B]": "[A]"}) == "[B]-[A]-{c}"
