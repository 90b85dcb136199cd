"""What is wrong with a file, in one form for the log, ``check``, ``/health`` and the editor."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from Middleware.core.errors import ConfigError

_LACKING = re.compile(r"there is no (\S+?)\.?(?: |$)")

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong. Texts never hold a secret, an address or a path of ours."""

    code: str
    """A key of ``check.CODES``."""
    severity: Severity
    file: str
    """Relative to the configuration folder; workflows begin with ``Workflows/``."""
    place: str = ""
    """``nodes[2].prompt``, or ``line 3, column 7``."""
    message: str
    remedy: str = ""
    using_last_good: bool = False
    """The file was good before, and what it said then is still in use."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form of decisions §7."""
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.file,
            "place": self.place,
            "message": self.message,
            "remedy": self.remedy,
            "usingLastGood": self.using_last_good,
        }

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.place) if part)
        return f"{where}: {self.message} {self.remedy}".strip()


def tally(problems: Sequence[Problem]) -> str:
    """``2 errors, 1 warning``."""
    errors = sum(problem.severity == "error" for problem in problems)
    counts = (("error", errors), ("warning", len(problems) - errors))
    return ", ".join(f"{n} {word}" if n == 1 else f"{n} {word}s" for word, n in counts)


def without_echoes(problems: Sequence[Problem]) -> list[Problem]:
    """Without problems of files that only name a file which is at fault itself, and is told so.

    One wrong address would else be told once more for each node that calls the endpoint.
    """
    told = {problem.file for problem in problems if problem.severity == "error"}
    told.update(
        file
        for problem in problems
        if problem.code == "missing_reference"
        for file in _LACKING.findall(problem.message)
    )

    def is_echo(problem: Problem) -> bool:
        named = problem.message.partition(": ")[0]
        return problem.code.startswith("missing_") and named != problem.file and named in told

    return [problem for problem in problems if not is_echo(problem)]


class BrokenFile(ConfigError):
    """A file that cannot be used, with everything that is wrong with it."""

    def __init__(self, problems: tuple[Problem, ...], *, detail: str | None = None) -> None:
        first, *others = problems
        text = first.message
        if others:
            more = " ".join(f"`{p.place}`: {p.message} {p.remedy}".strip() for p in others)
            text = f"{text} {first.remedy}".strip() + f" Also {more}"
        super().__init__(
            text,
            file=first.file,
            where=first.place,
            remedy="" if others else first.remedy,
            detail=detail,
        )
        self.problems = problems
