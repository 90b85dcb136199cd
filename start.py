#!/usr/bin/env python3
"""Start Headrace: make `.venv` beside this file, install what is needed, and hand over to it.

    python3 start.py [server options]        the server
    python3 start.py test [pytest options]   every check there is
    python3 start.py COMMAND ...             a command of `python -m Middleware`

Standard library only. A Python that is too old must get as far as `wrong_python`, so that it can
say so: no newer syntax in this file, and above the call no annotation that is looked at. The rest
is imported below it, and where it is used, because a second start should cost next to nothing.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 13)
ROOT = Path(__file__).resolve().parent
FAILED, WRONG_USE, INTERRUPTED = 1, 2, 128 + 2


def wrong_python(version: "tuple[int, ...]") -> str:
    """What to tell whoever uses a Python that is too old; empty when this one will do."""
    if version[:2] >= OLDEST:
        return ""
    newer = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    better = [name for name in newer if _works(name)]
    if better:
        remedy = f"There is a newer one: {better[0]} start.py"
    else:
        remedy = "Install one: https://www.python.org/downloads/ or your package manager."
    this = f"Python {version[0]}.{version[1]}, {sys.executable}"
    return f"Headrace needs Python 3.11, 3.12 or 3.13. This is {this}.\n{remedy}"


def _works(python: str) -> bool:
    """Whether it is there and starts: version managers leave stand-ins that do not."""
    import shutil
    import subprocess

    path = shutil.which(python)
    silent = subprocess.DEVNULL
    return bool(path) and subprocess.call([str(path), "-c", ""], stdout=silent, stderr=silent) == 0


if __name__ == "__main__" and wrong_python(sys.version_info[:2]):
    sys.exit(wrong_python(sys.version_info[:2]))


def main(words: Sequence[str]) -> int:
    """Hand over to what was asked for. Returns only where nothing replaces this program."""
    from Middleware.cli.environment import CannotStart, Environment

    if _is_unknown(words):
        print(_unknown(words[0]), file=sys.stderr)
        return WRONG_USE
    first = words[0] if words else ""
    if first in ("-h", "--help"):
        print(usage(), flush=True)
    requirements, arguments = plan(words)
    environment = Environment(ROOT)
    try:
        if not environment.is_ready(requirements):
            environment.prepare(requirements)
    except CannotStart as error:
        print(error, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("\nInterrupted. The next start does what is missing.", file=sys.stderr)
        return INTERRUPTED
    if first == "test":
        os.chdir(ROOT)
    return hand_over([str(environment.python), *arguments])


def plan(words: Sequence[str]) -> tuple[str, list[str]]:
    """Which requirements the words need, and what the environment's Python is then given."""
    from Middleware.cli.commands import COMMANDS
    from Middleware.cli.environment import DEVELOPMENT, RUNTIME

    first = words[0] if words else ""
    if first == "test":
        return DEVELOPMENT, ["-m", "pytest", *test_options(words[1:])]
    if first in COMMANDS:
        # Without -P another `Middleware` in the current folder would be taken for ours.
        return RUNTIME, ["-P", "-m", "Middleware", *words]
    return RUNTIME, [str(ROOT / "server.py"), *words]


def test_options(options: Sequence[str]) -> list[str]:
    """All cores, unless the options say how many or name single tests."""
    chosen = any(option.startswith(("-n", "--numprocesses")) for option in options)
    if chosen or "no:xdist" in options or any("::" in option for option in options):
        return [*options]
    return ["-n", "auto", "--maxprocesses", "8", "--dist", "worksteal", *options]


def _is_unknown(words: Sequence[str]) -> bool:
    """Neither a command nor an option nor a configuration folder, which servers take as well."""
    from Middleware.cli.commands import COMMANDS

    if not words or words[0] == "test" or words[0] in COMMANDS:
        return False
    looks_like_a_path = not words[0].strip() or words[0][0] in "-.~" or {"/", "\\"} & {*words[0]}
    return not looks_like_a_path and not Path(words[0]).exists()


def _unknown(word: str) -> str:
    from Middleware.cli.commands import COMMANDS, nearest_command

    near = nearest_command(word, ["test", *COMMANDS])
    hint = f" Did you mean {near!r}?" if near else ""
    return f"There is no command and no folder {word!r}.{hint}\n\n{usage()}"


def usage() -> str:
    from Middleware.cli.commands import COMMANDS

    shown = {"test": "run every check there is (options: those of pytest)"}
    shown.update((name, text) for name, (_, text) in COMMANDS.items())
    width = max(map(len, shown))
    commands = "\n".join(f"  {name:<{width}}  {text}" for name, text in shown.items())
    return (
        "usage: python3 start.py [server options]\n"
        "       python3 start.py COMMAND ...\n\n"
        f"commands:\n{commands}\n"
    )


def hand_over(command: Sequence[str]) -> int:
    """Become the command where the system can, so that signals and the exit code are its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.platform == "win32":
        return run_as_child(command)
    os.execv(command[0], [*command])


def run_as_child(command: Sequence[str]) -> int:
    import subprocess

    child = subprocess.Popen(command)
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            continue  # The console has told the child too, and how it ends is its own affair.


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
