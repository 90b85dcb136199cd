"""Sockets to model servers: opened so that another thread can stop it, kept for the next call."""

import contextlib
import select
import socket
import ssl
import time
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from Middleware.core.grip import Grip

_IDLE_SECONDS: Final = 60.0
"""Routers forget idle connections without telling anyone, so older ones are not trusted."""
_IDLE_MOST: Final = 1024
"""Idle connections kept an origin: more than there are threads to use them."""

_OPTIONS: Final = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    # A server whose machine is gone is noticed in minutes, although silence may last for hours.
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 30), ("TCP_KEEPCNT", 4))
        if hasattr(socket, name)
    ),
]


_QUICK_ACK: Final = getattr(socket, "TCP_QUICKACK", None)


class Origin(NamedTuple):
    """Where connections lead: those to one origin can stand in for each other."""

    secure: bool
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds to wait for a connection, and for the next byte of an answer."""

    connect: float = 30.0
    silence: float = 14400.0


class Connections:
    """The idle connections of a server, to all origins. Safe to use from any thread."""

    def __init__(self) -> None:
        self._idle: dict[Origin, deque[tuple[float, socket.socket]]] = {}
        self._closed = False

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # Made when first needed: reading the certificates takes longer than starting up may.
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context

    def take(self, origin: Origin) -> socket.socket | None:
        """The idle connection used last, if one is still good."""
        idle = self._idle.get(origin)
        while idle:
            try:
                since, sock = idle.pop()
            except IndexError:  # another thread was quicker
                return None
            if time.monotonic() - since < _IDLE_SECONDS and not _has_something_to_read(sock):
                return sock
            sock.close()
        return None

    def give_back(self, origin: Origin, sock: socket.socket) -> None:
        """Keep a connection whose last answer was read to its end."""
        if self._closed:
            sock.close()
            return
        idle = self._idle.get(origin)
        if idle is None:
            idle = self._idle.setdefault(origin, deque())
        now = time.monotonic()
        idle.append((now, sock))
        with contextlib.suppress(IndexError):  # another thread was quicker
            while len(idle) > _IDLE_MOST or idle[0][0] < now - _IDLE_SECONDS:
                idle.popleft()[1].close()

    def dial(self, origin: Origin, limits: TimeLimits, grip: Grip) -> socket.socket:
        """A new connection, held by ``grip``. Raises OSError when no address answers."""
        problem: OSError = OSError("the host has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            origin.host, origin.port, type=socket.SOCK_STREAM
        ):
            sock = socket.socket(family, kind, protocol)
            try:
                grip.hold(sock)
                sock.settimeout(limits.connect)
                for option in _OPTIONS:
                    sock.setsockopt(*option)
                sock.connect(address)
                return self._secured(sock, origin, grip) if origin.secure else sock
            except OSError as error:
                problem = error
                grip.let_go()
                sock.close()
                if grip.aborted:
                    break
        raise problem

    def close(self) -> None:
        """Close what is idle, and from now on whatever comes back."""
        self._closed = True
        for idle in list(self._idle.values()):
            with contextlib.suppress(IndexError):
                while True:
                    idle.pop()[1].close()

    def _secured(self, sock: socket.socket, origin: Origin, grip: Grip) -> socket.socket:
        secured = self._tls.wrap_socket(
            sock, server_hostname=origin.host, do_handshake_on_connect=False
        )
        try:
            grip.hold(secured)
            secured.do_handshake()
        except OSError:
            secured.close()
            raise
        return secured


def acknowledge_quickly(sock: socket.socket) -> None:
    """Confirm the next bytes at once, where the system can; it forgets this with every request.

    A server that leaves Nagle's algorithm on waits for that before it sends its second token,
    and systems like to take 40 ms over it.
    """
    if _QUICK_ACK is not None:
        sock.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)


def _has_something_to_read(sock: socket.socket) -> bool:
    """Whether an idle connection was closed by the other side, or says what nobody asked."""
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True
