"""Text that is there at once, told word by word as a model would (front-doors §5)."""

import re
from collections.abc import Iterator

from Middleware.core.cancellation import CancelToken
from Middleware.core.events import Event, Finish, ReasoningDelta, Reply, TextDelta

_WORDS = re.compile(r"\s+|\S+")
WORD_PAUSE_SECONDS = 0.02
LONGEST_SECONDS = 5.0


def paced(reply: Reply, cancel: CancelToken) -> Iterator[Event]:
    """Words and the white space between them, 20 ms a word, 5 s at most, then Finish."""
    if reply.reasoning:
        yield ReasoningDelta(reply.reasoning)
    pieces = _WORDS.findall(reply.text)
    words = sum(1 for piece in pieces if not piece.isspace())
    pause = min(WORD_PAUSE_SECONDS, LONGEST_SECONDS / words) if words else 0.0
    for piece in pieces:
        yield TextDelta(piece)
        if not piece.isspace():
            cancel.wait(pause)
    yield Finish(reply.finish_reason, reply.usage, reply.confidence)
