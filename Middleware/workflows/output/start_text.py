"""What is cut from the start of an answer, and the white space at its end (workflow-engine §9).

The start, in this order: white space; then for each list one entry, the first of the list that the
text begins with exactly, and white space again. The lists are those of the node, of the endpoint,
the time stamp that a model copies, and ``Assistant:``. The start is held as long as it may still
become an entry, and no longer: an entry may have any length, and a text that begins with none of
them passes with its first visible character.
"""

from collections.abc import Iterable, Iterator

from Middleware.core.events import Event, TextDelta

TIMESTAMP = "[Sent less than a minute ago]"
ASSISTANT = "Assistant:"


def start_texts(value: str | Iterable[str] | None) -> tuple[str, ...]:
    """The entries of a setting that is a text, a list of texts or null.

    Empty ones are dropped, and ones that start with white space too: that is gone from an answer
    before entries are looked for, so they never match.
    """
    entries = (value,) if isinstance(value, str) else tuple(value or ())
    return tuple(entry for entry in entries if entry and not entry[0].isspace())


class StartTextFilter:
    """Cuts the start of one answer."""

    __slots__ = ("_held", "_lists", "done")

    def __init__(self, lists: tuple[tuple[str, ...], ...]) -> None:
        self._lists = lists
        """Those that are still to be looked for, the next one first."""
        self._held = ""
        self.done = False

    def feed(self, text: str) -> str:
        self._held = (self._held + text).lstrip()
        while self._held and self._lists:
            found = self._matching_entry(ended=False)
            if found is None:
                return ""
            self._cut(found)
        return self._release() if self._held else ""

    def before_tool_call(self) -> str:
        return self.end() if self._held else ""

    def end(self) -> str:
        while self._lists:
            self._cut(self._matching_entry(ended=True) or "")
        return self._release()

    def _matching_entry(self, *, ended: bool) -> str | None:
        """The entry to cut, empty for none; None while that depends on what follows."""
        for entry in self._lists[0]:
            if self._held.startswith(entry):
                return entry
            if not ended and entry.startswith(self._held):
                return None
        return ""

    def _cut(self, entry: str) -> None:
        self._lists = self._lists[1:]
        if entry:
            self._held = self._held[len(entry) :].lstrip()

    def _release(self) -> str:
        self.done = True
        text, self._held = self._held, ""
        return text


class EndSpaceFilter:
    """Drops the white space at the end of an answer: it is held until something follows."""

    __slots__ = ("_held", "done")

    def __init__(self) -> None:
        self._held = ""
        self.done = False

    def feed(self, text: str) -> str:
        seen = text.rstrip()
        if not self._held and seen == text:
            return text
        if not seen:
            self._held += text
            return ""
        released = self._held + seen
        self._held = text[len(seen) :]
        return released

    def before_tool_call(self) -> str:
        return ""

    def end(self) -> str:
        self.done = True
        return ""

    def rest(self, events: Iterator[Event]) -> Iterator[Event]:
        """The same for all that is left of a stream, without a stop on the way."""
        feed = self.feed
        for event in events:
            if isinstance(event, TextDelta):
                text = feed(event.text)
                if text != event.text:
                    if text:
                        yield TextDelta(text)
                    continue
            yield event
