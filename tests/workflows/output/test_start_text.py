from dataclasses import dataclass

import pytest

from Middleware.core.events import Event, Finish, TextDelta
from Middleware.core.events import ToolCallDelta as Call
from Middleware.workflows.output.cleaning import CleaningRules, clean
from Middleware.workflows.output.start_text import ASSISTANT, TIMESTAMP, start_texts
from tests.workflows.output.whole_text import events_of, streamed_text

LONG = "Certainly! " * 20


@dataclass(frozen=True)
class Case:
    id: str
    said: str
    text: str
    lists: tuple[tuple[str, ...], ...] = ()


CASES = [
    Case("white space goes", " \n\tHello", "Hello"),
    Case("nothing but white space", " \n ", ""),
    Case("an entry and white space after it", "Answer: \nHello", "Hello", (("Answer:",),)),
    Case("white space before the entry", "\n Answer:Hello", "Hello", (("Answer:",),)),
    Case("exactly, in upper and lower case", "answer:Hello", "answer:Hello", (("Answer:",),)),
    Case("an entry only once", "A:A:Hello", "A:Hello", (("A:",),)),
    Case("the first entry that matches", "ABC", "BC", (("A", "AB"),)),
    Case("the longer one if it comes first", "ABC", "C", (("AB", "A"),)),
    Case("the shorter one when the longer one is not completed", "A", "", (("AB", "A"),)),
    Case("only at the start", "Hello Answer:", "Hello Answer:", (("Answer:",),)),
    Case("a beginning of an entry at the end", "Ans", "Ans", (("Answer:",),)),
    Case("longer than a hundred characters", LONG + "Yes.", "Yes.", ((LONG,),)),
    Case(
        "a hundred characters that turn out otherwise", LONG[:-2] + "?", LONG[:-2] + "?", ((LONG,),)
    ),
    Case("lists one after the other", "N: E: Hello", "Hello", (("N:",), ("E:",))),
    Case("lists in their order only", "E: N: Hello", "N: Hello", (("N:",), ("E:",))),
    Case("a list without a match is no obstacle", "E: Hello", "Hello", (("N:",), ("E:",))),
    Case("the time stamp", f"{TIMESTAMP} Hello", "Hello", ((TIMESTAMP,),)),
    Case(
        "the time stamp, then the label",
        f"{TIMESTAMP}Assistant: Hi",
        "Hi",
        ((TIMESTAMP,), (ASSISTANT,)),
    ),
    Case("nothing but an entry", "Answer: ", "", (("Answer:",),)),
    Case("white space at the end stays", " Hello \n", "Hello \n"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
@pytest.mark.parametrize("how", ["whole", "by character"])
def test_start_is_cut(case: Case, how: str) -> None:
    pieces = [case.said] if how == "whole" else list(case.said)

    said = streamed_text(pieces, CleaningRules(trim_start=True, start_lists=case.lists))

    assert said == case.text


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["Hello", " you"], ["Hello", " you"]),
        ([" ", "\n", "Hello", " you"], ["Hello", " you"]),
        (["A", "l", "so"], ["Al", "so"]),
        (["Answer", ": Yes", ", no"], ["Yes", ", no"]),
        (["Answer:", " ", "Yes"], ["Yes"]),
        ([LONG[:30], LONG[30:150], "No", "!"], [LONG[:150] + "No", "!"]),
    ],
    ids=["no entry", "white space", "decided", "cut", "cut with white space", "a long entry"],
)
def test_the_start_is_held_while_it_may_become_an_entry_and_no_longer(
    pieces: list[str], expected: list[str]
) -> None:
    rules = CleaningRules(start_lists=(("Answer:", LONG),))

    assert list(clean(events_of(pieces), rules)) == [*map(TextDelta, expected), Finish()]


def test_white_space_at_the_end_is_held_and_dropped() -> None:
    events = clean(events_of(["\na \n", "\n", " b", "\n", " "]), CleaningRules(trim_end=True))

    assert list(events) == [TextDelta("\na"), TextDelta(" \n\n b"), Finish()]


def test_white_space_at_the_end_is_dropped_across_a_tool_call() -> None:
    call = Call(0, "{}", "call_1", "weather")
    rules = CleaningRules(trim_start=True, trim_end=True)

    assert list(clean(iter([TextDelta("a "), call, Finish()]), rules)) == [
        TextDelta("a"),
        call,
        Finish(),
    ]
    assert list(clean(iter([TextDelta("a "), call, TextDelta("b"), Finish()]), rules)) == [
        TextDelta("a"),
        call,
        TextDelta(" b"),
        Finish(),
    ]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (
            [TextDelta("Ans"), Call(0, "{}"), TextDelta("wer: a"), Finish()],
            [TextDelta("Ans"), Call(0, "{}"), TextDelta("wer: a"), Finish()],
        ),
        (
            [TextDelta("\n"), Call(0, "{}"), TextDelta("Answer: a"), Finish()],
            [Call(0, "{}"), TextDelta("a"), Finish()],
        ),
        (
            [TextDelta("\n"), Call(0, "{}"), Finish()],
            [Call(0, "{}"), Finish()],
        ),
    ],
    ids=["held text goes first", "white space is no beginning", "white space before a call"],
)
def test_a_tool_call_does_not_wait(events: list[Event], expected: list[Event]) -> None:
    rules = CleaningRules(start_lists=(("Answer:",),))

    assert list(clean(iter(events), rules)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ()),
        ("", ()),
        ("Answer: ", ("Answer: ",)),
        (("A", "", "B"), ("A", "B")),
        (["A"], ("A",)),
        ((" A", "B "), ("B ",)),
    ],
)
def test_entries_of_a_setting(
    value: str | tuple[str, ...] | None, expected: tuple[str, ...]
) -> None:
    assert start_texts(value) == expected
