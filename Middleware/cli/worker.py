"""`worker`: work on durable conversations without any door. Any number, on any machines."""

import argparse
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from Middleware.conversations.settings import WorkerSettings
from Middleware.core.arguments import OptionParser
from Middleware.core.signals import when_asked_to_end


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
    stop = threading.Event()

    def end(number: int, frame: Any) -> None:
        stop.set()

    when_asked_to_end(end)
    with local_conversations(given, partial(_adapted, given)) as conversations:
        conversations.work()
        print("The worker is ready.", flush=True)
        # A wait without end is not interrupted by signals on every system.
        while not stop.wait(1.0):
            pass
    print("The worker has ended; what it was doing is gone on with elsewhere.", file=sys.stderr)
    return 0


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Each in place of what `durable` of the user file says."""
    add = parser.add_argument
    defaults = WorkerSettings()
    add(
        "--turns-at-once",
        type=int,
        metavar="N",
        help=f"turns that this process works on at once ({defaults.turns_at_once})",
    )
    add(
        "--lease-seconds",
        type=float,
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


def _adapted(given: argparse.Namespace, settings: WorkerSettings) -> WorkerSettings:
    keep = settings.retention
    replies, conversations = given.keep_replies_days, given.keep_conversations_days
    turns, lease = given.turns_at_once, given.lease_seconds
    return replace(
        settings,
        turns_at_once=settings.turns_at_once if turns is None else max(1, turns),
        lease_seconds=settings.lease_seconds if lease is None else max(1.0, lease),
        retention=replace(
            keep,
            record_days=keep.record_days if replies is None else replies,
            conversation_days=keep.conversation_days if conversations is None else conversations,
        ),
    )
