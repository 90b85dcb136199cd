"""HTTP to model servers, and the only module that knows the HTTP library.

It is the standard library's: requests are written to the socket in one piece with a head that was
built when the endpoint was loaded, and ``http.client`` reads the answer. That costs half of what
urllib3 does, and the socket is ours from the moment it is made, so that a cancelled run can shut
it down whatever the call is waiting for: the connection, the first byte or the next.
"""

import contextlib
import http.client
import socket
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import BackendError, BackendTimeout, BackendUnreachable
from Middleware.core.grip import Grip
from Middleware.llm.addresses import Address
from Middleware.llm.connections import Connections, TimeLimits, acknowledge_quickly
from Middleware.wire.backend_errors import BackendVoice

_READ_MOST: Final = 65536
"""Bytes taken at once; what has come is never held back to fill them."""
_REFUSAL_MOST: Final = 65536
"""Bytes of an error body that are looked at,"""
_REFUSAL_SECONDS: Final = 10.0
"""and how long it may take to arrive."""
_DRAIN_SECONDS: Final = 0.1
"""How long the end of a body may take that holds nothing more for us."""

_FAILURES: Final = (OSError, http.client.HTTPException, zlib.error)


class _Stale(Exception):
    """A connection kept from an earlier call was dead before a byte of the answer came."""


class Answer:
    """The answer of a model server while it arrives. Used by one thread."""

    def __init__(
        self,
        sock: socket.socket,
        response: http.client.HTTPResponse,
        cancel: CancelToken,
        voice: BackendVoice,
        silence: float,
    ) -> None:
        self._sock = sock
        self._response = response
        self._cancel = cancel
        self._voice = voice
        self._silence = silence
        self._deadline: float | None = None
        self._inflate = _inflater(response, voice)
        self.ended = False
        """Whether the body was read to its end, so that the connection can be used again."""

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def keeps_alive(self) -> bool:
        return self.ended and not self._response.will_close

    def read(self) -> bytes:
        """The next bytes of the body as soon as there are any; nothing at its end.

        Raises BackendTimeout after too long a silence, BackendBadReply when the body is cut
        off, and the token's reason when the run is cancelled.
        """
        while True:
            if self._deadline is not None:
                self._sock.settimeout(max(self._deadline - time.monotonic(), 0.001))
            try:
                data = self._response.read1(_READ_MOST)
                if self._inflate is not None:
                    data, compressed = self._inflate.decompress(data), data
                    if compressed and not data:
                        continue
            except _FAILURES as error:
                raise self._failure(error) from error
            if not data:
                self._end()
            return data

    def rest(self) -> bytes:
        """All that is left of the body."""
        pieces = []
        while data := self.read():
            pieces.append(data)
        return b"".join(pieces)

    def hurry(self, seconds: float) -> None:
        """From now on the whole rest must come within ``seconds``, or reading times out."""
        if self._deadline is None:
            self._deadline = time.monotonic() + seconds

    def drain(self) -> None:
        """Read the end of a body that says nothing more, if it comes at once. Never raises."""
        self._deadline = time.monotonic() + _DRAIN_SECONDS
        with contextlib.suppress(BackendError):
            while not self.ended and time.monotonic() < self._deadline:
                self.read()

    def close(self) -> None:
        self._response.close()

    def refusal(self) -> BackendError:
        """The error that an error status stands for."""
        self.hurry(_REFUSAL_SECONDS)
        body = b""
        with contextlib.suppress(BackendError):
            while len(body) < _REFUSAL_MOST and (data := self.read()):
                body += data
        reason = self._response.reason
        if 300 <= self.status < 400:
            body, reason = b"", "a redirect; write the URL that it leads to into the endpoint"
        return self._voice.refused(
            self.status, body, reason=reason, retry_after=self._response.getheader("retry-after")
        )

    def _end(self) -> None:
        # A shut down socket looks like the regular end of a body that has no length.
        self._cancel.check()
        if self._response.length:
            raise self._voice.nonsense("closed the connection in the middle of its answer.")
        self.ended = True

    def _failure(self, error: Exception) -> Exception:
        self._cancel.check()
        if isinstance(error, TimeoutError):
            return BackendTimeout(self._voice.endpoint, self._silence)
        failure = self._voice.nonsense("closed the connection in the middle of its answer.")
        failure.detail = self._voice.hide(repr(error))
        return failure


class Transport:
    """Posts to one address. Messages name the endpoint; only the log may see more."""

    def __init__(
        self,
        voice: BackendVoice,
        address: Address,
        headers: Mapping[str, str],
        limits: TimeLimits,
        connections: Connections,
    ) -> None:
        self._voice = voice
        self._origin = address.origin
        self._limits = limits
        self._connections = connections
        lines = [f"POST {address.target} HTTP/1.1", f"Host: {address.host}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._head = "\r\n".join([*lines, "Content-Length: "]).encode("latin-1")

    @contextmanager
    def post(self, body: bytes, cancel: CancelToken) -> Iterator[Answer]:
        """Send ``body`` and give the answer as soon as its headers are there.

        Raises BackendRejected for an error status, BackendUnreachable, BackendTimeout,
        BackendBadReply, or the token's reason. Leaving the block before the body has ended
        drops the connection, which is how a model server learns that nobody listens.
        """
        grip = Grip()
        with cancel.on_cancel(grip.abort):
            sock, answer = self._ask(body, grip, cancel)
            try:
                if not 200 <= answer.status < 300:
                    raise answer.refusal()
                yield answer
            finally:
                grip.let_go()
                answer.close()
                if answer.keeps_alive and not grip.aborted:
                    self._connections.give_back(self._origin, sock)
                else:
                    sock.close()

    def _ask(self, body: bytes, grip: Grip, cancel: CancelToken) -> tuple[socket.socket, Answer]:
        request = b"%b%d\r\n\r\n%b" % (self._head, len(body), body)
        sock = self._connections.take(self._origin)
        if sock is not None:
            try:
                grip.hold(sock)
                return sock, self._exchange(sock, request, cancel, kept=True)
            except _Stale:
                pass
        sock = self._dial(grip, cancel)
        return sock, self._exchange(sock, request, cancel, kept=False)

    def _dial(self, grip: Grip, cancel: CancelToken) -> socket.socket:
        try:
            return self._connections.dial(self._origin, self._limits, grip)
        except (OSError, UnicodeError) as error:
            cancel.check()
            detail = self._voice.hide(f"{self._origin.host}:{self._origin.port}: {error!r}")
            raise BackendUnreachable(self._voice.endpoint, detail=detail) from error

    def _exchange(
        self, sock: socket.socket, request: bytes, cancel: CancelToken, *, kept: bool
    ) -> Answer:
        """Send the request and read the head of the answer. Closes ``sock`` when that fails."""
        response = http.client.HTTPResponse(sock, method="POST")
        answer = None
        try:
            self._send(sock, request)
            response.begin()
            answer = Answer(sock, response, cancel, self._voice, self._limits.silence)
            return answer
        except _FAILURES as error:
            cancel.check()
            # Until the first line of an answer has been read, the status is a placeholder text.
            begun = isinstance(response.status, int)
            if kept and not begun and isinstance(error, ConnectionError):
                raise _Stale from error
            raise self._broken(error) from error
        finally:
            if answer is None:
                response.close()
                sock.close()

    def _send(self, sock: socket.socket, request: bytes) -> None:
        sock.settimeout(self._limits.silence)
        # A server may refuse a long request before it has read all of it. What it said is worth
        # more than that it hung up; if it said nothing, reading fails at once.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(request)
            acknowledge_quickly(sock)

    def _broken(self, error: Exception) -> BackendError:
        if isinstance(error, TimeoutError):
            return BackendTimeout(self._voice.endpoint, self._limits.silence)
        failure = self._voice.nonsense(
            "closed the connection without an answer."
            if isinstance(error, OSError)
            else "did not answer in HTTP."
        )
        failure.detail = self._voice.hide(repr(error))
        return failure


def _inflater(response: http.client.HTTPResponse, voice: BackendVoice) -> Any:
    """What decompresses the body; None when it is plain, as we asked for."""
    encoding = (response.getheader("content-encoding") or "identity").strip().lower()
    if encoding == "identity":
        return None
    if encoding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    raise voice.nonsense(f"compressed its answer in a way that was not asked for ({encoding}).")
