"""What durable conversations cost (ENG-4, ENG-8). Prints one JSON object.

python -m tests.benchmarks.durable [--database URL] [--turns N] [--idle N]

Everything runs in this process, as in a server; the fake model takes no time, so that all that is
measured is ours.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from Middleware.conversations import tables
from Middleware.conversations.inbox import Send, Start
from Middleware.conversations.models import Options
from Middleware.conversations.rules import Limits
from Middleware.conversations.service import Conversations, Parts, running
from Middleware.conversations.settings import WorkerSettings

FOREVER = Options(turns_per_run=10, inactivity_seconds=10_000_000)


def median_ms(seconds: list[float]) -> float:
    return round(statistics.median(seconds) * 1000, 1)


def start(talks: Conversations, name: str) -> None:
    talks.start(Start(profile="refund-desk", options=FOREVER, conversation_id=name))


def say(talks: Conversations, name: str, text: str) -> None:
    talks.send(name, Send(name="message", arguments=[text]))


def wait_turns(talks: Conversations, name: str, turns: int, seconds: float = 600) -> None:
    for _ in talks.watch(name, seconds):
        state = talks.reader.state(name)
        if state is not None and state.turn_count >= turns and state.phase == "waiting_for_input":
            return
    raise TimeoutError(name)


def latency(talks: Conversations, turns: int) -> dict[str, float]:
    """One message at a time to an idle worker."""
    start(talks, "latency")
    accepting: list[float] = []
    for number in range(1, turns + 1):
        began = time.perf_counter()
        say(talks, "latency", f"message {number}")
        accepting.append(time.perf_counter() - began)
        wait_turns(talks, "latency", number)
        # The worker looks for work at any moment of its rhythm, not always just after a turn.
        time.sleep(0.013 * (number % 7))
    turn, signal, record = tables.turns.c, tables.signals.c, tables.records.c
    query = (
        select(signal.received_at, turn.started_at, record.created_at, turn.ended_at)
        .where(
            turn.conversation_id == "latency",
            signal.conversation_id == "latency",
            record.conversation_id == "latency",
            signal.sequence == turn.message_sequence,
            record.turn == turn.turn,
        )
        .order_by(turn.turn)
    )
    with talks.database.transaction() as connection:
        rows = connection.execute(query).all()[5:]
    return {
        "accept": median_ms(accepting[5:]),
        "accepted to start of turn": median_ms([row[1] - row[0] for row in rows]),
        "start of turn to reply": median_ms([row[2] - row[1] for row in rows]),
        "whole turn": median_ms([row[3] - row[0] for row in rows]),
    }


def process() -> dict[str, float]:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return {
        "threads": threading.active_count(),
        "memory_mb": int(resident.split()[1]) / 1024,
        "cpu": sum(os.times()[:2]),
    }


def idle(talks: Conversations, count: int, seconds: float = 20.0) -> dict[str, float]:
    """What so many waiting conversations add to a worker that has nothing to do."""

    def rest() -> dict[str, float]:
        time.sleep(2)
        before = process()
        time.sleep(seconds)
        after = process()
        return {**after, "core_percent": (after["cpu"] - before["cpu"]) / seconds * 100}

    without = rest()
    for number in range(count):
        start(talks, f"idle-{number}")
    with_them = rest()
    return {
        "conversations": count,
        "threads added": with_them["threads"] - without["threads"],
        "MB added": round(with_them["memory_mb"] - without["memory_mb"], 1),
        "percent of a core without": round(without["core_percent"], 2),
        "percent of a core with": round(with_them["core_percent"], 2),
    }


def long_talk(talks: Conversations, turns: int) -> dict[str, Any]:
    """One conversation of many turns: what a turn costs early and late."""
    start(talks, "long")
    batch = max(1, min(500, turns // 4))
    times: list[float] = []
    for done in range(0, turns, batch):
        began = time.perf_counter()
        for number in range(batch):
            say(talks, "long", f"message {done + number}")
        wait_turns(talks, "long", done + batch)
        times.append((time.perf_counter() - began) / batch)
    event = tables.history.c
    per_run = select(func.count()).where(event.conversation_id == "long").group_by(event.run_id)
    with talks.database.transaction() as connection:
        counts = connection.execute(per_run).scalars().all()
    state = talks.reader.state("long")
    assert state is not None
    quarter = max(1, len(times) // 4)
    return {
        "turns": state.turn_count,
        "generations": state.generation,
        "first quarter, ms a turn": median_ms(times[:quarter]),
        "last quarter, ms a turn": median_ms(times[-quarter:]),
        "most events in a run": max(counts),
        "characters of summary": len(state.summary),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", default="")
    parser.add_argument("--latency", type=int, default=100, help="turns one by one")
    parser.add_argument("--idle", type=int, default=1000, help="conversations that wait")
    parser.add_argument("--turns", type=int, default=10_000, help="turns of one conversation")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parts = Parts(
            database_url=given.database or f"sqlite:///{folder}/durable.sqlite",
            limits=Limits(unapplied_signals=100_000),
            settings=WorkerSettings(),
        )
        with running(parts) as talks:
            talks.work()
            time.sleep(2)
            found: dict[str, Any] = {"database": talks.database.engine.dialect.name}
            if given.latency:
                found["medians, ms"] = latency(talks, given.latency)
            if given.idle:
                found["idle"] = idle(talks, given.idle)
            if given.turns:
                found["long"] = long_talk(talks, given.turns)
        sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
