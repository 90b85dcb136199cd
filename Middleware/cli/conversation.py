"""`conversation`: talk to a durable conversation from the terminal (specification §14)."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from Middleware.cli.conversation_output import JsonOutput, Output, TextOutput
from Middleware.cli.conversation_talk import (
    Follower,
    HttpStore,
    LocalStore,
    Refused,
    Store,
    Unreachable,
)
from Middleware.core.arguments import OptionParser
from Middleware.core.errors import MalformedRequest, RequestError
from Middleware.storage.urls import database_argument

USAGE, REFUSED, UNREACHABLE = 2, 3, 4
_OPTIONS = ("turns_per_run", "inactivity_seconds", "decision_timeout_seconds")


def main(arguments: Sequence[str]) -> int:
    """0 ended or left open, 2 wrong use, 3 refused, 4 unreachable (CLI-6)."""
    given = _parser().parse_args(arguments)
    output: Output = JsonOutput(sys.stdout) if given.json else TextOutput(sys.stdout)
    try:
        with ExitStack() as stack:
            return _converse(given, output, stack)
    except Refused as error:
        print(error, file=sys.stderr)
        return REFUSED
    except Unreachable as error:
        print(error, file=sys.stderr)
        return UNREACHABLE
    except MalformedRequest as error:
        print(error.message, file=sys.stderr)
        return USAGE
    except RequestError as error:
        print(error.message, file=sys.stderr)
        return REFUSED


def _converse(given: argparse.Namespace, output: Output, stack: ExitStack) -> int:
    store: Store
    if given.url:
        store = HttpStore(given.url, given.api_key)
    else:
        store = stack.enter_context(LocalStore.open(given))
    status, before = _open(given, store)
    follower = Follower(store, status, output)
    output.started(status["conversation_id"], status["generation"], resumed=before)
    try:
        if given.messages:
            _scripted(given, follower)
        else:
            _interactive(given, follower)
    except KeyboardInterrupt:
        # CLI-5: the conversation goes on; whoever comes again finds it as it is.
        name = status["conversation_id"]
        print(f"\nLeft open. Go on with --conversation-id {name}", file=sys.stderr)
        raise
    return 0


def _open(given: argparse.Namespace, store: Store) -> tuple[dict[str, Any], bool]:
    """The conversation's status, and whether it had been there before."""
    options = {name: getattr(given, name) for name in _OPTIONS if getattr(given, name) is not None}
    body: dict[str, Any] = {"profile": given.profile, "options": options}
    if given.conversation_id:
        known = store.status(given.conversation_id)
        if known is not None:
            if known["phase"] == "completed":
                raise Refused(f"Conversation {given.conversation_id!r} has ended.")
            return known, True
        body["conversation_id"] = given.conversation_id
    # Another runner may just have begun it.
    body["return_existing_active"] = True
    return store.start(body), False


def _scripted(given: argparse.Namespace, follower: Follower) -> None:
    for text in given.messages:
        follower.send(text)
        follower.follow(lambda proposal: given.decision == "approve", given.reviewer)
        if follower.ended:
            return
    if not given.keep_open:
        follower.send("/end", quietly=True)
        follower.follow(lambda proposal: given.decision == "approve", given.reviewer)


def _interactive(given: argparse.Namespace, follower: Follower) -> None:
    def ask(proposal: dict[str, Any]) -> bool:
        try:
            answer = input("Approve? [y/N] ")
        except EOFError:
            return False
        return answer.strip().lower() in ("y", "yes", "approve", "/approve")

    follower.follow(ask, given.reviewer)
    while not follower.ended:
        try:
            text = input("> ")
        except EOFError:
            text = "/end"
        if text.strip():
            follower.send(text, quietly=True)
            follower.follow(ask, given.reviewer)


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="python3 start.py conversation",
        description="Talk to a durable conversation. Without --message it asks for input.",
    )
    add = parser.add_argument
    add("--message", "-m", dest="messages", action="append", default=[], metavar="TEXT",
        help="a message; may be repeated")  # fmt: skip
    add("--decision", choices=("approve", "decline"), default="approve",
        help="the answer to every proposal of a scripted run (approve)")  # fmt: skip
    add("--turns-per-run", type=int, metavar="N", help="turns until a new generation begins (3)")
    add("--inactivity-seconds", type=float, metavar="S", help="silence that ends it (3600)")
    add("--decision-timeout-seconds", type=float, metavar="S",
        help="time that a decision may take (as long as the inactivity)")  # fmt: skip
    add("--profile", default="refund-desk", metavar="NAME",
        help="conversation profile (refund-desk, which is a fake model)")  # fmt: skip
    add("--conversation-id", metavar="ID", help="go on with this one, or choose the id")
    add("--reviewer", default=os.environ.get("USER", "terminal"), metavar="NAME",
        help="goes into decisions")  # fmt: skip
    add("--keep-open", action="store_true", help="do not send /end after the last message")
    add("--json", action="store_true", help="one JSON object a line")
    add("--url", metavar="URL", help="talk to a running server; else a worker runs in here")
    add("--api-key", metavar="KEY", help="key for --url")
    add_places(parser)
    return parser


def add_places(parser: argparse.ArgumentParser) -> None:
    """Where configuration and data are, for commands that work without a server."""
    add = parser.add_argument
    add(
        "--database",
        metavar="URL",
        type=database_argument,
        help="sqlite:///FILE or postgresql://HOST/NAME",
    )
    add(
        "--UserLevelSqlLiteDirectory",
        dest="sqlite_directory",
        type=Path,
        metavar="DIR",
        help="where files are without --database, and the run log without PostgreSQL",
    )
    add("--User", dest="user", metavar="NAME", help="whose configuration")
    add("--PublicDirectory", dest="public_directory", type=Path, metavar="DIR")
    add("--ConfigDirectory", dest="config_directory", type=Path, metavar="DIR")
    add("--WorkflowsDirectory", dest="workflows_directory", type=Path, metavar="DIR")
