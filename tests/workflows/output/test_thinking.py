import re
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.core.events import (
    Event,
    Finish,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCallDelta,
    collect,
)
from Middleware.workflows.output.cleaning import CleaningRules, clean
from Middleware.workflows.output.thinking import ThinkingTags
from tests.workflows.output.whole_text import (
    cut,
    cuts,
    events_of,
    streamed_text,
    texts,
    without_thinking,
)

TAGS = ThinkingTags(start="<think>", end="</think>")
CLOSING_ONLY = replace(TAGS, closing_only=True)


@dataclass(frozen=True)
class Case:
    id: str
    pieces: tuple[str, ...]
    text: str
    reasoning: str = ""
    tags: ThinkingTags = TAGS


CASES = [
    Case("a block", ("<think>a</think>b",), "b", "a"),
    Case("C-24: tags cut across chunks", ("<th", "ink>a</think>", "b"), "b", "a"),
    Case(
        "C-24: only a closing tag",
        ("internal", " reasoning</thi", "nk>\nanswer"),
        "\nanswer",
        "internal reasoning",
        CLOSING_ONLY,
    ),
    Case(
        "C-24: an opening tag where none is expected",
        ("<th", "ink>a</think>", "b"),
        "b",
        "a",
        CLOSING_ONLY,
    ),
    Case("C-25 a: no tag at all", ("Just an", " answer."), "Just an answer."),
    Case("C-25 b: never closed", ("<think>so", " far"), "<think>so far", "so far"),
    Case(
        "C-25 c: a closing tag is quoted",
        ('<think>I write "</think> now" here</think>\nReal',),
        ' now" here</think>\nReal',
        'I write "',
    ),
    Case(
        "closing tag expected, none comes",
        ("Just ", "this"),
        "Just this",
        "Just this",
        CLOSING_ONLY,
    ),
    Case("case does not matter", ("<Think>a</THINK>b",), "b", "a"),
    Case("text in front stays", ("One <think>a</think>two",), "One two", "a"),
    Case("only one block", ("<think>a</think>b<think>c</think>",), "b<think>c</think>", "a"),
    Case("closing tag alone", ("a</think>b",), "a</think>b"),
    Case("tag at the last place allowed", ("x" * 100 + "<think>a</think>b",), "x" * 100 + "b", "a"),
    Case("tag too late", ("x" * 101 + "<think>a</think>b",), "x" * 101 + "<think>a</think>b"),
    Case(
        "no grace",
        (" <think>a</think>b",),
        " <think>a</think>b",
        tags=replace(TAGS, grace=0),
    ),
    Case("empty block", ("<think></think>b",), "b"),
    Case("nothing but a block", ("<think>a</think>",), "", "a"),
    Case("nothing", (), ""),
    Case("almost a tag", ("<thin", "g>"), "<thing>"),
    Case("beginning of a tag at the end", ("a <thi",), "a <thi"),
    Case("a tag begins twice", ("<thi<th", "ink>a</thi</think>b"), "<thib", "a</thi"),
    Case(
        "tags of several words",
        ("<|channel|>analysis<|mess", "age|>a<|start|>assis", "tant<|message|>b"),
        "b",
        "a",
        ThinkingTags(start="<|channel|>analysis<|message|>", end="<|start|>assistant<|message|>"),
    ),
    Case("equal tags", ("##a#", "#b"), "b", "a", ThinkingTags(start="##", end="##")),
    Case("tags of one character", ("*a", "*b"), "b", "a", ThinkingTags(start="*", end="*")),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
@pytest.mark.parametrize("how", ["as it came", "whole", "by character"])
def test_one_thinking_block_is_removed(case: Case, how: str) -> None:
    whole = "".join(case.pieces)
    pieces = {"as it came": list(case.pieces), "whole": [whole], "by character": list(whole)}[how]

    kept = collect(clean(events_of(pieces), CleaningRules(thinking=case.tags, keep_thinking=True)))
    dropped = collect(clean(events_of(pieces), CleaningRules(thinking=case.tags)))

    assert dropped == Reply(text=case.text)
    assert kept == Reply(text=case.text, reasoning=case.reasoning)


def test_thinking_that_is_kept_goes_out_while_it_is_thought() -> None:
    events = clean(
        events_of(["<think>", "one ", "two</thi", "s ", "</think>", "b"]),
        CleaningRules(thinking=TAGS, keep_thinking=True),
    )

    assert list(events) == [
        ReasoningDelta("one "),
        ReasoningDelta("two"),
        ReasoningDelta("</this "),
        TextDelta("b"),
        Finish(),
    ]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["Hello ", "you"], ["Hello ", "you"]),
        (["a <b> ", "c"], ["a <b> ", "c"]),
        (["a <", "b"], ["a ", "<b"]),
        (["x" * 101 + "<", "think>"], ["x" * 101 + "<", "think>"]),
    ],
    ids=["no tag", "another tag", "may become a tag", "a tag would come too late"],
)
def test_only_what_may_become_a_tag_is_held(pieces: list[str], expected: list[str]) -> None:
    events = list(clean(events_of(pieces), CleaningRules(thinking=TAGS)))

    assert events == [*map(TextDelta, expected), Finish()]


CALL = ToolCallDelta(0, "{}", "call_1", "weather")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            ["<think>I need ", "it"],
            ["</think>"],
            [TextDelta("<think>I need it"), CALL, TextDelta("</think>")],
        ),
        (["a <thi"], ["nk>b"], [TextDelta("a "), TextDelta("<thi"), CALL, TextDelta("nk>b")]),
        ([], ["<think>a</think>b"], [CALL, TextDelta("b")]),
        (["Hello"], ["<think>a</think>b"], [TextDelta("Hello"), CALL, TextDelta("b")]),
    ],
    ids=["a block", "a beginning of a tag", "nothing", "nothing any more"],
)
def test_a_tool_call_lets_out_what_is_held(
    before: list[str], after: list[str], expected: list[Event]
) -> None:
    events: list[Event] = [
        *map(TextDelta, before),
        CALL,
        *map(TextDelta, after),
        Finish("tool_calls"),
    ]

    assert list(clean(iter(events), CleaningRules(thinking=TAGS))) == [
        *expected,
        Finish("tool_calls"),
    ]


def test_white_space_before_a_tool_call_is_no_thinking_yet() -> None:
    events: list[Event] = [TextDelta("\n"), CALL, TextDelta("a</think>b"), Finish("tool_calls")]

    assert list(clean(iter(events), CleaningRules(thinking=CLOSING_ONLY))) == [
        CALL,
        TextDelta("b"),
        Finish("tool_calls"),
    ]


def test_reasoning_of_the_backend_passes_and_decides_nothing() -> None:
    events: list[Event] = [
        TextDelta("<thi"),
        ReasoningDelta("r"),
        TextDelta("nk>a</think>b"),
        Finish(),
    ]

    assert list(clean(iter(events), CleaningRules(thinking=TAGS))) == [
        ReasoningDelta("r"),
        TextDelta("b"),
        Finish(),
    ]


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    text=texts("<think>", "</think>", "<THINK>", "</thinK>", "x" * 20),
    places=cuts,
    grace=st.sampled_from([0, 3, 30, 100]),
    closing_only=st.booleans(),
    keep=st.booleans(),
)
def test_the_answer_depends_on_neither_the_cuts_nor_what_becomes_of_the_thinking(
    text: str, places: list[int], grace: int, closing_only: bool, keep: bool
) -> None:
    tags = replace(TAGS, grace=grace, closing_only=closing_only)
    rules = CleaningRules(thinking=tags, keep_thinking=keep)

    assert streamed_text(cut(text, places), rules) == without_thinking(text, tags)


@settings(derandomize=True, deadline=None, max_examples=150)
@given(text=texts("<think>", "</think>", "<THINK>"), places=cuts, closing_only=st.booleans())
def test_the_reasoning_of_a_closed_block_does_not_depend_on_the_cuts(
    text: str, places: list[int], closing_only: bool
) -> None:
    text = f"<think>{text}</think>end"
    rules = CleaningRules(thinking=replace(TAGS, closing_only=closing_only), keep_thinking=True)

    streamed = collect(clean(events_of(cut(text, places)), rules))

    assert streamed == collect(clean(events_of([text]), rules))
    assert streamed.reasoning == re.split("</think>", text, flags=re.IGNORECASE)[0][7:]
