"""The commands there are. A new one is a module with `main(arguments: Sequence[str]) -> int`,
and a line here.

`start.py` reads this table with whatever Python it was started with, before anything is
installed: standard library only, and as little of it as possible.
"""

from collections.abc import Iterable, Mapping

Command = tuple[str, str]
"""The module to import when the command is used, and what `--help` says of it."""

COMMANDS: Mapping[str, Command] = {
    "serve": ("server", "start the server (what `python server.py` does)"),
    "check": ("Middleware.cli.check", "every problem of a configuration tree, with its remedy"),
    "conversation": ("Middleware.cli.conversation", "talk to a durable conversation"),
    "worker": ("Middleware.cli.worker", "work on durable conversations, without doors"),
    "run": ("Middleware.cli.run", "one run of a workflow in the terminal"),
    "runs": ("Middleware.cli.runs", "what has run: a list, or one run with its steps"),
    "test-workflow": ("Middleware.cli.workflow_tests", "run tests of workflows, without models"),
    "schema": ("Middleware.cli.schema", "write the JSON Schemas of all kinds of files"),
    "docs": ("Middleware.cli.docs", "write the reference pages of the documentation"),
}


def nearest_command(word: str, known: Iterable[str]) -> str | None:
    """The command that was probably meant by a word that is none."""
    from difflib import get_close_matches  # slow to import, and needed for mistakes only

    close = get_close_matches(word.lower(), list(known), n=1)
    return close[0] if close else None
