"""Background responses of ordinary workflows: they are made whether or not anybody waits.

The run belongs to this process. If the process is lost, whoever asks next is told that the
response has failed: an ordinary run cannot go on where it was (profiles can, see durable.md).
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flask import Response, request

from Middleware.api.delivery import Delivery
from Middleware.api.doors.common import EVENT_STREAM, json_response
from Middleware.api.doors.kept_conversations import reachable
from Middleware.api.doors.kept_responses import ID_START, Kept
from Middleware.api.durable_events import TooManyReaders, Waits
from Middleware.api.errors import ENVIRON_REQUEST_ID
from Middleware.api.event_stream import Frames
from Middleware.api.running import plain_key, scope_of
from Middleware.core.errors import MalformedRequest, MiddlewareError, RunCancelled
from Middleware.core.events import Event, Finish, Reply
from Middleware.core.messages import ChatRequest
from Middleware.storage.places import Lives, Place, alive_at
from Middleware.storage.responses import KeptResponse
from Middleware.wire import openai_responses
from Middleware.wire.bodies import write_json
from Middleware.wire.openai_responses import AnswerStream, Frame, ResponseHead, ResponsesRequest

_SESSION: Final = "headrace_session"
"""In a kept body that is not final: which process makes it. Never shown."""
_FRAMES: Final = "frames of "
_BEAT_SECONDS: Final = 1.0
_STREAM_SECONDS: Final = 3600.0
LOST: Final = "The server that made this response was lost. Send the request again."


@dataclass(slots=True, eq=False)
class BackgroundRun:
    """One response while it is made, and an :class:`Encoder` that keeps all it is told."""

    head: ResponseHead
    request_id: str
    save: Callable[["BackgroundRun", bool], None]
    """Told when it begins, and with True when it is over."""
    frames: list[Frame] = field(default_factory=list)
    over: bool = False
    cancelled: bool = False
    _stream: AnswerStream = field(init=False)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._stream = AnswerStream(self.head)

    @property
    def response(self) -> dict[str, Any]:
        """The response object as it stands."""
        response = self._stream.response
        if self.cancelled:
            return {**response, "status": "cancelled", "error": None}
        return response if self.frames else {**response, "status": "queued"}

    def event(self, event: Event) -> bytes:
        self._add(self._stream.frames(event), over=isinstance(event, Finish))
        return b""

    def heartbeat(self) -> bytes:
        """Called once, when the run begins."""
        self._add(self._stream.begin(), over=False)
        self.save(self, False)
        return b""

    def failure(self, error: MiddlewareError) -> bytes:
        self.cancelled = isinstance(error, RunCancelled)
        self._add(self._stream.failure_frames(error), over=True)
        return b""

    def reply(self, reply: Reply) -> bytes:
        raise AssertionError("it is kept as frames, so nobody asks for it whole")

    def _add(self, frames: list[Frame], *, over: bool) -> None:
        with self._news:
            self.frames += frames
            if over:
                # Before anybody is told, so that it can be gone on from at once.
                self.save(self, True)
                self.over = True
            self._news.notify_all()

    def _behind(self, told: int) -> tuple[list[Frame], bool]:
        """What came after the first ``told`` frames, waited for, and whether that is all."""
        with self._news:
            self._news.wait_for(lambda: len(self.frames) > told or self.over, _BEAT_SECONDS)
            return self.frames[told:], self.over

    def follow(self, after: int) -> Iterator[bytes]:
        """The frames behind a number, as they come."""
        told, ends = 0, time.monotonic() + _STREAM_SECONDS
        while time.monotonic() < ends:
            news, over = self._behind(told)
            told += len(news)
            data = b"".join(frame.data for frame in news if frame.number > after)
            yield data or b": waiting\n\n"
            if over:
                return


class _Format:
    """See :class:`AnswerFormat`."""

    name = "openairesponses"
    stream_type = EVENT_STREAM

    def __init__(self, made: Callable[[str, str], BackgroundRun]) -> None:
        self._made = made

    def encoder(self, asked: ChatRequest, *, request_id: str, model: str) -> BackgroundRun:
        return self._made(request_id, model)

    def error_body(self, error: MiddlewareError) -> bytes:
        return write_json(openai_responses.encode_error(error))


class Life:
    """Says that this process lives, from the first time that somebody could want to know."""

    def __init__(self, place: Place, session: str) -> None:
        self._place = place
        self.session = session
        self._lock = threading.Lock()
        self._lives: Lives | None = None

    def show(self) -> Lives:
        """Raises DatabaseUnavailable."""
        with self._lock:
            if self._lives is None:
                self._lives = alive_at(self._place, self.session)
            return self._lives

    def close(self) -> None:
        with self._lock:
            if self._lives is not None:
                self._lives.close()
                self._lives = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundResponses:
    """One a server."""

    delivery: Delivery
    kept: Kept
    waits: Waits
    life: "Life"
    _runs: dict[tuple[str, str], BackgroundRun] = field(default_factory=dict)

    def start(self, asked: ResponsesRequest, chat: ChatRequest) -> Response:
        """Begin one, or find the one that was begun under the same key. Call it in a view."""
        scope = scope_of(request.environ)
        key = plain_key(request.environ.get("HTTP_IDEMPOTENCY_KEY"))
        id = ID_START + (_digest(scope, key) if key else request.environ[ENVIRON_REQUEST_ID])
        if key is not None and self._known(scope, id):
            return self.show(id, self.kept.require(id), streamed=chat.stream)
        with reachable():
            self.life.show()

        def made(request_id: str, model: str) -> BackgroundRun:
            head = ResponseHead(
                id=id, created_at=int(self.kept.clock.timestamp()), model=model, asked=asked
            )
            run = BackgroundRun(head, request_id, lambda run, over: self._save(scope, run, over))
            self._runs[(scope, id)] = run
            with reachable():
                self._put(scope, run)
            return run

        try:
            self.delivery.launch(chat, _Format(made))
        except BaseException:
            self._runs.pop((scope, id), None)
            raise
        return self.show(id, self.kept.require(id), streamed=chat.stream)

    def show(self, id: str, kept: KeptResponse, *, streamed: bool, after: int = -1) -> Response:
        """A kept response as it stands, or its stream. Call it in a view."""
        run = self._runs.get((kept.scope, id))
        if streamed:
            return self._stream(kept, run, after)
        return json_response(self.current(kept))

    def current(self, kept: KeptResponse) -> Mapping[str, Any]:
        """The response object; one whose process was lost has failed."""
        run = self._runs.get((kept.scope, kept.id))
        if run is not None:
            return run.response
        session = kept.body.get(_SESSION)
        if session is None:
            return kept.body
        with reachable():
            lives = self.life.show().lives(session)
        if lives:
            return _shown(kept.body)
        failed = {**_shown(kept.body), "status": "failed"}
        failed["error"] = {"code": "server_error", "message": LOST}
        with reachable():
            # Its process may have ended it just before it ended itself.
            newest = self.kept.store.get(kept.scope, kept.id)
            if newest is not None and _SESSION not in newest.body:
                return newest.body
            self.kept.store.put(
                KeptResponse(
                    id=kept.id,
                    scope=kept.scope,
                    created_at=kept.created_at,
                    body=failed,
                    items=kept.items,
                    previous_id=kept.previous_id,
                )
            )
        return failed

    def cancel(self, id: str, kept: KeptResponse) -> Response:
        """Stop it; what is over stays as it is. Call it in a view."""
        run = self._runs.get((kept.scope, id))
        if run is None:
            body = self.current(kept)
            if body["status"] in ("queued", "in_progress"):
                raise MalformedRequest(None, "Another server makes this response: cancel it there")
            return json_response(body)
        self.delivery.cancel(run.request_id)
        for _ in run.follow(-1):
            pass
        return json_response(run.response)

    def _known(self, scope: str, id: str) -> bool:
        with reachable():
            return (scope, id) in self._runs or self.kept.store.get(scope, id) is not None

    def _save(self, scope: str, run: BackgroundRun, over: bool) -> None:
        """From the thread of the run, where no failure may end it."""
        if over:
            told = [[number, data.decode()] for number, data in run.frames]
            frames = {"frames": told}
            head = run.head
            self.kept.put(
                KeptResponse(
                    id=head.id, scope=_FRAMES + scope, created_at=head.created_at, body=frames
                )
            )
        self.kept.put(self._row(scope, run, over=over))
        if over:
            self.kept.told(run.head, scope, run.response)
            self._runs.pop((scope, run.head.id), None)

    def _put(self, scope: str, run: BackgroundRun) -> None:
        self.kept.store.put(self._row(scope, run, over=False))

    def _row(self, scope: str, run: BackgroundRun, *, over: bool) -> KeptResponse:
        head = run.head
        body = run.response if over else {**run.response, _SESSION: self.life.session}
        return KeptResponse(
            id=head.id,
            scope=scope,
            created_at=head.created_at,
            body=body,
            items=openai_responses.stored_items(head.asked.items, head.stem),
            previous_id=head.asked.previous_response_id,
        )

    def _stream(self, kept: KeptResponse, run: BackgroundRun | None, after: int) -> Response:
        frames = run.follow(after) if run is not None else iter(self._told(kept, after))
        if not self.waits.enter():
            raise TooManyReaders
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        body = Frames(frames, self.waits.leave)
        return Response(body, headers=headers, content_type=EVENT_STREAM)

    def _told(self, kept: KeptResponse, after: int) -> list[bytes]:
        """The frames of one that is over; of one that was lost, its end."""
        body = self.current(kept)
        if not body.get("background"):
            raise MalformedRequest("stream", "is only served for background responses")
        if body["status"] in ("queued", "in_progress"):
            raise MalformedRequest("stream", "is served by another server; ask without it")
        with reachable():
            found = self.kept.store.get(_FRAMES + kept.scope, kept.id)
        if found is None:
            members = {"type": "response.failed", "sequence_number": after + 1, "response": body}
            return [b"event: response.failed\ndata: %b\n\n" % write_json(members)]
        return [data.encode() for number, data in found.body["frames"] if number > after]


def _shown(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != _SESSION}


def _digest(scope: str, key: str) -> str:
    return hashlib.sha256(write_json([scope, key])).hexdigest()[:32]


def starting_after() -> int:
    """The number of the last event that a client has; -1 for none. Call it in a view."""
    given = request.args.get("starting_after")
    if given is None:
        return -1
    if not given.isascii() or not given.isdigit() or len(given) > 12:
        raise MalformedRequest("starting_after", "must be the number of an event")
    return int(given)
