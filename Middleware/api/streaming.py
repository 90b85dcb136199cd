"""Streamed answers: the first event, heartbeats, failures, hang-ups, and the end.

The worker thread of the server runs the run: it pulls the events and writes each one out. The
Pulse writes heartbeats into the same answer from its own thread. Why that is safe with waitress
(3.0, task.py and channel.py):

* PEP 3333 allows ``start_response`` to be called as late as the first iteration of the returned
  iterable. waitress looks at the headers only in ``Task.write``, so until we call
  ``start_response`` nothing is decided and a failure can still have its own status.
* ``start_response`` and the ``write`` that it returns touch the Task alone, which no other
  thread uses while the worker is inside our ``__iter__``; waitress writes nothing itself before
  ``__iter__`` returns (it yields no chunk) and its ``finish`` comes after that. Both of our
  threads hold ``ActiveRequest.lock`` around them, so each sees what the other did.
* ``write`` ends in ``HTTPChannel.write_soon``, which takes the channel's own lock against the
  server's main loop and does not care which thread calls it; it raises ClientDisconnected once
  the channel is closed.
* ``write_soon`` waits when more than ``outbuf_high_watermark`` (16 MB) is unsent. The worker may
  wait. The Pulse must not, so it sends nothing when half of that is outstanding; while it holds
  the lock nobody else can add to it.
* ``waitress.client_disconnected`` reads one attribute of the channel. It is right only with
  ``channel_request_lookahead`` > 0, which keeps the main loop reading while a request runs.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from flask import Response
from waitress.channel import ClientDisconnected

from Middleware.api.active import ActiveRequest, ClientLeft
from Middleware.api.answers import Answer, AnswerFormat, Encoder
from Middleware.api.errors import internal_error, log_failure, plain_headers, status_line
from Middleware.api.headers import CLAMPED, CONVERSATION_ID, IGNORED, Headers, clean, encode_id
from Middleware.core.errors import BackendError, MiddlewareError, RunCancelled
from Middleware.core.events import Finish

logger = logging.getLogger(__name__)

_BEATS_UP_TO_BYTES = 8 * 1024 * 1024

Write = Callable[[bytes], object]
StartResponse = Callable[..., Write]


def answer_headers(answer: Answer) -> Headers:
    """The headers of ours that depend on the answer."""
    headers: Headers = []
    ignored = answer.ignored()
    if ignored:
        headers.append((IGNORED, clean(", ".join(ignored))))
    clamped = answer.clamped()
    if clamped:
        headers.append((CLAMPED, f"messages={clamped}"))
    if answer.conversation_id:
        headers.append((CONVERSATION_ID, encode_id(answer.conversation_id)))
    return headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Streaming:
    """What one streamed answer is made of."""

    active: ActiveRequest
    answer: Answer
    format: AnswerFormat
    encoder: Encoder
    unsent_bytes: Callable[[], int] | None
    """Bytes that wait for the client to read, where the server tells."""
    is_told_in_stream: Callable[[int], bool]
    """Whether this client learns of a failure with this status by the failure frame of a stream,
    even as its first one."""
    on_end: Callable[[bool], None]
    """Called once when the answer has ended: True when it is complete. Must release ``active``:
    then the Pulse is not writing and never will again, so that what waitress sends afterwards
    (the marker of the last chunk) cannot be overtaken."""


class AnswerStream:
    """The body of one streamed answer. The server iterates over it once, in the worker."""

    def __init__(self, parts: Streaming, start_response: StartResponse, headers: Headers) -> None:
        self._parts = parts
        self._active = parts.active
        self._encoder = parts.encoder
        self._start_response = start_response
        self._headers = headers
        self._write: Write | None = None
        self._written_bytes = 0
        self._last_sign = parts.active.since
        self._heartbeat_seconds = parts.answer.heartbeat_seconds
        self._ended = False
        self._cut = False

    def __iter__(self) -> Iterator[bytes]:
        """Does everything; what has to be written is written by then."""
        try:
            self._run()
        finally:
            self.close()
        return iter(())

    def close(self) -> None:
        """Called by the server in any case, even when it never iterated."""
        self._end(complete=False)

    def beat(self, now: float) -> None:
        """See :class:`Outlet`."""
        if self._heartbeat_seconds <= 0 or now - self._last_sign < self._heartbeat_seconds:
            return
        unsent = self._parts.unsent_bytes
        if (unsent() if unsent else self._written_bytes) <= _BEATS_UP_TO_BYTES:
            self._send(self._encoder.heartbeat())

    def last_words(self, error: MiddlewareError) -> None:
        """See :class:`Outlet`."""
        if self._write is not None:
            self._send(self._encoder.failure(error))
        self._cut = True

    def _run(self) -> None:
        self._active.attach(self)
        try:
            self._send_events()
        except ClientLeft:
            self._give_up()
        except MiddlewareError as error:
            self._fail(error)
        # The outermost guard of a request; internal_error() logs the traceback.
        except Exception as error:  # noqa: BLE001
            self._fail(internal_error(error, self._active.id), logged=True)
        else:
            self._end(complete=True)

    def _send_events(self) -> None:
        lock, encode = self._active.lock, self._encoder.event
        for event in self._parts.answer.events:
            finished = isinstance(event, Finish)
            with lock:
                data = encode(event)
                if data:
                    self._send(data)
                if finished:
                    self._active.finish_locked()
                    return
        raise BackendError("The answer ended without saying why.")

    def _send(self, data: bytes) -> None:
        """Hand bytes to the client. Call it with the lock held."""
        if self._cut:
            raise ClientLeft
        try:
            if self._write is None:
                self._write = self._begin(200, self._stream_headers())
            self._write(data)
        except (ClientDisconnected, OSError) as error:
            raise ClientLeft from error
        self._written_bytes += len(data)
        self._last_sign = time.monotonic()

    def _begin(self, status: int, headers: Headers) -> Write:
        return self._start_response(status_line(status), headers)

    def _stream_headers(self) -> Headers:
        return [*self._headers, *answer_headers(self._parts.answer)]

    def _fail(self, error: MiddlewareError, *, logged: bool = False) -> None:
        """The honest end of an answer that cannot go on."""
        if self._active.gone and isinstance(error, RunCancelled):
            self._give_up()
            return
        if not logged:
            log_failure(error, self._active.id)
        try:
            with self._active.lock:
                if self._write is not None or self._parts.is_told_in_stream(error.status):
                    self._send(self._encoder.failure(error))
                    return
                body = self._parts.format.error_body(error)
                self._write = self._begin(error.status, plain_headers(error, body))
                self._send(body)
        except ClientLeft:
            self._give_up()

    def _give_up(self) -> None:
        """The client is gone: nothing can be sent, and the run shall end."""
        logger.info("client left request=%s", self._active.id)
        self._active.leave()
        with self._active.lock:
            if self._write is None:
                # Nobody reads it, but a server may insist on a status.
                self._write = self._begin(RunCancelled.status, [])
        close = getattr(self._parts.answer.events, "close", None)
        if close is None:
            return
        try:
            close()
        except MiddlewareError as error:
            log_failure(error, self._active.id)
        # The outermost guard of a request, for the clean-up of a cancelled run.
        except Exception:
            logger.exception("cleaning up failed request=%s", self._active.id)

    def _end(self, *, complete: bool) -> None:
        if not self._ended:
            self._ended = True
            self._parts.on_end(complete)


class StreamedResponse(Response):
    """Lets Flask pass an answer through that does not know its status yet."""

    def __init__(self, parts: Streaming) -> None:
        super().__init__(
            content_type=parts.format.stream_type,
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )
        self._parts = parts

    def __call__(self, environ: Any, start_response: Any) -> AnswerStream:
        return AnswerStream(self._parts, start_response, list(self.headers))
