"""What cleaning must give, written down a second time and for whole texts only; and ways to cut a
text into the pieces of a stream.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from hypothesis import strategies as st

from Middleware.core.events import Event, Finish, TextDelta, collect
from Middleware.workflows.output.cleaning import CleaningRules, clean
from Middleware.workflows.output.thinking import ThinkingTags


def cleaned_text(text: str, rules: CleaningRules) -> str:
    if rules.thinking:
        text = without_thinking(text, rules.thinking)
    if rules.trim_start or rules.start_lists:
        text = text.lstrip()
    for entries in rules.start_lists:
        for entry in entries:
            if text.startswith(entry):
                text = text[len(entry) :].lstrip()
                break
    if rules.trim_end:
        text = text.rstrip()
    cue = rules.speaker_cue
    if cue and ":" not in text[1 : len(cue) + 10]:
        text = f"{cue} {text}"
    return text


def without_thinking(text: str, tags: ThinkingTags) -> str:
    start = "" if tags.closing_only else re.escape(tags.start)
    block = re.compile(f"{start}.*?{re.escape(tags.end)}", re.IGNORECASE | re.DOTALL)
    found = block.search(text)
    if found is None or (found.start() > tags.grace and not tags.closing_only):
        return text
    return text[: found.start()] + text[found.end() :]


def events_of(pieces: Iterable[str]) -> Iterator[Event]:
    for piece in pieces:
        yield TextDelta(piece)
    yield Finish()


def streamed_text(pieces: Iterable[str], rules: CleaningRules) -> str:
    return collect(clean(events_of(pieces), rules)).text


def cut(text: str, places: Iterable[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(edges) if a < b]


def texts(*fragments: str) -> st.SearchStrategy[str]:
    """Texts made of these fragments, of pieces of them, of white space and of anything else."""
    whole = st.sampled_from(fragments)
    part = st.builds(lambda text, at: text[: at % len(text) + 1], whole, st.integers(0, 50))
    other = st.one_of(st.sampled_from([" ", "\n", "x", ":", "\u017f", "\u0130", "é"]), st.text())
    return st.lists(st.one_of(whole, part, other), max_size=8).map("".join)


cuts = st.lists(st.integers(0, 10_000), max_size=8)
