from dataclasses import dataclass

import pytest

from Middleware.core.events import Finish, TextDelta
from Middleware.core.events import ToolCallDelta as Call
from Middleware.core.messages import Message
from Middleware.workflows.output.cleaning import CleaningRules, clean
from Middleware.workflows.output.group_chat import speaker_cue
from tests.workflows.output.whole_text import events_of, streamed_text

RULES = CleaningRules(trim_start=True, trim_end=True, speaker_cue="Roland:")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], None),
        ([Message("user", "Hello")], None),
        ([Message("user", "Roland:")], "Roland:"),
        ([Message("user", "Hello"), Message("assistant", " Roland: \n")], "Roland:"),
        ([Message("assistant", "Roland:"), Message("user", "Hello")], None),
        ([Message("system", "x" * 98 + ":")], "x" * 98 + ":"),
        ([Message("system", "x" * 99 + ":")], None),
        ([Message("user", ":")], ":"),
        ([Message("user", "")], None),
    ],
    ids=[
        "no message",
        "no colon",
        "a cue",
        "trimmed",
        "not the last",
        "99 characters",
        "100 characters",
        "only a colon",
        "empty",
    ],
)
def test_which_message_is_a_cue(messages: list[Message], expected: str | None) -> None:
    assert speaker_cue(messages) == expected


@dataclass(frozen=True)
class Case:
    id: str
    said: str
    text: str
    cue: str = "Roland:"


CASES = [
    Case("no name", "Hello there, how are you?", "Roland: Hello there, how are you?"),
    Case("the name", "Roland: Hello", "Roland: Hello"),
    Case("another name", "Susannah: Hello", "Susannah: Hello"),
    Case("a name of several words", "Big Bob: hi", "Big Bob: hi", "Big Bob:"),
    Case("shorter than a cue", "Hi", "Roland: Hi"),
    Case("empty", "", "Roland: "),
    Case("nothing but white space", " \n", "Roland: "),
    Case(
        "a colon at the very start is no name",
        ":) hello to all of you",
        "Roland: :) hello to all of you",
    ),
    Case("the last place for a colon", "x" * 16 + ":", "x" * 16 + ":"),
    Case("a colon too late", "x" * 17 + ":", "Roland: " + "x" * 17 + ":"),
    Case("white space does not count", "   " + "x" * 16 + ": ", "x" * 16 + ":"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
@pytest.mark.parametrize("how", ["whole", "by character"])
def test_an_answer_that_names_no_speaker_gets_the_cue(case: Case, how: str) -> None:
    rules = CleaningRules(trim_start=True, trim_end=True, speaker_cue=case.cue)
    pieces = [case.said] if how == "whole" else list(case.said)

    assert streamed_text(pieces, rules) == case.text


def test_an_answer_passes_as_soon_as_the_speaker_is_known() -> None:
    named = clean(events_of(["Ro", "land", ": H", "ello"]), RULES)
    unnamed = clean(events_of(["x" * 16, "x", "y"]), RULES)

    assert list(named) == [TextDelta("Roland: H"), TextDelta("ello"), Finish()]
    assert list(unnamed) == [TextDelta("Roland: " + "x" * 17), TextDelta("y"), Finish()]


def test_the_cue_is_put_before_what_is_left_after_the_start_is_cut() -> None:
    rules = CleaningRules(start_lists=(("Assistant:",),), speaker_cue="Roland:")

    assert streamed_text(["Assistant: Hello"], rules) == "Roland: Hello"


def test_an_answer_that_only_calls_a_tool_gets_no_cue() -> None:
    call = Call(0, "{}", "call_1", "weather")

    assert list(clean(iter([call, Finish("tool_calls")]), RULES)) == [call, Finish("tool_calls")]


def test_words_before_and_after_a_tool_call_get_the_cue_once() -> None:
    call = Call(0, "{}", "call_1", "weather")

    before = clean(iter([TextDelta("Let me see"), call, TextDelta(" then"), Finish()]), RULES)
    after = clean(iter([call, TextDelta("It rains"), Finish()]), RULES)

    assert list(before) == [TextDelta("Roland: Let me see"), call, TextDelta(" then"), Finish()]
    assert list(after) == [call, TextDelta("Roland: It rains"), Finish()]
