from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.config.models import Endpoint
from Middleware.core.events import Event, Finish, ReasoningDelta, Reply, TextDelta, collect, replay
from Middleware.core.messages import ToolCall
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.output.cleaning import CleaningRules, clean, cleaning_rules
from Middleware.workflows.output.thinking import ThinkingTags
from tests.workflows.output.whole_text import (
    cleaned_text,
    cut,
    cuts,
    events_of,
    streamed_text,
    texts,
)

TAGS = ThinkingTags(start="<think>", end="</think>", grace=30)
LISTS = (("Answer:", "Ans"), ("Assistant:",))
EVERYTHING = CleaningRules(
    thinking=TAGS,
    keep_thinking=True,
    trim_start=True,
    start_lists=LISTS,
    trim_end=True,
    speaker_cue="Bob:",
    lowercase_tool_names=True,
)

rules_of_any_kind = st.builds(
    CleaningRules,
    thinking=st.sampled_from([None, TAGS, replace(TAGS, closing_only=True)]),
    keep_thinking=st.booleans(),
    trim_start=st.booleans(),
    start_lists=st.sampled_from([(), LISTS, LISTS[:1], (("A", "AB", "ABC"), ("AB",))]),
    trim_end=st.booleans(),
    speaker_cue=st.sampled_from([None, "Bob:", "Big Bob:"]),
    lowercase_tool_names=st.booleans(),
)
answers = texts(
    "<think>", "</think>", "<THINK>", "Answer:", "Assistant:", "ABC", "Big Bob:", "Bob:"
)


@settings(derandomize=True, deadline=None, max_examples=500)
@given(text=answers, places=cuts, rules=rules_of_any_kind)
def test_an_answer_is_the_same_streamed_and_whole(
    text: str, places: list[int], rules: CleaningRules
) -> None:
    whole = collect(clean(replay(Reply(text=text)), rules))

    assert streamed_text(cut(text, places), rules) == whole.text
    assert whole.text == cleaned_text(text, rules)


ENDINGS = [
    special[at:] + more
    for special in ("</think>", "<think>", "Answer:", "Assistant:", "ABC", ":")
    for at in range(len(special))
    for more in ("", "x", "x</think>y", "x</think>y:")
]


def common_start(texts: list[str]) -> str:
    first, last = min(texts), max(texts)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(letter for letter, _ in same)


@settings(derandomize=True, deadline=None, max_examples=250)
@given(text=answers, places=cuts, rules=rules_of_any_kind)
def test_what_has_passed_is_what_every_ending_agrees_on(
    text: str, places: list[int], rules: CleaningRules
) -> None:
    # A cue that no answer begins with: otherwise endings agree by chance.
    rules = replace(rules, speaker_cue=rules.speaker_cue and "\u2603\u2603:")
    mark = ReasoningDelta("so far")
    pieces = map(TextDelta, cut(text, places))
    endings = ["", "x", "x" * 40, *ENDINGS]

    so_far = takewhile(lambda event: event != mark, clean(chain(pieces, [mark]), rules))
    passed = collect(so_far).text

    assert passed == common_start([cleaned_text(text + ending, rules) for ending in endings])


def test_a_filter_that_is_not_active_returns_the_same_iterator() -> None:
    events = events_of(["Hello"])

    assert not CleaningRules().active
    assert not CleaningRules(keep_thinking=True).active
    assert clean(events, CleaningRules(keep_thinking=True)) is events


@pytest.mark.parametrize(
    "rules",
    [
        CleaningRules(thinking=TAGS),
        CleaningRules(trim_start=True),
        CleaningRules(start_lists=LISTS),
        CleaningRules(trim_end=True),
        CleaningRules(speaker_cue="Bob:"),
        CleaningRules(lowercase_tool_names=True),
    ],
)
def test_each_rule_makes_the_rules_active(rules: CleaningRules) -> None:
    events = events_of(["Hello"])

    assert rules.active
    assert clean(events, rules) is not events


def test_text_that_no_rule_can_touch_passes_at_once_and_as_the_same_events() -> None:
    events: list[Event] = [TextDelta("Hello"), TextDelta(" you"), Finish()]
    asked: list[int] = []

    def told() -> Iterator[Event]:
        for number, event in enumerate(events):
            asked.append(number)
            yield event

    rules = replace(EVERYTHING, speaker_cue=None)
    for number, event in enumerate(clean(told(), rules)):
        assert event is events[number]
        assert asked[-1] == number


def test_nothing_is_read_before_somebody_asks() -> None:
    def told() -> Iterator[Event]:
        raise AssertionError("read too early")
        yield Finish()

    clean(told(), EVERYTHING)


def test_a_whole_reply_keeps_its_calls_its_reason_and_its_reasoning() -> None:
    call = ToolCall(id="call_1", name="Weather", arguments="{}")
    reply = Reply(
        text="<think>hm</think> Answer: yes \n",
        reasoning="first ",
        tool_calls=(call,),
        finish_reason="tool_calls",
    )

    cleaned = collect(clean(replay(reply), replace(EVERYTHING, speaker_cue=None)))

    assert cleaned == Reply(
        text="yes",
        reasoning="first hm",
        tool_calls=(replace(call, name="weather"),),
        finish_reason="tool_calls",
    )


@dataclass
class Source:
    """A model that goes on talking until nobody listens."""

    pieces: list[str]
    closed: bool = False
    events: Iterator[Event] = field(init=False)

    def __post_init__(self) -> None:
        self.events = self._talk()

    def _talk(self) -> Iterator[Event]:
        try:
            for piece in self.pieces:
                yield TextDelta(piece)
            while True:
                yield TextDelta(" and")
        finally:
            self.closed = True


@pytest.mark.parametrize("reads", [1, 5], ids=["at the start", "in the middle"])
@pytest.mark.parametrize(
    "rules",
    [EVERYTHING, CleaningRules(trim_start=True), CleaningRules(lowercase_tool_names=True)],
    ids=["everything", "only the start", "only tool names"],
)
def test_who_stops_reading_stops_the_model(rules: CleaningRules, reads: int) -> None:
    source = Source(["<think>a</think>", "Bob: Hello"])
    cleaned = clean(source.events, rules)
    for _ in range(reads):
        next(cleaned)

    cleaned.close()  # type: ignore[attr-defined]

    assert source.closed


def test_a_failure_of_the_model_reaches_the_reader() -> None:
    def told() -> Iterator[Event]:
        yield TextDelta("Hello")
        raise OSError("gone")

    cleaned = clean(told(), replace(EVERYTHING, speaker_cue=None))

    assert next(cleaned) == TextDelta("Hello")
    with pytest.raises(OSError, match="gone"):
        next(cleaned)


@dataclass(frozen=True)
class Rules:
    id: str
    expected: CleaningRules
    node: dict[str, Any] = field(default_factory=dict)
    endpoint: dict[str, Any] = field(default_factory=dict)
    assistant_label: bool = False


FROM_FILES = [
    Rules("white space at the start always goes", CleaningRules(trim_start=True)),
    Rules(
        "everything is on",
        CleaningRules(
            thinking=ThinkingTags(start="<t>", end="</t>", grace=7, closing_only=True),
            trim_start=True,
            start_lists=(
                ("N: ",),
                ("E:", "F"),
                ("[Sent less than a minute ago]",),
                ("Assistant:",),
            ),
            trim_end=True,
            lowercase_tool_names=True,
        ),
        {
            "removeCustomTextFromResponseStart": True,
            "responseStartTextToRemove": "N: ",
            "addDiscussionIdTimestampsForLLM": True,
            "lowercaseToolCallFunctionNames": True,
        },
        {
            "removeThinking": True,
            "startThinkTag": "<t>",
            "endThinkTag": "</t>",
            "openingTagGracePeriod": 7,
            "expectOnlyClosingThinkTag": True,
            "removeCustomTextFromResponseStartEndpointWide": True,
            "responseStartTextToRemoveEndpointWide": [" E: ", "", "F"],
            "trimBeginningAndEndLineBreaks": True,
        },
        assistant_label=True,
    ),
    Rules(
        "a list of the node, one text of the endpoint",
        CleaningRules(trim_start=True, start_lists=(("N", "M"), ("E",))),
        {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": ["N", "M"]},
        {
            "removeCustomTextFromResponseStartEndpointWide": True,
            "responseStartTextToRemoveEndpointWide": "E",
        },
    ),
    Rules(
        "lists that are not switched on",
        CleaningRules(trim_start=True),
        {"responseStartTextToRemove": "N:"},
        {"responseStartTextToRemoveEndpointWide": ["E:"]},
    ),
    Rules(
        "lists that are switched on and empty",
        CleaningRules(trim_start=True),
        {"removeCustomTextFromResponseStart": True, "responseStartTextToRemove": []},
        {
            "removeCustomTextFromResponseStartEndpointWide": True,
            "responseStartTextToRemoveEndpointWide": "",
        },
    ),
    Rules(
        "a missing tag turns removal off",
        CleaningRules(trim_start=True),
        endpoint={"removeThinking": True, "startThinkTag": "", "endThinkTag": "</t>"},
    ),
    Rules(
        "a hundred characters of grace",
        CleaningRules(trim_start=True, thinking=ThinkingTags(start="<t>", end="</t>", grace=100)),
        endpoint={"removeThinking": True, "startThinkTag": "<t>", "endThinkTag": "</t>"},
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in FROM_FILES])
def test_rules_come_from_the_node_and_its_endpoint(case: Rules) -> None:
    node = NodeOptions.read(case.node)
    endpoint = Endpoint.model_validate(case.endpoint)

    rules = cleaning_rules(node, endpoint, assistant_label=case.assistant_label)

    assert rules == case.expected
