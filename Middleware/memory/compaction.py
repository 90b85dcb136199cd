"""What ContextCompactor nodes remember of a conversation (memory-and-state §15).

The newest messages are Recent and stay as they are. Those before them are Old and have one
summary, and all before those are Oldest and have another one, which only ever grows: what leaves
Old is merged into it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from Middleware.core.messages import Message
from Middleware.core.tokens import estimate_tokens
from Middleware.memory.anchors import anchor_hash
from Middleware.memory.hashing import is_blank, message_hashes

OLD_FILE: Final = "context_compactor_old.json"
OLDEST_FILE: Final = "context_compactor_oldest.json"

_BOUNDARY: Final = "__boundary__"
_COVERED: Final = "covered"
"""Key of the Oldest entry, ours: the place of the first message that is not in it. The reference
knows only where Old begins; it loses messages when the two files do not belong together."""
_SYSTEM: Final = frozenset({"system", "developer"})
_WORTH_IT: Final = 10
"""A tenth of the Old window has to be new. Without that, every turn would move the windows, and
cost three calls (S41)."""
_PLACE = re.compile(r"(\d+):(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Windows:
    """``messages`` are those that may be compacted; Old is ``[old:recent]``."""

    messages: Sequence[Message]
    old: int
    recent: int

    @property
    def first_old(self) -> "Anchor":
        return self.at(self.old)

    @property
    def last_old(self) -> "Anchor":
        return self.at(self.recent - 1)

    def at(self, place: int) -> "Anchor":
        return Anchor(anchor_hash(self.messages[place]), place)

    def find(self, anchor: "Anchor | None") -> int | None:
        """Where the message stands now: where it stood if it still does, else as near to that as
        possible."""
        if anchor is None:
            return None
        places = [at for at, one in enumerate(self.messages) if anchor.hash in _hashes(one)]
        return min(places, key=lambda at: abs(at - anchor.place), default=None)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A message, by its hash and by where it stood."""

    hash: str
    place: int = 0

    @classmethod
    def read(cls, text: str) -> "Anchor":
        """``place:hash``, or the hash alone, as old files have it."""
        found = _PLACE.fullmatch(text)
        return cls(found[2], int(found[1])) if found else cls(text)

    def __str__(self) -> str:
        return f"{self.place}:{self.hash}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The two summaries, and which messages are in them."""

    old: str = ""
    first_old: Anchor | None = None
    last_old: Anchor | None = None
    """None: nothing was ever compacted."""
    oldest: str = ""
    oldest_hash: str = ""
    covered: Anchor | None = None
    """The first message that is not in ``oldest``; None where nobody has written it down."""

    @classmethod
    def read(cls, old: Sequence[Any], oldest: Sequence[Any]) -> "Compacted":
        """From the two files' lists."""
        entries = [entry for entry in old if isinstance(entry, Mapping)]
        place = next((_text(e, "hash") for e in entries if _text(e) == _BOUNDARY), "")
        summary = next((e for e in entries if _text(e) != _BOUNDARY), None)
        before: Mapping[str, Any] = next((e for e in oldest if isinstance(e, Mapping)), {})
        covered = _text(before, _COVERED)
        return cls(
            old=_text(summary or {}),
            first_old=Anchor.read(place) if place else None,
            last_old=None if summary is None else Anchor(_text(summary, "hash")),
            oldest=_text(before),
            oldest_hash=_text(before, "hash"),
            covered=Anchor.read(covered) if covered else None,
        )

    def old_entries(self) -> list[dict[str, str]]:
        last = self.last_old.hash if self.last_old else ""
        return [
            {"text_block": self.old, "hash": last},
            {"text_block": _BOUNDARY, "hash": str(self.first_old)},
        ]

    def oldest_entries(self) -> list[dict[str, str]]:
        entry = {"text_block": self.oldest, "hash": self.oldest_hash}
        return [{**entry, _COVERED: str(self.covered)} if self.covered else entry]

    def shown(self) -> str:
        """The node's output."""
        parts = (("context_compactor_old", self.old), ("context_compactor_oldest", self.oldest))
        return "\n".join(f"<{tag}>{text}</{tag}>" for tag, text in parts if text)


def windows(
    messages: Sequence[Message], *, lookback: int, recent_tokens: int, old_tokens: int
) -> Windows:
    """Cut a conversation. The front end's system prompt belongs to no window (S41), nor do the
    newest ``lookback`` messages where there are more. A message that is larger than a window ends
    it."""
    talk = [message for message in messages if message.role not in _SYSTEM]
    if 0 < lookback < len(talk):
        talk = talk[:-lookback]
    recent = _start(talk, len(talk), recent_tokens)
    return Windows(talk, _start(talk, recent, old_tokens), recent)


def is_due(cut: Windows, known: Compacted, old_tokens: int) -> bool:
    """Whether Old has changed enough to be summarised anew."""
    if len(cut.messages) < 2 or cut.old >= cut.recent:
        return False
    first, last = cut.find(known.first_old), _find_last(cut, known.last_old)
    if first is None or last is None:
        return True
    if last == cut.recent - 1:
        return first != cut.old
    fresh = cut.messages[last + 1 : cut.recent]
    tokens = sum(estimate_tokens(message.content) for message in fresh)
    return not fresh or tokens * _WORTH_IT >= old_tokens


def covered_until(cut: Windows, known: Compacted) -> int:
    """Messages before this place are in the Oldest summary, or never have to be."""
    if known.covered is None and known.last_old is None:
        return 0
    return cut.find(known.covered or known.first_old) or 0


def transcript(messages: Sequence[Message]) -> str:
    """A line ``role: content`` for each message that says something."""
    return "\n".join(f"{one.role}: {one.content}" for one in messages if one.content.strip())


def filled(template: str, values: Mapping[str, str]) -> str:
    """``template`` with each key replaced. Keys inside of values are left alone."""
    marks = re.compile("|".join(map(re.escape, values)))
    return marks.sub(lambda mark: values[mark[0]], template)


def _start(messages: Sequence[Message], end: int, budget: int) -> int:
    """Where a window that ends at ``end`` begins."""
    total = 0
    for place in range(end - 1, -1, -1):
        total += estimate_tokens(messages[place].content)
        if total > budget:
            return place + 1
    return 0


def _find_last(cut: Windows, anchor: Anchor | None) -> int | None:
    """Files do not say where the last Old message stood: the end of Old is the best guess."""
    return None if anchor is None else cut.find(Anchor(anchor.hash, cut.recent - 1))


def _hashes(message: Message) -> frozenset[str]:
    # Messages without words share one hash, so that it tells nothing (S4).
    return frozenset((anchor_hash(message),)) if is_blank(message) else message_hashes(message)


def _text(entry: Mapping[str, Any], key: str = "text_block") -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""
