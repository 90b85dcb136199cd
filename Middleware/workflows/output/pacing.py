"""Text that is there at once, told word by word as a model would (front-doors §5)."""

import re
from collections.abc import Iterator

from Middleware.core.cancellation import CancelToken
from Middleware.core.events import Event, Finish, TextDelta, Usage

_WORDS = re.compile(r"\s+|\S+")
WORD_PAUSE_SECONDS = 0.02
LONGEST_SECONDS = 5.0


def paced(text: str, cancel: CancelToken) -> Iterator[Event]:
    """Words and the white space between them, 20 ms a word, 5 s at most, then Finish."""
    pieces = _WORDS.findall(text)
    words = sum(1 for piece in pieces if not piece.isspace())
    pause = min(WORD_PAUSE_SECONDS, LONGEST_SECONDS / words) if words else 0.0
    for piece in pieces:
        yield TextDelta(piece)
        if not piece.isspace():
            cancel.wait(pause)
    yield Finish("stop", Usage())
