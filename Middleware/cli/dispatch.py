"""From the words after `python -m Middleware` to the command that they name."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from Middleware import __version__
from Middleware.cli.commands import COMMANDS, Command, nearest_command
from Middleware.core.errors import MiddlewareError

WRONG_USE = 2
INTERRUPTED = 128 + 2
READER_GONE = 128 + 13


class _Parser(argparse.ArgumentParser):
    """Says on a mistake what would have been right, not only how the program is used."""

    def __init__(self, commands: Mapping[str, Command]) -> None:
        width = max(map(len, commands), default=0)
        listed = "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in commands.items())
        super().__init__(
            prog="python -m Middleware",
            usage="%(prog)s [--help] [--version] COMMAND ...",
            description="Headrace: workflows between chat front ends and model servers.",
            epilog=f"commands:\n{listed}\n\n`COMMAND --help` tells the options of one.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument("--version", action="version", version=f"Headrace {__version__}")
        self.add_argument("command", metavar="COMMAND", help="one of the commands below")

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{message}\n\n{self.format_help()}")


def main(words: Sequence[str], commands: Mapping[str, Command] = COMMANDS) -> int:
    """Run the command and return its exit code. Nothing of it is imported before."""
    parser = _Parser(commands)
    # Only the first word is ours: the command reads the rest, whatever it looks like.
    name = parser.parse_args(words[:1]).command
    if name not in commands:
        near = nearest_command(name, commands)
        hint = f" Did you mean {near!r}?" if near else ""
        parser.error(f"There is no command {name!r}.{hint}")
    module, _ = commands[name]
    run: Callable[[Sequence[str]], int] = importlib.import_module(module).main
    return _exit_code(run, words[1:])


def _exit_code(run: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    try:
        code = run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `... | head` has read enough. Python would complain once more while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except MiddlewareError as error:
        # Whoever sits at the terminal owns the files, and may see what only the log sees elsewhere.
        print(error.message, *filter(None, [error.detail]), sep="\n", file=sys.stderr)
        return 1
    return code
