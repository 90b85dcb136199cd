"""One HTTP request, to addresses that were chosen beforehand, with one deadline for all of it.

The standard library reads the answer; the socket is ours from the moment it is made, so that a
deadline or a client that hangs up ends the call whatever it is waiting for. Nothing of the
environment is looked at: no proxy variables, no netrc (memory-and-state S44).
"""

import http.client
import re
import socket
import ssl
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from Middleware.core.cancellation import CancelToken
from Middleware.core.grip import Grip
from Middleware.tools.proxies import Proxy, ProxyFailed, open_socks, open_tunnel
from Middleware.tools.urls import Url

_READ_MOST: Final = 65536
_LATER: Final = 5.0
_FAILURES: Final = (OSError, http.client.HTTPException, zlib.error)
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([\w.:\-]+)", re.IGNORECASE)
_FIELD: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class CallFailed(Exception):
    """There is no answer, or not all of one. The text is for people and quotes no address."""


class TooLarge(CallFailed):
    """The body is larger than the cap; ``answer`` has as much of it as the cap allows."""

    def __init__(self, cap: int, answer: "Answer") -> None:
        super().__init__(f"The answer is larger than {cap} bytes (maxResponseBytes).")
        self.answer = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str = "GET"
    url: Url
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How a server is reached."""

    addresses: Sequence[str] = ()
    """Of the server, or of the proxy when there is one."""
    proxy: Proxy | None = None
    proxy_target: str = ""
    """What the proxy is told to connect to: the server's name, or its vetted address."""
    pinned: bool = False
    """The proxy must get an address and not a name, so a tunnel is opened for http too."""
    verify: bool = True
    ca_bundle: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """Names as the server wrote them; those that came several times are joined."""
    body: bytes

    def header(self, name: str) -> str | None:
        lower = name.lower()
        return next((text for key, text in self.headers.items() if key.lower() == lower), None)

    @property
    def text(self) -> str:
        """The body in the charset it says it has, else UTF-8, else the old Western code page."""
        found = _CHARSET.search(self.header("content-type") or "")
        if found:
            with suppress(LookupError, UnicodeDecodeError):
                return self.body.decode(found[1])
        try:
            return self.body.decode("utf-8-sig")
        except UnicodeDecodeError:
            return self.body.decode("cp1252", errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    seconds: float = 30.0
    """Of silence; where a token has the deadline for all of a call, :meth:`behind` it."""
    connect_seconds: float = 30.0
    bytes: int | None = None
    """Of the decoded body; None: no cap."""

    @classmethod
    def behind(cls, deadline: float, most: int | None = None, connect: float = 30.0) -> "Limits":
        """For a call that a token ends after ``deadline`` seconds: the socket's own limit is there
        for systems on which that does not wake it, and must not be the first."""
        return cls(seconds=deadline + _LATER, connect_seconds=connect, bytes=most)


def call(request: Request, route: Route, cancel: CancelToken, limits: Limits) -> Answer:
    """Send the request and read its answer. Raises CallFailed, TooLarge, or the token's reason."""
    grip = Grip()
    sock: Any = None
    with cancel.on_cancel(grip.abort):
        try:
            sock, through_proxy = _connect(request.url, route, grip, limits)
            sock.sendall(_encoded(request, route if through_proxy else None))
            return _read(sock, request, limits.bytes, cancel)
        except _FAILURES as error:
            cancel.check()
            raise CallFailed(_told(error)) from error
        finally:
            grip.let_go()
            if sock is not None:
                sock.close()


# ------------------------------------------------------------------------------- connecting


def _connect(url: Url, route: Route, grip: Grip, limits: Limits) -> tuple[Any, bool]:
    """A socket to the server, and whether it still wants the proxy's form of a request."""
    proxy = route.proxy
    sock: Any = _dial(route.addresses, proxy.port if proxy else url.port, grip, limits)
    try:
        forwards = False
        if proxy is not None:
            if proxy.scheme == "https":
                sock = _tls(sock, proxy.host, route, grip)
            forwards = not (proxy.is_socks or route.pinned or url.scheme == "https")
            if proxy.is_socks:
                open_socks(sock, proxy, route.proxy_target, url.port)
            elif not forwards:
                open_tunnel(sock, proxy, route.proxy_target, url.port)
        if url.scheme == "https":
            sock = _tls(sock, url.host, route, grip)
        return sock, forwards
    except BaseException:
        sock.close()
        raise


def _dial(addresses: Sequence[str], port: int, grip: Grip, limits: Limits) -> socket.socket:
    problem = OSError("the host has no address")
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            grip.hold(sock)
            sock.settimeout(limits.connect_seconds)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.connect((address, port))
            sock.settimeout(limits.seconds)
            return sock
        except OSError as error:
            problem = error
            grip.let_go()
            sock.close()
            if grip.aborted:
                break
    raise problem


def _tls(sock: Any, host: str, route: Route, grip: Grip) -> Any:
    context = _context(route.verify, route.ca_bundle)
    if not isinstance(sock, ssl.SSLSocket):
        secured = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        try:
            grip.hold(secured)
            secured.do_handshake()
        except BaseException:
            secured.close()
            raise
        return secured
    # A connection inside of that to the proxy, which hardly anyone needs: loaded with the first.
    from urllib3.util.ssltransport import SSLTransport

    return SSLTransport(sock, context, server_hostname=host)


@lru_cache(maxsize=16)
def _context(verify: bool, ca_bundle: str | None) -> ssl.SSLContext:
    """Reading certificates takes longer than many a request."""
    context = ssl.create_default_context(cafile=ca_bundle)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


# ---------------------------------------------------------------------------------- talking


def _encoded(request: Request, proxied: Route | None) -> bytes:
    url = request.url
    target = url.text if proxied else url.target
    lines = [f"{request.method} {target} HTTP/1.1"]
    headers = {name.lower(): (name, text) for name, text in request.headers.items()}
    headers.setdefault("host", ("Host", url.authority))
    headers.setdefault("accept-encoding", ("Accept-Encoding", "gzip, deflate"))
    headers["connection"] = ("Connection", "close")
    if request.body is not None or request.method in ("POST", "PUT", "PATCH"):
        headers["content-length"] = ("Content-Length", str(len(request.body or b"")))
    if proxied and proxied.proxy and proxied.proxy.authorization:
        headers["proxy-authorization"] = ("Proxy-Authorization", proxied.proxy.authorization)
    if not _FIELD.fullmatch(request.method):
        raise CallFailed(f"There is no method {request.method!r}.")
    for name, text in headers.values():
        lines.append(_line(name, text))
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace") + (request.body or b"")


def _line(name: str, text: str) -> str:
    if not _FIELD.fullmatch(name):
        raise CallFailed(f"There is no header of the name {name!r}.")
    if any(sign in text for sign in "\r\n\0"):
        raise CallFailed(f"The header {name!r} holds a line break.")
    return f"{name}: {text}"


def _read(sock: Any, request: Request, cap: int | None, cancel: CancelToken) -> Answer:
    response = http.client.HTTPResponse(sock, method=request.method)
    try:
        response.begin()
        headers = _headers(response)
        body, complete = _body(response, cap)
    finally:
        response.close()
    # A socket that was shut down looks like the regular end of a body that has no length.
    cancel.check()
    answer = Answer(status=response.status, headers=headers, body=body)
    if not complete:
        assert cap is not None
        raise TooLarge(cap, answer)
    return answer


def _headers(response: http.client.HTTPResponse) -> Mapping[str, str]:
    joined: dict[str, tuple[str, str]] = {}
    for name, text in response.getheaders():
        known = joined.get(name.lower())
        joined[name.lower()] = (known[0], f"{known[1]}, {text}") if known else (name, text)
    return dict(joined.values())


def _body(response: http.client.HTTPResponse, cap: int | None) -> tuple[bytes, bool]:
    """The decoded body, and whether that is all of it."""
    inflate = _inflater(response)
    pieces: list[bytes] = []
    size = 0
    while True:
        data = response.read1(_READ_MOST)
        more = bool(data)
        while data or (inflate is not None and inflate.unconsumed_tail):
            piece, data = _inflated(inflate, data)
            pieces.append(piece)
            size += len(piece)
            if cap is not None and size > cap:
                return b"".join(pieces)[:cap], False
        if not more:
            break
    if response.length:
        raise http.client.IncompleteRead(b"")
    return b"".join(pieces), True


def _inflater(response: http.client.HTTPResponse) -> Any:
    encoding = (response.getheader("content-encoding") or "identity").strip().lower()
    if encoding in ("gzip", "x-gzip"):
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    if encoding == "deflate":
        return _Deflate()
    if encoding == "identity":
        return None
    raise CallFailed(f"The answer is compressed in a way that was not asked for ({encoding}).")


class _Deflate:
    """``deflate`` is a zlib stream by the book, and a bare one from some servers."""

    def __init__(self) -> None:
        self._inflate: Any = None

    @property
    def unconsumed_tail(self) -> bytes:
        return b"" if self._inflate is None else self._inflate.unconsumed_tail

    def decompress(self, data: bytes, most: int) -> bytes:
        if self._inflate is None:
            is_zlib = data[:1] and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        inflated: bytes = self._inflate.decompress(data, most)
        return inflated


def _inflated(inflate: Any, data: bytes) -> tuple[bytes, bytes]:
    """A piece of the body. A small one may stand for very much, so it is taken bit by bit."""
    if inflate is None:
        return data, b""
    return inflate.decompress(inflate.unconsumed_tail + data, _READ_MOST), b""


_TOLD: Final[tuple[tuple[type[Exception], str], ...]] = (
    (ssl.SSLError, "The server does not speak TLS as it should."),
    (TimeoutError, "The server was silent for too long."),
    (ConnectionRefusedError, "The connection was refused."),
    (http.client.IncompleteRead, "The connection was closed in the middle of the answer."),
    (http.client.RemoteDisconnected, "The connection was closed without an answer."),
    (http.client.HTTPException, "The server did not answer in HTTP."),
    (zlib.error, "The answer cannot be decompressed."),
)


def _told(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The server's certificate is not accepted: {error.verify_message}."
    if isinstance(error, ProxyFailed):
        return str(error)
    for kind, text in _TOLD:
        if isinstance(error, kind):
            return text
    return f"The server cannot be reached ({type(error).__name__})."
