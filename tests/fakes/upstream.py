"""A model server on the loopback address that says exactly the bytes it was told to.

    with Upstream(chat("Hel", "lo")) as server:
        ...                                        # point an endpoint at server.url
        assert server.asked[0].json["messages"] == [{"role": "user", "content": "hi"}]

It answers its first request with its first answer and so on; the last one is repeated. An answer
is a list of steps, carried out in order:

    bytes            written in one piece
    threading.Event  waited for (``Pause`` is the same by a friendlier name)
    CUT              the connection is closed, in the middle of whatever was being said
    RESET            the same, so that the other side sees "connection reset by peer"
    SILENCE          nothing more is said until the other side closes

or a function that makes such a list of the request. Functions below make answers: ``chat`` (text,
streamed or whole as the request wants it), ``stream`` (SSE payloads), ``whole`` (a body with a
length), ``byte_by_byte`` (any answer, in the smallest pieces). Connections are kept alive.

``server.asked`` are the requests in order; ``server.wait_for(2)`` waits until there are two.
``asked.left`` is an event that is set when the other side closed before the answer was complete;
wait for it with a deadline: ``assert asked.left.wait(5)``; ``server.left`` is the same for any
connection. ``server.connections`` counts them.

``Upstream(..., tls=True)`` speaks HTTPS with the certificate in ``TLS_FILE``, which a client must
be told to trust: ``monkeypatch.setenv("SSL_CERT_FILE", str(TLS_FILE))``.
"""

import json
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

DEADLINE = 10.0
"""Seconds that anything here may take before the test is broken."""

TLS_FILE = Path(__file__).parent / "tls" / "localhost.pem"
"""Key and certificate of this server, made for tests and good for nothing else."""

Pause = threading.Event


class Ending(Enum):
    CUT = "cut"
    RESET = "reset"
    SILENCE = "silence"


CUT, RESET, SILENCE = Ending.CUT, Ending.RESET, Ending.SILENCE

Step: TypeAlias = bytes | threading.Event | Ending


@dataclass(eq=False)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    connection: int
    """Number of the connection, from 1."""
    left: threading.Event = field(default_factory=threading.Event)
    """Set when the other side closed the connection before the answer was complete."""
    left_at: float | None = None
    """``time.monotonic()`` of that moment."""
    answered: threading.Event = field(default_factory=threading.Event)
    """Set when the whole answer has been written."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer: TypeAlias = Sequence[Step] | Callable[[Asked], Sequence[Step]]


def head(
    status: int = 200, headers: Mapping[str, str] | None = None, *, chunked: bool = False
) -> bytes:
    """The head of an answer; its body ends with the connection unless a header says otherwise."""
    lines = [f"HTTP/1.1 {status} Whatever"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if chunked:
        lines.append("Transfer-Encoding: chunked")
    return "\r\n".join([*lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    """One piece of a body in chunked transfer encoding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def whole(
    body: bytes | Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> list[Step]:
    """An answer with a length. What is not bytes is written as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **(headers or {}), "Content-Length": len(data)}
    return [head(status, {name: str(value) for name, value in given.items()}) + data]


def frame(payload: bytes | str | Mapping[str, Any]) -> bytes:
    """One SSE frame."""
    if not isinstance(payload, bytes | str):
        payload = json.dumps(payload)
    text = payload if isinstance(payload, bytes) else payload.encode()
    return b"data: " + text + b"\n\n"


def stream(*pieces: bytes | Mapping[str, Any] | threading.Event | Ending) -> list[Step]:
    """A chunked event stream: objects become frames, bytes are written as they are, each in a
    write of its own; pauses and endings stay where they stand. Without an ending it ends well.
    """
    steps: list[Step] = [head(headers={"Content-Type": "text/event-stream"}, chunked=True)]
    for piece in pieces:
        if isinstance(piece, threading.Event | Ending):
            steps.append(piece)
        else:
            steps.append(chunk(piece if isinstance(piece, bytes) else frame(piece)))
    if not (pieces and isinstance(pieces[-1], Ending)):
        steps.append(LAST_CHUNK)
    return steps


DONE = frame("[DONE]")


def delta(
    content: str | None = None, finish_reason: str | None = None, **others: Any
) -> dict[str, Any]:
    """A chunk of OpenAI's streams. ``others`` are further members of the delta."""
    inner = others if content is None else {"content": content, **others}
    choice = {"index": 0, "delta": inner, "finish_reason": finish_reason}
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice]}


def usage_chunk(prompt: int, completion: int) -> dict[str, Any]:
    return {"choices": [], "usage": usage_of(prompt, completion)}


def usage_of(prompt: int, completion: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def reply(text: str | None, finish_reason: str = "stop", **message: Any) -> dict[str, Any]:
    """The body of an answer of OpenAI's interface that is not streamed."""
    inner = {"role": "assistant", "content": text, **message}
    return {
        "id": "c1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": inner, "finish_reason": finish_reason}],
        "usage": usage_of(5, 7),
    }


def chat(*texts: str, finish_reason: str = "stop") -> Callable[[Asked], list[Step]]:
    """The texts, streamed as one chunk each or whole, as the request wants it."""

    def answer(asked: Asked) -> list[Step]:
        if not asked.json.get("stream"):
            return whole(reply("".join(texts), finish_reason))
        return stream(
            *map(delta, texts), delta(finish_reason=finish_reason), usage_chunk(5, 7), DONE
        )

    return answer


def refuses(
    status: int, message: str = "no", headers: Mapping[str, str] | None = None
) -> list[Step]:
    """An error of OpenAI's shape."""
    return whole({"error": {"message": message, "type": "some_error"}}, status, headers)


def byte_by_byte(answer: Answer) -> Callable[[Asked], list[Step]]:
    """The same answer, each byte in a write of its own."""

    def pieces(asked: Asked) -> list[Step]:
        return list(_single_bytes(answer(asked) if callable(answer) else answer))

    return pieces


def _single_bytes(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, bytes):
            yield from (step[at : at + 1] for at in range(len(step)))
        else:
            yield step


def nobody_listens() -> str:
    """A base URL at which connections are refused."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


class _Gone(Exception):
    """The other side has closed, or the test is over."""


class _Hung(Exception):
    """The answer ended with us hanging up."""


class Upstream:
    """See the top of the file. Use it as a context manager."""

    def __init__(
        self,
        *answers: Answer,
        greets: bool = True,
        tls: bool = False,
        nagle: bool = False,
        port: int = 0,
    ) -> None:
        """``greets`` False: connections are accepted and never read from. ``nagle``: small pieces
        wait until the one before has been acknowledged, as with servers that forget to say no.
        """
        self.asked: list[Asked] = []
        self.connections = 0
        self.left = threading.Event()
        """Set when the other side closed a connection while it was owed an answer."""
        self._answers = answers or (chat("ok"),)
        self._greets = greets
        self._nagle = nagle
        self._over = threading.Event()
        self._news = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if tls else None
        if self._tls is not None:
            self._tls.load_cert_chain(TLS_FILE)

    def wait_for(self, count: int) -> Asked:
        """Wait until ``count`` requests have arrived; the last of them."""
        with self._news:
            arrived = self._news.wait_for(lambda: len(self.asked) >= count, DEADLINE)
        assert arrived, f"{count} requests were expected, {len(self.asked)} came"
        return self.asked[count - 1]

    def __enter__(self) -> "Upstream":
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(DEADLINE)
        self._listener.close()

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._over.is_set():
            if _readable(self._listener, 0.02):
                connection, _ = self._listener.accept()
                self.connections += 1
                self._start(self._serve, connection, self.connections)

    def _secured(self, connection: socket.socket) -> socket.socket:
        if self._tls is None:
            return connection
        secured = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        secured.settimeout(DEADLINE)
        return secured

    def _serve(self, connection: socket.socket, number: int) -> None:
        with self._secured(connection) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, not self._nagle)
            received = b""
            try:
                if isinstance(connection, ssl.SSLSocket):
                    connection.do_handshake()
                if not self._greets:
                    self._owe(connection, partial(self._wait, threading.Event(), connection))
                while True:
                    asked, received = self._read(connection, received, number)
                    answer = self._note(asked)
                    steps = answer(asked) if callable(answer) else answer
                    self._owe(connection, partial(self._play, steps, connection), asked)
                    asked.answered.set()
            except (_Gone, _Hung, OSError):
                pass

    def _owe(
        self, connection: socket.socket, work: Callable[[], None], asked: Asked | None = None
    ) -> None:
        """Do ``work``, and note it when the other side does not wait for its end."""
        try:
            work()
        except _Gone:
            if not self._over.is_set():
                self.left.set()
                if asked is not None:
                    asked.left_at = time.monotonic()
                    asked.left.set()
            raise

    def _note(self, asked: Asked) -> Answer:
        with self._news:
            self.asked.append(asked)
            self._news.notify_all()
            return self._answers[min(len(self.asked), len(self._answers)) - 1]

    def _read(self, connection: socket.socket, received: bytes, number: int) -> tuple[Asked, bytes]:
        while b"\r\n\r\n" not in received:
            received += self._receive(connection)
        top, _, received = received.partition(b"\r\n\r\n")
        first, *lines = top.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", "0"))
        while len(received) < length:
            received += self._receive(connection)
        body, rest = received[:length], received[length:]
        return Asked(method, path, headers, body, number), rest

    def _receive(self, connection: socket.socket) -> bytes:
        while not _readable(connection, 0.02):
            if self._over.is_set():
                raise _Gone
        data = connection.recv(65536)
        if not data:
            raise _Gone
        return data

    def _play(self, steps: Sequence[Step], connection: socket.socket) -> None:
        for step in steps:
            if isinstance(step, bytes):
                self._write(step, connection)
            elif isinstance(step, threading.Event):
                self._wait(step, connection)
            elif step is SILENCE:
                self._wait(threading.Event(), connection)
            else:
                if step is RESET:
                    # Closing with a linger time of zero sends a reset in place of a farewell.
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                connection.close()
                raise _Hung

    def _write(self, data: bytes, connection: socket.socket) -> None:
        try:
            connection.sendall(data)
        except OSError as error:
            raise _Gone from error

    def _wait(self, event: threading.Event, connection: socket.socket) -> None:
        """Wait for ``event``; the other side closing ends it sooner."""
        while not event.wait(0.01):
            if self._over.is_set() or _has_closed(connection):
                raise _Gone


def _readable(sock: socket.socket, seconds: float) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _has_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed, unread data or not."""
    if hasattr(select, "POLLRDHUP"):
        poll = select.poll()
        poll.register(connection, select.POLLRDHUP)
        return bool(poll.poll(0))
    try:
        return _readable(connection, 0) and not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
