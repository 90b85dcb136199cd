"""A command of `python -m Middleware` that does as it is told."""

import sys
from collections.abc import Sequence

from Middleware.core.errors import ConfigError


def main(arguments: Sequence[str]) -> int:
    match arguments:
        case ["exit", code]:
            return int(code)
        case ["interrupt"]:
            raise KeyboardInterrupt
        case ["fail"]:
            raise ConfigError("Users/x.json: no such file.", detail="/srv/Users/x.json")
        case ["print much"]:
            sys.stdout.writelines(f"{number}\n" for number in range(1_000_000))
        case _:
            sys.stdout.write(f"{arguments}\n")
    return 0
