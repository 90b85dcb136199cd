"""Server-sent events of something that goes on: bounded, so that readers never keep others out."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import orjson
from flask import Response

from Middleware.core.errors import MiddlewareError


class TooManyReaders(MiddlewareError):
    status = 503
    code = "too_many_readers"

    def __init__(self) -> None:
        super().__init__("Too many readers wait for events already. Ask for the run instead.")
        self.retry_after = "5"


class Places:
    """How many streams of events may be open at once: each keeps a thread of the server."""

    def __init__(self, most: int = 100) -> None:
        self._free = threading.Semaphore(most)

    def stream(self, frames: Iterator[bytes]) -> Response:
        """A response that takes a place until its reader leaves. Raises TooManyReaders."""
        if not self._free.acquire(blocking=False):
            raise TooManyReaders
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        body = Frames(frames, self._free.release)
        return Response(body, headers=headers, content_type="text/event-stream")


class Frames:
    """Gives the place back when the reader leaves, also before the first frame."""

    def __init__(self, frames: Iterator[bytes], give_back: Callable[[], None]) -> None:
        self._frames = frames
        self._give_back = give_back
        self._open = True

    def __iter__(self) -> Iterator[bytes]:
        return self._frames

    def close(self) -> None:
        if self._open:
            self._open = False
            self._give_back()


def frame(name: str, data: Any) -> bytes:
    """One event with JSON."""
    text = orjson.dumps(data, default=str, option=orjson.OPT_NON_STR_KEYS)
    return b"event: %b\ndata: %b\n\n" % (name.encode(), text)
