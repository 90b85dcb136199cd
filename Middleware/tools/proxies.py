"""Reaching a server through a proxy: HTTP tunnels and SOCKS."""

import base64
import ipaddress
import re
import socket
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

_PORTS: Final = {
    "http": 80,
    "https": 443,
    "socks4": 1080,
    "socks4a": 1080,
    "socks5": 1080,
    "socks5h": 1080,
}
_LONGEST_ANSWER: Final = 65536
_SOCKS_ERRORS: Final = {
    1: "it failed",
    2: "its rules forbid that",
    3: "the network cannot be reached",
    4: "the host cannot be reached",
    5: "the connection was refused",
    6: "it took too long",
    7: "it does not do that",
    8: "it does not know such addresses",
}


class ProxyFailed(OSError):
    """The proxy did not connect. The text names no address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Where it is and how it is spoken to."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def is_socks(self) -> bool:
        return self.scheme.startswith("socks")

    @property
    def resolves_names(self) -> bool:
        """Whether it is given names; otherwise addresses."""
        return self.scheme not in ("socks4", "socks5")

    @property
    def authorization(self) -> str | None:
        if not self.user:
            return None
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def parse_proxy(text: str) -> Proxy:
    """Raises ValueError, completing "The proxy …"."""
    text = text.strip()
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("has an address that cannot be read") from None
    if parts.scheme not in _PORTS:
        raise ValueError(f"has the scheme {parts.scheme!r}, which is not known")
    if not parts.hostname:
        raise ValueError("names no server")
    return Proxy(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def open_tunnel(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Make ``sock``, which is connected to an HTTP proxy, lead to a server. Raises ProxyFailed."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    answer = b""
    while b"\r\n\r\n" not in answer:
        # Byte by byte at the end of it: what follows belongs to the server.
        piece = sock.recv(1)
        answer += piece
        if not piece or len(answer) > _LONGEST_ANSWER:
            raise ProxyFailed("The proxy did not answer in HTTP.")
    found = re.match(rb"HTTP/\d(?:\.\d)? (\d{3})", answer)
    if found is None or not found[1].startswith(b"2"):
        status = found[1].decode() if found else "nonsense"
        raise ProxyFailed(f"The proxy answered {status}.")


def open_socks(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """The same for a SOCKS proxy. Raises ProxyFailed."""
    if proxy.scheme.startswith("socks4"):
        _open_socks4(sock, proxy, host, port)
    else:
        _open_socks5(sock, proxy, host, port)


def _open_socks4(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    try:
        address, name = ipaddress.IPv4Address(host).packed, b""
    except ValueError:
        # Version 4a: an impossible address, and the name behind it.
        address, name = b"\0\0\0\x01", host.encode("idna") + b"\0"
    head = b"\x04\x01" + port.to_bytes(2, "big")
    sock.sendall(head + address + proxy.user.encode() + b"\0" + name)
    if _exactly(sock, 8)[1] != 0x5A:
        raise ProxyFailed("The proxy refused to connect.")


def _open_socks5(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    sock.sendall(b"\x05\x02\x00\x02" if proxy.user else b"\x05\x01\x00")
    version, method = _exactly(sock, 2)
    if version != 5 or method not in (0, 2) or (method == 2 and not proxy.user):
        raise ProxyFailed("The proxy wants a login that was not given.")
    if method == 2:
        user, password = proxy.user.encode()[:255], proxy.password.encode()[:255]
        login = bytes([1, len(user)]) + user + bytes([len(password)]) + password
        sock.sendall(login)
        if _exactly(sock, 2)[1] != 0:
            raise ProxyFailed("The proxy refused the login.")
    sock.sendall(b"\x05\x01\x00" + _socks5_address(host) + port.to_bytes(2, "big"))
    _, status, _, kind = _exactly(sock, 4)
    if status != 0:
        told = _SOCKS_ERRORS.get(status, "it failed")
        raise ProxyFailed(f"The proxy could not connect: {told}.")
    length = {1: 4, 4: 16}.get(kind) or _exactly(sock, 1)[0]
    _exactly(sock, length + 2)


def _socks5_address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("idna")
        return bytes([3, len(name)]) + name
    return bytes([1 if address.version == 4 else 4]) + address.packed


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise ProxyFailed("The proxy hung up.")
        data += piece
    return data
