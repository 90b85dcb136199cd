"""`worker`: work on durable conversations without any door. Any number, on any machines."""

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from Middleware.conversations.settings import RetentionSettings, WorkerSettings
from Middleware.core.arguments import OptionParser


def main(arguments: Sequence[str]) -> int:
    """Works until a signal ends it. Turns that are not finished are gone on with by others."""
    from Middleware.cli.conversation import add_places
    from Middleware.cli.conversation_talk import local_conversations

    parser = OptionParser(
        prog="python3 start.py worker",
        description="Work on durable conversations, beside a server or other workers.",
    )
    _add_settings(parser)
    add_places(parser)
    given = parser.parse_args(arguments)
    conversations = local_conversations(given, _settings(given))
    stop = threading.Event()

    def end(number: int, frame: Any) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    conversations.work()
    print("The worker is ready.", flush=True)
    try:
        # A wait without end is not interrupted by signals on every system.
        while not stop.wait(1.0):
            pass
    finally:
        conversations.stop()
    print("The worker has ended; what it was doing is gone on with elsewhere.", file=sys.stderr)
    return 0


def _add_settings(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    defaults = WorkerSettings()
    add(
        "--turns-at-once",
        type=int,
        default=defaults.turns_at_once,
        metavar="N",
        help=f"turns that this process works on at once ({defaults.turns_at_once})",
    )
    add(
        "--lease-seconds",
        type=float,
        default=defaults.lease_seconds,
        metavar="S",
        help="silence after which others take this worker's tasks over "
        f"({defaults.lease_seconds:g}); the same for all workers",
    )
    add("--keep-replies-days", type=float, metavar="N", help="remove older replies (never)")
    add(
        "--keep-conversations-days",
        type=float,
        metavar="N",
        help="remove conversations that ended longer ago, with all they had (never)",
    )


def _settings(given: argparse.Namespace) -> WorkerSettings:
    return WorkerSettings(
        turns_at_once=max(1, given.turns_at_once),
        lease_seconds=max(1.0, given.lease_seconds),
        retention=RetentionSettings(
            record_days=given.keep_replies_days,
            conversation_days=given.keep_conversations_days,
        ),
    )
