"""The whole server as a process of its own, which a test may kill.

    with own_process(tree.public) as server:
        server.ask("GET", "/health")
        server.kill()

``limit_bytes`` is how large a file of it may become: its disk is full then.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.live_site import CHAT, HI, Client, Received

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE_SECONDS = 30

_LIMITED = """\
import resource, runpy, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass
class OwnProcess:
    process: "subprocess.Popen[str]"
    port: int
    log: Path
    """What it says on standard error."""

    def connect(self) -> Client:
        return Client(socket.create_connection(("127.0.0.1", self.port), DEADLINE_SECONDS))

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Received:
        """One request on a connection of its own."""
        with self.connect() as client:
            client.send(method, path, body, **headers)
            return client.receive()

    def chat(self, **fields: Any) -> Received:
        return self.ask("POST", CHAT, {"model": "m", "messages": HI, **fields})

    def kill(self) -> None:
        """As when the power goes."""
        self.process.kill()
        self.process.wait(DEADLINE_SECONDS)

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")


@contextmanager
def own_process(
    public: Path, *words: str, limit_bytes: int | None = None, log_name: str = "server.log"
) -> Iterator[OwnProcess]:
    log = public.parent / log_name
    start = [sys.executable]
    if limit_bytes is not None:
        start += ["-c", _LIMITED, str(limit_bytes)]
    options = [str(ROOT / "server.py"), "--PublicDirectory", str(public), "--port", "0", *words]
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            [*start, *options],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
        ) as process,
    ):
        assert process.stdout is not None
        ready: Any = process.stdout.readline()
        try:
            assert "ready at" in ready, log.read_text(encoding="utf-8")
            yield OwnProcess(process, int(ready.rstrip().rsplit(":", 1)[1]), log)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(DEADLINE_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
