from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.core.events import (
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    Reply,
    ReplyBuilder,
    TextDelta,
    ToolCallDelta,
    Usage,
    collect,
    replay,
)
from Middleware.core.messages import ToolCall

reasons: st.SearchStrategy[FinishReason] = st.sampled_from(
    ["stop", "length", "tool_calls", "content_filter"]
)
counts = st.integers(0, 1_000_000)
usages = st.builds(Usage, prompt_tokens=counts, completion_tokens=counts, estimated=st.booleans())
calls = st.builds(ToolCall, id=st.text(), name=st.text(), arguments=st.text())
replies = st.builds(
    Reply,
    text=st.text(),
    reasoning=st.text(),
    tool_calls=st.lists(calls, max_size=3).map(tuple),
    finish_reason=reasons,
    usage=st.one_of(st.none(), usages),
)


@settings(derandomize=True, deadline=None)
@given(replies)
def test_what_is_replayed_collects_to_the_same_reply(reply: Reply) -> None:
    assert collect(replay(reply)) == reply


@settings(derandomize=True, deadline=None)
@given(replies)
def test_a_replayed_stream_ends_with_its_one_finish_and_has_no_empty_pieces(reply: Reply) -> None:
    *before, last = replay(reply)

    assert isinstance(last, Finish)
    assert not any(isinstance(event, Finish) for event in before)
    assert TextDelta("") not in before
    assert ReasoningDelta("") not in before


def test_pieces_of_text_and_of_reasoning_are_put_together_each_for_itself() -> None:
    events: list[Event] = [
        ReasoningDelta("hm"),
        TextDelta("He"),
        ReasoningDelta(", yes"),
        TextDelta("llo"),
        Finish("length", Usage(prompt_tokens=3, completion_tokens=2)),
    ]

    assert collect(events) == Reply(
        text="Hello",
        reasoning="hm, yes",
        finish_reason="length",
        usage=Usage(prompt_tokens=3, completion_tokens=2),
    )


def test_fragments_of_interleaved_tool_calls_are_put_together_in_the_order_of_their_indexes() -> (
    None
):
    events: list[Event] = [
        ToolCallDelta(1, "", "call_b", "time"),
        ToolCallDelta(0, '{"city":', "call_a", "weather"),
        ToolCallDelta(1, "{}"),
        ToolCallDelta(0, '"Rome"}'),
        Finish("tool_calls"),
    ]

    assert collect(events) == Reply(
        tool_calls=(
            ToolCall(id="call_a", name="weather", arguments='{"city":"Rome"}'),
            ToolCall(id="call_b", name="time", arguments="{}"),
        ),
        finish_reason="tool_calls",
    )


def test_a_reply_can_be_looked_at_before_it_is_finished() -> None:
    builder = ReplyBuilder()
    builder.add(TextDelta("He"))
    so_far = builder.build()

    builder.add(TextDelta("llo"))
    builder.add(Finish())

    assert so_far == Reply(text="He")
    assert builder.build() == Reply(text="Hello")
    assert builder.finish == Finish()


def test_usages_add_up_and_one_estimate_makes_the_sum_an_estimate() -> None:
    reported = Usage(prompt_tokens=10, completion_tokens=5)
    estimated = Usage(prompt_tokens=1, completion_tokens=2, estimated=True)

    assert reported + reported == Usage(prompt_tokens=20, completion_tokens=10)
    assert reported + estimated == Usage(prompt_tokens=11, completion_tokens=7, estimated=True)
    assert estimated + reported == Usage(prompt_tokens=11, completion_tokens=7, estimated=True)
