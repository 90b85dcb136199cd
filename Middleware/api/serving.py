"""Runs the server: from the options to the exit status."""

import gc
import logging
import queue
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from Middleware.api.admission import refuse_open_server
from Middleware.api.http_server import HttpServer, bind
from Middleware.api.options import ServerOptions
from Middleware.api.site import Site
from Middleware.config.problems import Problem, tally
from Middleware.core.errors import ServerStopping
from Middleware.core.signals import when_asked_to_end

logger = logging.getLogger(__name__)

DEFAULT_PORT = 5050
_LAST_WORDS_SECONDS = 2.0
"""What cancelled requests get to send their error."""
_COLLECT_AFTER = 10_000
"""New objects after which the collector looks for circles. Python's 700 are a few messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What ``app.py`` builds: a WSGI application, and what its server must know of it."""

    site: Site
    users: tuple[str, ...]
    port: int | None
    """What the only user's file says."""
    problems: Callable[[], Sequence[Problem]]
    log_directory: Path | None = None
    """Where log files are wanted too; None: nowhere."""
    close: Callable[[], None]
    """Called once, when the last request is over."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        return self.site(environ, start_response)


class StopSignal:
    """Ctrl-C, `kill`, a closed terminal, or :meth:`request`: one asks to stop, a second to hurry.

    A SimpleQueue, because a signal handler may run while its own thread holds the lock of an
    Event; ``put`` is safe there.
    """

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[None] = queue.SimpleQueue()

    def request(self, *_: int | FrameType | None) -> None:
        self._requests.put(None)

    def wait(self, seconds: float) -> bool:
        """True as soon as there is one that nobody has waited for yet."""
        try:
            self._requests.get(timeout=seconds)
        except queue.Empty:
            return False
        return True

    def listen(self) -> None:
        """Take over the signals of this process. Main thread only."""
        when_asked_to_end(self.request)


def serve(app: Application, options: ServerOptions, stop: StopSignal, out: TextIO) -> int:
    """Serve until ``stop``. Returns the exit status; raises ConfigError when it cannot start."""
    refuse_open_server(options.listen, app.site.keys, no_auth=options.no_auth)
    wanted = next((port for port in (options.port, app.port) if port is not None), DEFAULT_PORT)
    bound = bind(options.listen, wanted)
    server = HttpServer(
        app,
        bound,
        shapes=app.site.shapes,
        threads=options.threads,
        max_body_bytes=app.site.max_body_bytes,
    )
    server.start()
    _wait_until_healthy(bound)
    _settle_memory()
    _announce(app, options, server.port)
    out.write(f"Headrace is ready at {_url(options.listen, server.port)}\n")
    out.flush()
    # With a time-out, since Windows does not interrupt a wait without one for Ctrl-C.
    while not stop.wait(1.0):
        if not server.alive:
            logger.error("the server's main loop has ended unexpectedly")
            return 1
    wind_down(app.site, server, stop, options.grace_seconds)
    app.close()
    return 0


def wind_down(site: Site, server: HttpServer, stop: StopSignal, grace_seconds: float) -> None:
    """Refuse what is new, let what runs end, cancel it after a while, and close.

    Takes at most about two times ``grace_seconds``: once for requests, and once more for the
    nodes that run behind answers.
    """
    pulse, background = site.pulse, site.background
    logger.info("stopping: %d requests, %d background runs", len(pulse), len(background))
    site.stopping = True
    begun = time.monotonic()
    hurry = _wait(lambda: not pulse and not background, begun + grace_seconds, stop)
    pulse.stop_all(ServerStopping)
    _wait(lambda: not pulse, time.monotonic() + _LAST_WORDS_SECONDS)
    pulse.abandon_all(ServerStopping)
    if not hurry:
        _wait(lambda: not background, begun + 2 * grace_seconds, stop)
    background.stop_all(ServerStopping)
    _wait(lambda: not background, time.monotonic() + _LAST_WORDS_SECONDS / 2)
    server.drain(time.monotonic() + 1.0)
    server.close()
    logger.info("stopped")


def _wait(done: Callable[[], bool], deadline: float, stop: StopSignal | None = None) -> bool:
    """Until ``done``, the deadline, or a signal to hurry; True for the last."""
    while not done() and time.monotonic() < deadline:
        if stop is None:
            time.sleep(0.02)
        elif stop.wait(0.02):
            return True
    return False


def _wait_until_healthy(bound: socket.socket) -> None:
    """Ask for ``/health`` as a client would. The first request also warms up what is lazy."""
    host, port = bound.getsockname()[:2]
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    with socket.create_connection((reachable, port), timeout=30) as client:
        client.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        client.recv(16)


def _settle_memory() -> None:
    """Leave what is alive now to itself: the collector would look through all of it again and
    again, most often while a long conversation is read (half of the time of 5,000 messages).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    return f"http://{f'[{shown}]' if ':' in shown and '[' not in shown else shown}:{port}"


def _announce(app: Application, options: ServerOptions, port: int) -> None:
    url = _url(options.listen, port)
    problems = app.problems()
    lines = [
        f"API:      {url}/v1",
        f"user:     {', '.join(app.users) or '(none)'}",
        f"problems: {tally(problems)}" + (" (`check` lists them)" if problems else ""),
    ]
    if options.no_auth and options.listen not in ("127.0.0.1", "localhost", "::1"):
        lines.append(f"no keys are demanded on {options.listen}: anyone who reaches it may use it")
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()
