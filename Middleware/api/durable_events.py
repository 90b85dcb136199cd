"""Waiting for news of a conversation: bounded, so that it never keeps others out (MAP-8)."""

import hashlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from flask import Response, request

from Middleware.api.errors import JSON
from Middleware.api.event_stream import Frames
from Middleware.conversations.page import Page
from Middleware.conversations.service import Conversations
from Middleware.core.errors import MiddlewareError

_SHOWN = frozenset(
    {
        "phase_changed",
        "signal_received",
        "signal_applied",
        "signal_ignored",
        "signal_rejected",
        "proposal_published",
        "timeout_fired",
        "action_applied",
        "reply_recorded",
        "run_started",
        "run_continued",
        "run_completed",
    }
)
_BATCH = 200


class TooManyReaders(MiddlewareError):
    status = 503
    code = "too_many_readers"

    def __init__(self) -> None:
        super().__init__("Too many readers wait for events already. Poll the status instead.")
        self.retry_after = "5"


@dataclass(slots=True)
class Waits:
    """How many requests may wait at once, and for how long."""

    most: int = 200
    longest_seconds: float = 60.0
    stream_seconds: float = 3600.0
    heartbeat_seconds: float = 5.0
    _free: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._free = threading.Semaphore(self.most)

    def enter(self) -> bool:
        return self._free.acquire(blocking=False)

    def leave(self) -> None:
        self._free.release()

    @contextmanager
    def place(self) -> Iterator[bool]:
        """Whether there is room to wait."""
        entered = self.enter()
        try:
            yield entered
        finally:
            if entered:
                self.leave()


def changed_status(
    conversations: Conversations, waits: Waits, conversation_id: str, status: dict[str, Any]
) -> Response:
    """The status; with `If-None-Match` and `Prefer: wait=n` as soon as it differs (HTTP-4)."""
    known = request.headers.get("If-None-Match")
    seconds = min(_preferred_wait(request.headers.get("Prefer", "")), waits.longest_seconds)
    if known and seconds and _tag(status) == known:
        with waits.place() as may_wait:
            for _ in conversations.watch(conversation_id, seconds if may_wait else 0):
                status = conversations.reader.status(conversation_id) or status
                if _tag(status) != known:
                    break
    tag = _tag(status)
    if known == tag:
        return Response(status=304, headers={"ETag": tag})
    return Response(orjson.dumps(status), headers={"ETag": tag}, content_type=JSON)


def _tag(status: Mapping[str, Any]) -> str:
    text = orjson.dumps(status, option=orjson.OPT_SORT_KEYS)
    return f'"{hashlib.sha256(text).hexdigest()[:32]}"'


def _preferred_wait(prefer: str) -> float:
    for part in prefer.split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "wait" and value.isdecimal():
            return float(value)
    return 0.0


class EventStreams:
    """`GET …/events`: what happens, as server-sent events.

    Events of the history carry their number as id, so that a reader who was cut off goes on
    where it was. Live text has no id and is not durable: when a new attempt begins, drop it.
    """

    def __init__(self, conversations: Conversations, waits: Waits) -> None:
        self._conversations = conversations
        self._waits = waits

    def open(self, conversation_id: str, last_event_id: str) -> Response:
        if not self._waits.enter():
            raise TooManyReaders
        frames = Frames(
            self._events(conversation_id, Page(after=last_event_id).number), self._waits.leave
        )
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return Response(frames, headers=headers, content_type="text/event-stream")

    def _events(self, conversation_id: str, number: int) -> Iterator[bytes]:
        shown = _ShownText()
        beat_at = 0.0
        yield b": open\n\n"
        for _ in self._conversations.watch(conversation_id, self._waits.stream_seconds):
            more = True
            while more:
                part = self._part(conversation_id, number)
                for event in part:
                    number = event["number"]
                    if event["type"] in _SHOWN:
                        yield _frame(event["type"], event, number)
                    if event["type"] == "run_completed":
                        return
                more = len(part) == _BATCH
            text = self._live_text(conversation_id, shown)
            now = time.monotonic()
            if text:
                yield text
            elif now >= beat_at:
                yield b": waiting\n\n"
                beat_at = now + self._waits.heartbeat_seconds

    def _part(self, conversation_id: str, after: int) -> list[dict[str, Any]]:
        page = Page(limit=_BATCH, after=str(after))
        found = self._conversations.reader.history(conversation_id, page)
        return found["events"] if found else []

    def _live_text(self, conversation_id: str, shown: "_ShownText") -> bytes:
        state = self._conversations.reader.state(conversation_id)
        if state is None or state.turn is None:
            return b""
        live = self._conversations.live_text(state)
        return shown.next(state.turn, *live) if live else b""


@dataclass(slots=True)
class _ShownText:
    """What a reader has been shown of the running attempt."""

    turn: int = 0
    attempt: int = 0
    length: int = 0

    def next(self, turn: int, attempt: int, text: str) -> bytes:
        frames = b""
        if (turn, attempt) != (self.turn, self.attempt):
            self.turn, self.attempt, self.length = turn, attempt, 0
            frames = _frame("attempt", {"turn": turn, "attempt": attempt, "discard": True})
        if len(text) > self.length:
            piece = {"turn": turn, "attempt": attempt, "text": text[self.length :]}
            self.length = len(text)
            frames += _frame("text", piece)
        return frames


def _frame(type_: str, data: Mapping[str, Any], number: int | None = None) -> bytes:
    head = b"" if number is None else b"id: %d\n" % number
    return head + b"event: %s\ndata: %s\n\n" % (type_.encode(), orjson.dumps(data))
