"""What readers of this process are shown while a turn runs. Nothing of it is durable (MAP-6).

Readers of other processes are shown it by way of `live_rows.py`.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from Middleware.conversations.models import ModelCall

_MOST_KEPT = 256


@dataclass(slots=True)
class LiveText:
    """The words of one attempt so far. A new attempt starts from nothing: drop what was shown."""

    turn: int
    attempt: int
    pieces: list[str] = field(default_factory=list)


class Live:
    """Live text by conversation, and a way to wait for news instead of asking all the time."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._texts: OrderedDict[str, LiveText] = OrderedDict()
        self._changes: OrderedDict[str, int] = OrderedDict()
        self._count = 0
        self._spoken: set[str] = set()

    def show(self, call: ModelCall, text: str) -> None:
        """A piece of the answer of a running attempt."""
        with self._condition:
            known = self._texts.get(call.conversation_id)
            if known is None or (known.turn, known.attempt) != (call.turn, call.attempt):
                known = LiveText(call.turn, call.attempt)
                self._texts[call.conversation_id] = known
                self._drop_oldest(self._texts)
            known.pieces.append(text)
            self._spoken.add(call.conversation_id)
        self.changed(call.conversation_id)

    def changed(self, conversation_id: str) -> None:
        with self._condition:
            self._count += 1
            self._changes[conversation_id] = self._count
            self._changes.move_to_end(conversation_id)
            self._drop_oldest(self._changes)
            self._condition.notify_all()

    def text_of(self, conversation_id: str, turn: int) -> tuple[int, str] | None:
        """The attempt that speaks now, and all that it has said of this turn."""
        with self._condition:
            known = self._texts.get(conversation_id)
            if known is None or known.turn != turn:
                return None
            return known.attempt, "".join(known.pieces)

    def last(self, conversation_id: str) -> LiveText | None:
        """What the newest attempt of the newest turn has said here."""
        with self._condition:
            known = self._texts.get(conversation_id)
            return known and LiveText(known.turn, known.attempt, list(known.pieces))

    def spoken(self, seconds: float) -> set[str]:
        """Conversations with words that were not told here before; waits for the first."""
        with self._condition:
            self._condition.wait_for(lambda: bool(self._spoken), seconds)
            told, self._spoken = self._spoken, set()
            return told

    def mark(self, conversation_id: str) -> int:
        """To be given to :meth:`wait`, taken before one looks."""
        with self._condition:
            return self._changes.get(conversation_id, 0)

    def wait(self, conversation_id: str, mark: int, seconds: float) -> None:
        """Until something is new here, or the time is up. Other processes are not heard of."""
        with self._condition:
            self._condition.wait_for(lambda: self._changes.get(conversation_id, 0) != mark, seconds)

    def _drop_oldest(self, kept: OrderedDict[str, LiveText] | OrderedDict[str, int]) -> None:
        while len(kept) > _MOST_KEPT:
            kept.popitem(last=False)
