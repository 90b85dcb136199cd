"""Answers, and ways to cut their bytes, for round trips through a wire format."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise

from hypothesis import strategies as st

from Middleware.core.errors import WorkflowError
from Middleware.core.events import (
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from Middleware.wire.backend_errors import BackendVoice

VOICE = BackendVoice("fast")
BROKEN = WorkflowError("It broke.")

_texts = st.text(min_size=1, max_size=12)
_names = st.text("abcdef_", min_size=1, max_size=8)
_values = st.integers(-(2**53), 2**53) | _texts | st.lists(st.booleans(), max_size=3)
_arguments = st.dictionaries(_texts, _values, max_size=3)
_reasons: st.SearchStrategy[FinishReason] = st.sampled_from(("stop", "length"))
_counts = st.integers(0, 10**6)

cuts = st.lists(st.integers(0, 10**6), max_size=8)


class FixedClock:
    """Its monotonic time moves on by a quarter of a second whenever somebody asks for it."""

    def __init__(self) -> None:
        self._elapsed = 100.0

    def now(self) -> datetime:
        return datetime(2023, 11, 14, 22, 13, 20)

    def timestamp(self) -> float:
        return 1_700_000_000.25

    def monotonic(self) -> float:
        self._elapsed += 0.25
        return self._elapsed

    def new_id(self) -> str:
        return "0" * 32


@st.composite
def answers(draw: st.DrawFn, *, tools: bool = True, reasoning: bool = True) -> list[Event]:
    """Thoughts, then text, then tool calls in fragments, then a Finish that agrees with them."""
    events: list[Event] = []
    if reasoning:
        events += map(ReasoningDelta, draw(st.lists(_texts, max_size=3)))
    events += map(TextDelta, draw(st.lists(_texts, max_size=4)))
    calls = draw(st.integers(0, 3)) if tools else 0
    for index in range(calls):
        events += _call(draw, index)
    usage = Usage(prompt_tokens=draw(_counts), completion_tokens=draw(_counts))
    return [*events, Finish("tool_calls" if calls else draw(_reasons), usage)]


def _call(draw: st.DrawFn, index: int) -> Iterator[Event]:
    # Compact, as the formats that carry objects write them, so that equal calls are equal texts.
    text = json.dumps(draw(_arguments), ensure_ascii=False, separators=(",", ":"))
    cut = draw(st.integers(0, len(text)))
    yield ToolCallDelta(index, text[:cut], f"call_{index}", draw(_names))
    if cut < len(text):
        yield ToolCallDelta(index, text[cut:])


def pieces(data: bytes, places: Iterable[int]) -> list[bytes]:
    """The bytes cut at the given places, which are counted round and round."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]
