"""What the run log costs, and how quick it stays. Prints one JSON object.

python -m tests.benchmarks.run_log [--rounds N] [--seconds S] [--steps N] [--database URL]

`recording`: two servers side by side, one with the log and one without, in front of the same fast
model server. They are measured in turns, in alternating order; each ratio is taken within a round,
and its median and its quartiles are shown. Processor time hardly depends on what else the machine
does, requests a second do.

`listing`: milliseconds for what people ask for, with that many steps in the log; in an empty
PostgreSQL if one is named.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Middleware.core.clock import SystemClock
from Middleware.runs.history import History
from Middleware.runs.metrics import Metrics
from Middleware.runs.reader import Query
from Middleware.runs.retention import Keep, is_too_much, prune
from Middleware.runs.store import Rows, Store
from Middleware.runs.stores import store_at
from Middleware.runs.tracking import Tracking
from Middleware.storage.places import Place
from Middleware.storage.postgres import Postgres
from Middleware.workflows.models.run import Run
from tests.fakes.headrace import Tree, answers
from tests.fakes.own_process import own_process
from tests.fakes.recorded import a_step, used

CLIENTS = 16
STEPS_OF_A_RUN = 10
_ASKED = b'{"model":"bench","stream":%s,"messages":[{"role":"user","content":"hello there"}]}'
_CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
_LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
_WHOLE = json.dumps(
    {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "word " * 50},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 50, "total_tokens": 55},
    }
).encode()


async def _read_head(reader: asyncio.StreamReader) -> dict[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    pairs = (line.partition(b":") for line in head.split(b"\r\n")[1:] if line)
    return {name.lower(): value.strip() for name, _, value in pairs}


async def _model_server(port: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await _read_head(reader)
                body = await reader.readexactly(int(head[b"content-length"]))
                if b'"stream":true' in body.replace(b" ", b""):
                    text = _CHUNK * 20 + _LAST
                    kind = b"text/event-stream"
                else:
                    text, kind = _WHOLE, b"application/json"
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
                    % (kind, len(text), text)
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@dataclass
class Load:
    requests: int = 0
    first_byte_ms: float = 0.0
    """The median, from the request to the first byte behind the head."""
    seconds: float = 0.0


async def _load(port: int, seconds: float, *, stream: bool, clients: int) -> Load:
    body = _ASKED % (b"true" if stream else b"false")
    asked = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    waits: list[float] = []
    end = time.perf_counter() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            begun = time.perf_counter()
            writer.write(asked)
            head = await _read_head(reader)
            if b"content-length" in head:
                await reader.readexactly(int(head[b"content-length"]))
                waits.append(time.perf_counter() - begun)
            else:
                first = await reader.read(1)
                waits.append(time.perf_counter() - begun)
                assert first
                if head.get(b"connection") == b"close":
                    await reader.read()
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                else:
                    await reader.readuntil(b"\r\n0\r\n\r\n")
        writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    took = time.perf_counter() - begun
    return Load(len(waits), statistics.median(waits) * 1000, took)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _model() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.run_log", "--model-server"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def recording(folder: Path, rounds: int, seconds: float) -> dict[str, Any]:
    with ExitStack() as stack:
        port = stack.enter_context(_model())
        servers = {}
        for name in ("off", "on"):
            tree = Tree(folder / name, runLog={"enabled": name == "on"})
            tree.model("Main", f"http://127.0.0.1:{port}").workflow("bench", [answers()])
            words = ("--log-level", "warning")
            servers[name] = stack.enter_context(own_process(tree.public, *words))
        found: dict[str, list[float]] = {}
        shown: dict[str, list[float]] = {}
        for number in range(rounds + 1):
            order = ("off", "on") if number % 2 else ("on", "off")
            figures: dict[tuple[str, str], float] = {}
            for name in order:
                server = servers[name]
                for kind, clients in (("whole", CLIENTS), ("stream", 1)):
                    cpu = _cpu_seconds(server.process.pid)
                    load = asyncio.run(
                        _load(server.port, seconds, stream=kind == "stream", clients=clients)
                    )
                    time.sleep(0.6)
                    cpu = _cpu_seconds(server.process.pid) - cpu
                    figures[name, f"{kind}_requests_a_second"] = load.requests / load.seconds
                    figures[name, f"{kind}_cpu_ms"] = cpu * 1000 / load.requests
                    if kind == "stream":
                        figures[name, "first_byte_ms"] = load.first_byte_ms
            if number == 0:
                # To warm up.
                continue
            for (name, figure), value in figures.items():
                shown.setdefault(f"{figure} {name}", []).append(value)
                if name == "on":
                    found.setdefault(figure, []).append(value / figures["off", figure])
        ratios = {
            figure: {
                "median": round(statistics.median(values), 4),
                "quartiles": [round(one, 4) for one in statistics.quantiles(values, n=4)[::2]],
            }
            for figure, values in found.items()
        }
        medians = {name: round(statistics.median(values), 4) for name, values in shown.items()}
        return {"on_over_off": ratios, "medians": medians, "rounds": rounds}


def listing(place: Place, steps: int) -> dict[str, Any]:
    store = store_at(place)
    written = _fill(store, steps // STEPS_OF_A_RUN)
    history = History(lambda: [place])
    middle = written[len(written) // 2]
    with store.transaction() as connection:
        number = connection.execute(
            "SELECT number FROM runs WHERE id = ?", (middle.id,)
        ).fetchone()[0]
    keep = Keep(place=place, max_runs=10_000_000, max_megabytes=1e9, max_days=1e5)
    asked: dict[str, Callable[[], Any]] = {
        "newest 50": lambda: history.newest(Query()),
        "50 in the middle": lambda: history.newest(Query(before=number)),
        "50 of a workflow": lambda: history.newest(Query(workflow="assistant")),
        "50 that failed": lambda: history.newest(Query(status="failed")),
        "50 that failed of a workflow": lambda: history.newest(
            Query(workflow="assistant", status="failed")
        ),
        "50 of a status nobody has": lambda: history.newest(Query(status="cancelled")),
        "50 of an owner": lambda: history.newest(Query(owners=("tester/", "nobody/"))),
        "one run with its steps": lambda: history.find(middle.id),
        "is it too much": lambda: _is_too_much(store, keep),
    }
    times = {name: _milliseconds(work) for name, work in asked.items()}
    times["write a batch of 100 runs, per run"] = _write_more(store)
    with store.transaction() as connection:
        begun = time.perf_counter()
        prune(connection, "tester", Keep(place=place, max_runs=1000), time.time())
        times["delete 500 runs"] = round((time.perf_counter() - begun) * 1000, 2)
    store.close()
    return {
        "steps": steps,
        "runs": len(written),
        "megabytes": round(place.stat().st_size / 1e6, 1) if isinstance(place, Path) else None,
        "ms": times,
    }


def _is_too_much(store: Store, keep: Keep) -> bool:
    with store.looking() as connection:
        return is_too_much(connection, "tester", keep, time.time())


def _fill(store: Store, runs: int) -> list[Run]:
    clock = SystemClock()
    tracking = Tracking("p", Metrics(), keeps_trees=False)
    written = []
    start = clock.timestamp() - runs
    for first in range(0, runs, 1000):
        rows = Rows()
        for at in range(first, min(first + 1000, runs)):
            run = _a_run(clock.new_id(), start + at, at)
            tracked = tracking.start(run)
            tracking.finish(tracked)
            tracking.add_rows(tracked, rows, finished=True)
            written.append(Run(id=run.id, workflow="", folder="", user=""))
        store.write(rows)
    with store.looking() as connection:
        connection.execute("ANALYZE")
    return written


def _a_run(run_id: str, started_at: float, at: int) -> Run:
    failed = at % 50 == 0
    run = Run(
        id=run_id,
        workflow="_DefaultWorkflow",
        folder=f"_shared/{('assistant', 'router', 'panel')[at % 3]}",
        user="tester",
        door="openai",
        started_at=started_at,
        duration_ms=1200.0,
        status="failed" if failed else "succeeded",
    )
    run.context.global_variables["question"] = "What is it?"
    run.context.error = "Endpoint 'Main' answered 500." if failed else None
    for number in range(STEPS_OF_A_RUN):
        run.context.steps.append(
            a_step(
                f"node_{number}",
                "An answer of some words. " * 10,
                endpoint="Main",
                usage=used(100, 50),
                resolved_prompt="A prompt of some words. " * 10,
            )
        )
    return run


def _write_more(store: Store) -> float:
    clock = SystemClock()
    tracking = Tracking("q", Metrics(), keeps_trees=False)
    rows = Rows()
    for at in range(100):
        run = _a_run(clock.new_id(), clock.timestamp(), at)
        tracked = tracking.start(run)
        tracking.finish(tracked)
        tracking.add_rows(tracked, rows, finished=True)
    begun = time.perf_counter()
    store.write(rows)
    return round((time.perf_counter() - begun) * 1000 / 100, 3)


def _milliseconds(work: Callable[[], Any], times: int = 15) -> float:
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        found.append((time.perf_counter() - begun) * 1000)
    return round(statistics.median(found), 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--database", metavar="URL")
    parser.add_argument("--only", choices=("recording", "listing"))
    parser.add_argument("--model-server", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.model_server:
        asyncio.run(_model_server(0))
        return 0
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if given.only != "listing":
            result["recording"] = recording(Path(folder), given.rounds, given.seconds)
        if given.only != "recording":
            place = Postgres(given.database) if given.database else Path(folder) / "runs.sqlite"
            result["listing"] = listing(place, given.steps)
    sys.stdout.write(f"{json.dumps(result, indent=2)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
