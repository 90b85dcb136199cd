"""The real site behind a real waitress on a loopback port, and a client that sees every byte."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from Middleware.api.admission import Keys
from Middleware.api.answers import Answers
from Middleware.api.background import Background
from Middleware.api.catalogue import Catalogue
from Middleware.api.delivery import Delivery
from Middleware.api.doors.anthropic import anthropic_door
from Middleware.api.doors.ollama import ollama_door
from Middleware.api.doors.openai import openai_door
from Middleware.api.health import health
from Middleware.api.http_server import HttpServer, bind
from Middleware.api.pulse import Pulse
from Middleware.api.site import Site, SiteParts
from Middleware.api.twins import Twins
from Middleware.app import error_shapes
from Middleware.config.problems import Problem
from Middleware.config.user import User
from Middleware.core.clock import SystemClock
from Middleware.core.errors import UnknownModel

DEADLINE_SECONDS = 10
CHAT = "/v1/chat/completions"
HI = ({"role": "user", "content": "hello there world"},)


def make_site(
    answers: Answers,
    *,
    keys: Keys | None = None,
    cors: tuple[str, ...] = (),
    max_body_bytes: int = 64 * 1024 * 1024,
    models: Callable[[], tuple[str, ...]] = lambda: ("alice:general", "alice:with/slash and space"),
    problems: Callable[[], tuple[Problem, ...]] = tuple,
) -> Site:
    pulse, background, clock = Pulse(), Background(), SystemClock()
    delivery = Delivery(
        answers=answers,
        pulse=pulse,
        background=background,
        twins=Twins(background),
    )
    catalogue = Catalogue(
        listed=lambda _caller: models(),
        found=lambda name, _caller: _found(models(), name),
        owner=lambda _model: User(),
    )
    return Site(
        SiteParts(
            blueprints=(
                openai_door(delivery, catalogue, clock),
                anthropic_door(delivery),
                ollama_door(delivery, catalogue, clock),
                health("1.2.3", problems, catalogue.names),
            ),
            shapes=error_shapes(),
            pulse=pulse,
            background=background,
            keys=keys or Keys(tuple),
            new_id=clock.new_id,
            cors=cors,
            max_body_bytes=max_body_bytes,
        )
    )


def _found(names: tuple[str, ...], name: str) -> str:
    for known in names:
        if name.removesuffix(":latest") in (known, known.partition(":")[2]) or name == known:
            return known
    raise UnknownModel(name, tuple(get_close_matches(name, names)))


@dataclass
class Live:
    site: Site
    server: HttpServer

    @property
    def port(self) -> int:
        return self.server.port

    def connect(self) -> "Client":
        return Client(socket.create_connection(("127.0.0.1", self.port), DEADLINE_SECONDS))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> "Received":
        """One request on a connection of its own."""
        with self.connect() as client:
            client.send(method, path, body, **headers)
            return client.receive()

    def chat(self, **fields: Any) -> "Received":
        return self.ask("POST", CHAT, {"model": "m", "messages": HI, **fields})

    def is_quiet(self) -> bool:
        """No request is registered, no connection open and nothing runs in the background."""
        return not self.site.pulse and not self.site.background and not self.server.connections


@contextmanager
def serving(site: Site, threads: int = 20) -> Iterator[Live]:
    server = HttpServer(
        site,
        bind("127.0.0.1", 0),
        shapes=site.shapes,
        threads=threads,
        max_body_bytes=site.max_body_bytes,
    )
    server.start()
    try:
        yield Live(site, server)
    finally:
        server.close()


def wait_until(true: Callable[[], object], seconds: float = DEADLINE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.005)


@dataclass
class Received:
    """A whole response."""

    status: int
    headers: dict[str, str]
    body: bytes
    version: str
    complete: bool
    """Its end was marked: by its length, or by the last chunk."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def frames(self) -> list[str]:
        """Events of an event stream and its comments, in order."""
        assert self.body.endswith(b"\n\n"), self.body
        return self.body.decode()[:-2].split("\n\n")

    @property
    def text(self) -> str:
        return "".join(
            choice["delta"].get("content", "")
            for frame in self.frames
            if frame.startswith("data: {")
            for choice in json.loads(frame[6:]).get("choices", ())
        )


@dataclass
class Client:
    """One connection, read byte by byte as it comes."""

    socket: socket.socket
    _buffer: bytearray = field(default_factory=bytearray)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(
        self, method: str, path: str, body: Any = None, version: str = "1.1", **headers: str
    ) -> None:
        data = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        lines = [f"{method} {path} HTTP/{version}", "Host: test"]
        if body is not None:
            lines.append(f"Content-Length: {len(data)}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + data)

    def send_chat(self, **fields: Any) -> None:
        self.send("POST", CHAT, {"model": "m", "messages": HI, "stream": True, **fields})

    def read_until(self, marker: bytes) -> bytes:
        """Everything up to and including ``marker``."""
        while marker not in self._buffer:
            assert self._more(), bytes(self._buffer)
        end = self._buffer.index(marker) + len(marker)
        taken = bytes(self._buffer[:end])
        del self._buffer[:end]
        return taken

    def read(self, count: int) -> bytes:
        while len(self._buffer) < count:
            assert self._more(), bytes(self._buffer)
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def read_to_end(self) -> bytes:
        while self._more():
            pass
        taken = bytes(self._buffer)
        self._buffer.clear()
        return taken

    def receive(self, head_only: bool = False) -> Received:
        version, status, headers = self.receive_head()
        body, complete = b"", True
        if head_only or status in (204, 304):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while (size := int(self.read_until(b"\r\n"), 16)) > 0:
                body += self.read(size)
                self.read(2)
            self.read(2)
        elif "content-length" in headers:
            body = self.read(int(headers["content-length"]))
        else:
            body, complete = self.read_to_end(), False
        return Received(status, headers, body, version, complete)

    def receive_head(self) -> tuple[str, int, dict[str, str]]:
        first, *lines = self.read_until(b"\r\n\r\n").decode("latin-1").strip().split("\r\n")
        version, status = first.split(" ")[:2]
        pairs = (line.split(": ", 1) for line in lines)
        return version, int(status), {name.lower(): value for name, value in pairs}

    def _more(self) -> bytes:
        data = self.socket.recv(65536)
        self._buffer += data
        return data
