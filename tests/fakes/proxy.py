"""A proxy on the loopback address that keeps where it was asked to connect.

    with Proxy("socks5", leads_to=server.port) as proxy:
        fetch(... proxy=parse_proxy(proxy.url) ...)
    assert proxy.asked == ["good.example:80"]

Every connection leads to one port, whatever was asked for. ``http`` knows CONNECT and requests in
absolute form; ``tls`` puts TLS in front.
"""

import contextlib
import selectors
import socket
import ssl
import threading
from types import TracebackType

from tests.fakes.upstream import TLS_FILE


class Proxy:
    def __init__(
        self,
        scheme: str,
        leads_to: int,
        *,
        login: tuple[str, str] | None = None,
        refuses: bool = False,
        tls: bool = False,
    ) -> None:
        self.asked: list[str] = []
        self.heads: list[bytes] = []
        """What an HTTP proxy read up to the blank line."""
        self._scheme, self._leads_to = scheme, leads_to
        self._login, self._refuses = login, refuses
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        name = f"{login[0]}:{login[1]}@" if login else ""
        self.url = f"{scheme}://{name}127.0.0.1:{self.port}"
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._tls: ssl.SSLContext | None = None
        if tls:
            self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            self._tls.load_cert_chain(TLS_FILE)

    def __enter__(self) -> "Proxy":
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sockets = [self._listener, *self._open]
        for sock in sockets:
            with contextlib.suppress(OSError):
                # The base class's method: it wakes whoever reads, TLS or not.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for sock in sockets:
            sock.close()

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            first = self._greet(connection)
            if first is None:
                return
            with socket.create_connection(("127.0.0.1", self._leads_to), 10) as server:
                server.sendall(first)
                _pump(connection, server)
        with contextlib.suppress(OSError):
            connection.close()

    def _greet(self, client: socket.socket) -> bytes | None:
        """What the server is sent first; None when the client was refused."""
        if self._scheme in ("http", "https"):
            return self._http(client)
        return self._socks4(client) if "4" in self._scheme else self._socks5(client)

    def _http(self, client: socket.socket) -> bytes | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += _exactly(client, 1)
        self.heads.append(head)
        method, target, _ = head.split(b" ", 2)
        self.asked.append(target.decode())
        if self._refuses:
            client.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
            return None
        if method == b"CONNECT":
            client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            return b""
        path = b"/" + target.split(b"/", 3)[3]
        return head.replace(target, path, 1)

    def _socks4(self, client: socket.socket) -> bytes | None:
        _exactly(client, 2)
        port, address = int.from_bytes(_exactly(client, 2), "big"), _exactly(client, 4)
        _until_zero(client)
        host = socket.inet_ntoa(address)
        if host.startswith("0.0.0."):
            host = _until_zero(client).decode()
        self.asked.append(f"{host}:{port}")
        client.sendall(b"\0" + (b"\x5b" if self._refuses else b"\x5a") + b"\0" * 6)
        return None if self._refuses else b""

    def _socks5(self, client: socket.socket) -> bytes | None:
        methods = _exactly(client, _exactly(client, 2)[1])
        if self._login is not None:
            if 2 not in methods:
                client.sendall(b"\x05\xff")
                return None
            client.sendall(b"\x05\x02")
            user = _exactly(client, _exactly(client, 2)[1])
            password = _exactly(client, _exactly(client, 1)[0])
            fits = (user.decode(), password.decode()) == self._login
            client.sendall(b"\x01" + (b"\0" if fits else b"\x01"))
            if not fits:
                return None
        else:
            client.sendall(b"\x05\0")
        kind = _exactly(client, 4)[3]
        if kind == 3:
            host = _exactly(client, _exactly(client, 1)[0]).decode()
        else:
            family = socket.AF_INET if kind == 1 else socket.AF_INET6
            host = socket.inet_ntop(family, _exactly(client, 4 if kind == 1 else 16))
        self.asked.append(f"{host}:{int.from_bytes(_exactly(client, 2), 'big')}")
        client.sendall(b"\x05" + (b"\x05" if self._refuses else b"\0") + b"\0\x01" + b"\0" * 6)
        return None if self._refuses else b""


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def _until_zero(sock: socket.socket) -> bytes:
    data = b""
    while (piece := _exactly(sock, 1)) != b"\0":
        data += piece
    return data


def _pump(client: socket.socket, server: socket.socket) -> None:
    """Pass on what either side says, until one of them closes."""
    with selectors.DefaultSelector() as selector:
        selector.register(client, selectors.EVENT_READ, server)
        selector.register(server, selectors.EVENT_READ, client)
        while True:
            for key, _ in selector.select():
                source = key.fileobj
                assert isinstance(source, socket.socket)
                data = source.recv(65536)
                while isinstance(source, ssl.SSLSocket) and source.pending():
                    data += source.recv(65536)
                if not data:
                    return
                key.data.sendall(data)
