"""Keyword search over pieces of text (memory-and-state §13)."""

import re
from collections.abc import Collection, Sequence
from itertools import combinations
from typing import Final

from Middleware.core.messages import Message

_WORD = re.compile(r"\w+")
_LABEL = re.compile(r"(\w+):")
_QUERY_PART = re.compile(r"\w+:|\w+|[()]|[^\w\s()]+")
_EMPTY_PARENTHESES = re.compile(r"\(\s*\)")
_OPERATORS: Final = frozenset({"AND", "OR"})
_NEAR: Final = 5
_SPEAKER_MESSAGES: Final = 10


def speakers(messages: Sequence[Message]) -> frozenset[str]:
    """Who speaks in the newest messages: words directly followed by a colon, in lower case."""
    newest = messages[-_SPEAKER_MESSAGES:]
    return frozenset(name.lower() for message in newest for name in _LABEL.findall(message.content))


def filtered_query(keywords: str, names: Collection[str]) -> str:
    """``keywords`` without the names of speakers and without labels."""
    kept = [
        part
        for part in _QUERY_PART.findall(keywords)
        if not part.endswith(":") and part.lower() not in names
    ]
    text = " ".join(kept)
    while (shorter := _EMPTY_PARENTHESES.sub("", text)) != text:
        text = shorter
    return " ".join(text.split())


def words_of(query: str) -> frozenset[str]:
    """The words to look for; operators mean nothing here."""
    found = [word for word in _WORD.findall(query) if word not in _OPERATORS]
    return frozenset(word.lower() for word in found)


def best_chunks(chunks: Sequence[str], query: str, most: int) -> list[str]:
    """The chunks that fit best, the best first; those without any word of the query are none."""
    wanted = words_of(query)
    scored = [(score(chunk, wanted), chunk) for chunk in chunks]
    scored.sort(key=lambda pair: -pair[0])
    return [chunk for points, chunk in scored[:most] if points > 0]


def score(chunk: str, wanted: Collection[str]) -> int:
    """Occurrences of the words, and one more for every two different ones that stand near."""
    labels = {name.lower() for name in _LABEL.findall(chunk)}
    places: dict[str, list[int]] = {}
    words = [word.lower() for word in _WORD.findall(chunk)]
    for place, word in enumerate(words):
        if word in wanted and word not in labels:
            places.setdefault(word, []).append(place)
    total = sum(map(len, places.values()))
    for one, other in combinations(places.values(), 2):
        total += _near_pairs(one, other)
    return total


def _near_pairs(one: Sequence[int], other: Sequence[int]) -> int:
    """Both are sorted, so a window moves along the second."""
    pairs = first = end = 0
    for place in one:
        while first < len(other) and other[first] < place - _NEAR:
            first += 1
        while end < len(other) and other[end] <= place + _NEAR:
            end += 1
        pairs += end - first
    return pairs


def matching_chunks(chunks: Sequence[str], query: str, most: int) -> list[str]:
    """The first chunks, in their order, that hold any word of the query."""
    wanted = words_of(query)
    found = (
        chunk for chunk in chunks if not wanted.isdisjoint(map(str.lower, _WORD.findall(chunk)))
    )
    return [chunk for _, chunk in zip(range(most), found, strict=False)]
