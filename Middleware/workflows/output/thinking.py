"""Removes one thinking block from an answer (workflow-engine §9.1, front-doors §9).

The rules, for every text and the same streamed and whole:

* Tags are found without regard to case. A removed block is gone with both its tags.
* The opening tag counts if it starts at one of the first ``grace + 1`` characters. Text before it
  stays and is passed on at once; only what may be the beginning of a tag is held.
* The **first** closing tag after it ends the block, even where the model only quotes it:
  ``<think>I write "</think> now" here</think>\\nReal`` leaves ``" now" here</think>\\nReal``. What
  comes behind a block is never looked at again, so an answer cannot lose its end.
* ``closing_only``: the prompt has opened the block, so everything up to the first closing tag is
  thinking.
* **No opening tag**, or one too late: the text is unchanged.
* **No closing tag**: the text is unchanged too, tags included. It was held until then, so it comes
  at the end in one piece; it is not lost, and a later node never gets an empty variable.
* With ``keep`` thinking goes out as reasoning while it is thought. If the closing tag then never
  comes, the same text follows once more as answer: what the answer is does not depend on ``keep``.
  An opening tag at the start of a ``closing_only`` block is no part of the reasoning.
* A tool call ends the beginning of an answer: what is held then counts as at the end.
"""

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingTags:
    """How an endpoint's model marks its thinking; neither tag may be empty."""

    start: str
    end: str
    grace: int = 100
    """The last index (from 0) at which the opening tag may start."""
    closing_only: bool = False


class _Tag:
    """Finds a tag, or the beginning of one at the end of a text."""

    __slots__ = ("_beginning", "_whole", "length")

    def __init__(self, tag: str) -> None:
        # The expression module compares letter by letter, so a match never depends on where the
        # text was cut and is as long as the tag; str.lower() keeps neither promise.
        beginnings = (re.escape(tag[:size]) for size in range(len(tag) - 1, -1, -1))
        self._whole = re.compile(re.escape(tag), re.IGNORECASE)
        self._beginning = re.compile(f"(?:{'|'.join(beginnings)})\\Z", re.IGNORECASE)
        self.length = len(tag)

    def find(self, text: str) -> int:
        """Where the first one starts, or -1."""
        found = self._whole.search(text)
        return found.start() if found else -1

    def leads(self, text: str) -> bool:
        return self._whole.match(text) is not None

    def unfinished(self, text: str) -> int:
        """Where the end of ``text`` begins that more text may turn into a tag; its length if
        there is none.
        """
        found = self._beginning.search(text, max(0, len(text) - self.length + 1))
        return found.start() if found else len(text)


_tag = lru_cache(maxsize=256)(_Tag)


class ThinkingFilter:
    """The rules above, for one answer."""

    __slots__ = ("_block", "_end", "_inside", "_left", "_pending", "_reasoning", "_start", "done")

    def __init__(self, tags: ThinkingTags, *, keep: bool) -> None:
        self._start = _tag(tags.start)
        self._end = _tag(tags.end)
        self._left = tags.grace
        """The last index, counted from the start of ``_pending``, for an opening tag."""
        self._inside = tags.closing_only
        self._pending = ""
        """Text that no decision has been made about."""
        self._block: list[str] = []
        """The block so far, opening tag included, in case that it is never closed."""
        self._reasoning = _Reasoning(self._start, led=tags.closing_only) if keep else None
        self.done = False

    def feed(self, text: str) -> str:
        self._pending += text
        before = "" if self._inside else self._before_block()
        if self._inside:
            self._in_block()
        if not self.done:
            return before
        text, self._pending = self._pending, ""
        return before + text

    def before_tool_call(self) -> str:
        return self.end() if self._held().strip() else ""

    def end(self) -> str:
        """Text that was held for a tag that did not come."""
        self.done = True
        held = self._held()
        self._block, self._pending = [], ""
        return held

    def _held(self) -> str:
        return "".join((*self._block, self._pending))

    def take_reasoning(self) -> str:
        """Reasoning that has not been taken yet; empty unless thinking is kept."""
        return self._reasoning.take() if self._reasoning else ""

    def _before_block(self) -> str:
        """Answer in front of an opening tag; afterwards ``_pending`` starts behind it."""
        text = self._pending
        at = self._start.find(text)
        if 0 <= at <= self._left:
            behind = at + self._start.length
            self._inside = True
            self._block.append(text[at:behind])
        else:
            at = behind = len(text) if at >= 0 else self._start.unfinished(text)
            if at > self._left:
                self.done = True
                return ""
        self._left -= at
        self._pending = text[behind:]
        return text[:at]

    def _in_block(self) -> None:
        """Move thinking that is certain out of ``_pending``, and the closing tag."""
        text = self._pending
        at = self._end.find(text)
        if at >= 0:
            self.done = True
            self._block = []
            self._pending = text[at + self._end.length :]
        else:
            at = self._end.unfinished(text)
            self._block.append(text[:at])
            self._pending = text[at:]
        if self._reasoning:
            self._reasoning.add(text[:at], more=not self.done)


class _Reasoning:
    """What was thought, without the opening tag that a ``closing_only`` block may start with."""

    __slots__ = ("_led", "_start", "_text")

    def __init__(self, start: _Tag, *, led: bool) -> None:
        self._start = start
        self._led = led
        """Whether the text may still turn out to begin with the tag."""
        self._text = ""

    def add(self, thought: str, *, more: bool) -> None:
        self._text += thought
        if self._led:
            lead = self._text.lstrip()
            if self._start.leads(lead):
                self._text = lead[self._start.length :]
                self._led = False
            else:
                self._led = more and self._start.unfinished(lead) == 0

    def take(self) -> str:
        if self._led:
            return ""
        text, self._text = self._text, ""
        return text
