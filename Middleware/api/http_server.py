"""waitress, set up for many streams (performance.md 5), with JSON errors of its own."""

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import orjson
from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer, create_server
from waitress.task import ErrorTask

from Middleware.api.errors import JSON, ErrorShapes
from Middleware.api.workers import Workers
from Middleware.core.errors import ConfigError, MalformedRequest, MiddlewareError, RequestTooLarge

logger = logging.getLogger(__name__)

_BACKLOG = 2048
_IDLE_CONNECTION_SECONDS = 3600
"""Long, because a server that closes an idle connection races with the client's next request."""
_MORE_THAN_THE_LIMIT = 4
"""The server itself refuses what is this many times too large, by closing the connection in the
middle of the upload. What is less too large is read, and answered properly."""


def bind(host: str, port: int) -> socket.socket:
    """A bound socket, not yet listening. Raises ConfigError when the address cannot be had."""
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # "localhost" has two addresses; the old one is what people type.
        family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"{host!r} is no address of this machine: {error}.") from error
    try:
        # On Windows the option would let two servers share the port.
        if sys.platform != "win32":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"Port {port} of {host} cannot be used: {error.strerror or error}.",
            remedy="Is a server running there already? --port chooses another port.",
        ) from error
    return bound


class HttpServer:
    """One listening socket, a main loop in a thread of its own, and the worker threads."""

    def __init__(
        self,
        application: Callable[..., Any],
        bound: socket.socket,
        *,
        shapes: ErrorShapes,
        threads: int,
        max_body_bytes: int,
    ) -> None:
        raise_file_limit(4 * threads)
        self._workers = Workers(threads)
        self._server = cast(
            TcpWSGIServer,
            create_server(
                application,
                sockets=[bound],
                threads=0,
                connection_limit=max(4096, 4 * threads),
                backlog=_BACKLOG,
                channel_timeout=_IDLE_CONNECTION_SECONDS,
                asyncore_use_poll=True,
                channel_request_lookahead=1,
                max_request_body_size=_MORE_THAN_THE_LIMIT * max_body_bytes,
                log_socket_errors=False,
                ident=None,
            ),
        )
        self._server.channel_class = _channel_class(shapes)
        self._server.task_dispatcher = cast(Any, self._workers)
        self.port: int = bound.getsockname()[1]
        self._loop = threading.Thread(target=self._server.run, name="http", daemon=True)

    def start(self) -> None:
        """From now on requests are answered."""
        self._loop.start()

    @property
    def alive(self) -> bool:
        return self._loop.is_alive()

    @property
    def connections(self) -> int:
        return len(self._channels())

    def drain(self, deadline: float) -> None:
        """Wait until all that was written has gone out, or until ``deadline`` (monotonic)."""
        while time.monotonic() < deadline and any(
            channel.requests or channel.total_outbufs_len for channel in self._channels()
        ):
            time.sleep(0.01)

    def close(self, timeout_seconds: float = 2.0) -> None:
        """End the workers, then all connections. Harmless when called twice."""
        if not self.alive:
            return
        self._workers.shutdown(timeout=timeout_seconds)
        # In the main loop's own thread: it is the only one that may close its sockets. Without
        # any left it ends. All under the trigger's lock, since the loop may be awake already and
        # would close the trigger before it is pulled.
        server: Any = self._server
        with server.trigger.lock:
            server.trigger.thunks.append(self._close_all)
            server.pull_trigger()
        self._loop.join(timeout_seconds)

    def _close_all(self) -> None:
        """The connections first, each in the way that also frees what it still has to send: of a
        large answer that is a file, which the loop's own way of closing leaves open.
        """
        for channel in self._channels():
            channel.handle_close()
        wasyncore.close_all(cast(Any, self._server)._map, True)

    def _channels(self) -> list[HTTPChannel]:
        return list(cast(dict[int, HTTPChannel], self._server.active_channels).values())


def _channel_class(shapes: ErrorShapes) -> type[HTTPChannel]:
    """A channel whose errors (no HTTP, headers too large, ...) are JSON like all others."""

    class JsonErrorTask(ErrorTask):
        def execute(self) -> None:
            refused = cast(Any, self.request).error
            path = str(getattr(self.request, "path", "/"))
            body = orjson.dumps(shapes.for_path(path)(_as_ours(refused)))
            self.status = f"{refused.code} {refused.reason}"
            self.response_headers = [*self.response_headers, ("Content-Type", JSON)]
            self.set_close_on_finish()
            self.content_length = len(body)
            self.write(body)

    class Channel(HTTPChannel):
        error_task_class = JsonErrorTask
        parser_class = _Parser

    return Channel


class _Parser(HTTPRequestParser):
    """Finds fault with every address that nobody could read, and has a path whatever it was sent:
    both would be a fault of ours further on, with a page of log for each.
    """

    path = "/"

    def parse_header(self, header_plus: bytes) -> None:
        try:
            super().parse_header(header_plus)
            cast(Any, self).query.encode("latin-1").decode()
        except ValueError as error:
            raise ParsingError("Bad URI") from error


def _as_ours(refused: Any) -> MiddlewareError:
    if refused.code == 413:
        return RequestTooLarge("The request is too large.")
    if refused.code >= 500:
        return MiddlewareError(f"{refused.reason}.")
    return MalformedRequest(None, f"{refused.reason}: {refused.body}".rstrip("."))


def raise_file_limit(wanted: int) -> None:
    """Let the process open ``wanted`` files if the system allows: each stream needs two sockets,
    and many systems start with a limit of 1024.
    """
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError) as error:
        logger.warning("the limit of open files stays at %d: %s", soft, error)
