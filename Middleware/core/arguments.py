"""Reading options of the command line: one that does not exist gets the nearest that does."""

import argparse
from collections.abc import Sequence
from typing import Any

from Middleware.core.registry import nearest


class OptionParser(argparse.ArgumentParser):
    """Takes no abbreviations, so that a new option never changes what an old script means."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def parse_args(  # type: ignore[override]  # the overloads for foreign namespaces are unused
        self, args: Sequence[str] | None = None
    ) -> argparse.Namespace:
        """Exits with status 2 and a message that names what was not understood."""
        given, rest = self.parse_known_args(args)
        if rest:
            self.error(" ".join(self._unknown(rest)))
        return given

    def _unknown(self, rest: Sequence[str]) -> list[str]:
        options = [word for word in rest if word.startswith("-")]
        if not options:
            return [f"There are words too many: {' '.join(rest)}."]
        word = options[0].partition("=")[0]
        near = nearest(word, list(self._option_string_actions))
        return [
            f"There is no option {word!r}.",
            f"Did you mean {near!r}?" if near else "--help lists all.",
        ]
