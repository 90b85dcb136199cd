"""A server as a process of its own, with a fake runner that does what the message says.

``python -m tests.fakes.served [server options]``; messages: ``hang``, ``stubborn`` (cannot be
cancelled), ``rest N`` (N seconds of background work), ``heap`` (tells what the collector leaves
alone), anything else is echoed.
"""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from Middleware.api.admission import Keys
from Middleware.api.log_output import configure_logging
from Middleware.api.options import parse_options
from Middleware.api.serving import Application, StopSignal, serve
from Middleware.core.errors import ConfigError
from Middleware.core.events import Event, Finish, TextDelta
from tests.fakes.live_site import make_site
from tests.fakes.runner import FakeRunner, Turn, echo

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE_SECONDS = 20


def script(turn: Turn) -> Iterator[Event]:
    said = turn.asked.messages[-1].content
    if said == "hang":
        yield TextDelta("begun")
        turn.silence(60)
    elif said == "stubborn":
        yield TextDelta("begun")
        time.sleep(60)
    elif said == "heap":
        yield TextDelta(f"{gc.get_freeze_count()} {gc.get_threshold()[0]}")
        yield Finish("stop")
        return
    yield from echo(turn)


def rest(turn: Turn) -> None:
    word, _, seconds = turn.asked.messages[-1].content.partition(" ")
    if word == "rest":
        try:
            turn.cancel.wait(float(seconds))
            sys.stderr.write("rest finished\n")
        except BaseException as error:
            sys.stderr.write(f"rest ended by {type(error).__name__}\n")
            raise


def closed() -> None:
    sys.stderr.write("closed\n")


def main(words: Sequence[str]) -> int:
    options = parse_options(words)
    log = configure_logging(options.log_format, options.log_level)
    stop = StopSignal()
    stop.listen()
    keys = Keys(tuple, extra_key=options.api_key, off=options.no_auth)
    site = make_site(FakeRunner(script, rest=rest), keys=keys, cors=options.cors)
    app = Application(
        site=site,
        users=("alice",),
        port=None,
        problems=tuple,
        close=closed,
    )
    try:
        return serve(app, options, stop, sys.stdout)
    except ConfigError as error:
        log.flush()
        sys.stderr.write(f"{error.message}\n")
        return 1


@dataclass
class Served:
    process: "subprocess.Popen[str]"
    ready: str

    @property
    def port(self) -> int:
        return int(self.ready.rsplit(":", 1)[1])

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Exit status, and the rest of both outputs."""
        out, err = self.process.communicate(timeout=DEADLINE_SECONDS)
        return self.process.returncode, out, err


def start(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.served", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


@contextmanager
def served(*words: str) -> Iterator[Served]:
    with start("--port", "0", *words) as process:
        assert process.stdout is not None
        try:
            yield Served(process, process.stdout.readline().rstrip("\n"))
        finally:
            if process.poll() is None:
                process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
