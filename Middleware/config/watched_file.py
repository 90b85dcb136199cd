"""One configuration file: read, parsed, and parsed again when it has changed."""

import hashlib
import logging
import os
import stat as stat_flags
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pydantic import ValidationError

from Middleware.config.paths import is_inside
from Middleware.config.problems import BrokenFile, Problem
from Middleware.config.syntax import parse_bytes
from Middleware.config.validation import problems_of
from Middleware.config.watch import SETTLED_SECONDS, Watched, changed_at, stamp_of
from Middleware.core.clock import Clock
from Middleware.core.errors import ConfigError

T = TypeVar("T")

logger = logging.getLogger(__name__)

_ATTEMPTS = 3
_ATTEMPT_SECONDS = 0.02
_BEING_WRITTEN_SECONDS = 0.1
_SLIPS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, slots=True)
class Source:
    """What a parse function may know of the file, and where it reports what is odd."""

    path: Path
    file: str
    """Relative to the configuration folder; what messages call the file."""
    digest: str
    """SHA-256 of the bytes, in hex."""
    reported: list[Problem] = field(default_factory=list, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return self.path.stem

    def report(self, problem: Problem) -> None:
        """Remember a problem of a file that can be used all the same."""
        self.reported.append(problem)


Parse = Callable[[Any, Source], T]
"""Raises ConfigError (best: BrokenFile) or pydantic's ValidationError. Must be a function of a
module, so that it is the same object at every call: values are kept by file and function."""


class Shows(Protocol):
    """What a file must know of the folders."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """No file outside of these is opened, whatever a link says."""
        ...

    def show(self, path: Path) -> str:
        """The name of a file in messages."""
        ...


@dataclass(frozen=True, slots=True)
class Loaded(Generic[T]):
    """A version of a file: what was made of it, and what is odd about it."""

    value: T
    problems: tuple[Problem, ...]


class WatchedFile(Watched[Loaded[T]]):
    """One file as one parse function sees it."""

    def __init__(self, path: Path, clock: Clock, folders: Shows, parse: Parse[T]) -> None:
        super().__init__(path, clock)
        self.failure: tuple[Problem, ...] = ()
        """What is wrong with the newest content; empty when that is the newest version."""
        self.gone = False
        self.used_at = float("-inf")
        """When a request last asked for it (monotonic)."""
        self._folders = folders
        self._parse = parse
        self._told_gone = False
        self._seen: tuple[int, ...] | None = None
        self._good_digest = self._bad_digest = ""

    @property
    def file(self) -> str:
        return self._folders.show(self.path)

    def use(self, now: float) -> None:
        """A request asks for it now (monotonic)."""
        self.used_at = now
        if self.gone and self.versions and not self._told_gone:
            # Only now is it sure that the file was not simply given another name.
            self._told_gone = True
            logger.error("%s What it said before stays in use", self.failure[0])

    def error(self) -> BrokenFile:
        """A fresh one each time: an error is told where in a run it happened."""
        return BrokenFile(self.failure, detail=str(self.path))

    def _look(self) -> None:
        try:
            self._seen = self._read_when_changed()
        except (FileNotFoundError, NotADirectoryError):
            self._seen, self.gone = None, True
            self._fail((self._problem("missing_file", "The file is gone.", "Put it back."),))
        except OSError as error:
            self._seen = None
            said = error.strerror or type(error).__name__
            remedy = "The server's user must be allowed to read it."
            message = f"The file cannot be read: {said}."
            self._fail((self._problem("unreadable_file", message, remedy),))

    def _read_when_changed(self) -> tuple[int, ...] | None:
        """The stamp to compare with next time; None when it cannot be trusted yet."""
        stat = self.path.stat()
        self.gone = self._told_gone = False
        if stamp_of(stat) == self._seen:
            return self._seen
        refused = self._refusal(stat)
        if refused:
            self._fail((refused,))
            return None
        for left in reversed(range(_ATTEMPTS)):
            data, stat, torn = self._read()
            broken = self._take(data, changed_at(stat))
            if broken is None and not torn:
                break
            # An editor that writes into the file leaves it broken for some milliseconds.
            fresh = self._clock.timestamp() - stat.st_mtime < _BEING_WRITTEN_SECONDS
            if left and (torn or fresh):
                time.sleep(_ATTEMPT_SECONDS)
            elif broken is not None:
                self._fail(broken.problems, hashlib.sha256(data).hexdigest())
                break
        settled = self._clock.timestamp() - changed_at(stat) > SETTLED_SECONDS
        return stamp_of(stat) if settled and not self._may_pass else None

    @property
    def _may_pass(self) -> bool:
        """Whether the same content may be good later: a variable of the environment is lacking."""
        return any(problem.code == "missing_variable" for problem in self.failure)

    def _refusal(self, stat: os.stat_result) -> Problem | None:
        if not stat_flags.S_ISREG(stat.st_mode):
            return self._problem("unreadable_file", "This is no ordinary file.", "")
        if not is_inside(self.path, self._folders.roots):
            message = "A link leads out of the configuration folder."
            remedy = "Put the file itself there, or start the server with the other folder."
            return self._problem("outside_folder", message, remedy)
        return None

    def _read(self) -> tuple[bytes, os.stat_result, bool]:
        """The bytes, the state they belong to, and whether they changed while being read."""
        with self.path.open("rb") as handle:
            before = os.fstat(handle.fileno())
            data = handle.read()
            after = os.fstat(handle.fileno())
        return data, after, stamp_of(before) != stamp_of(after) or len(data) != after.st_size

    def _take(self, data: bytes, changed: float) -> BrokenFile | None:
        """Make the content the newest version, unless it is known already or broken."""
        digest = hashlib.sha256(data).hexdigest()
        if self.versions and digest == self._good_digest:
            self._succeed()
            return None
        if self.failure and digest == self._bad_digest and not self._may_pass:
            return None
        source = Source(self.path, self.file, digest)
        try:
            raw, odd = parse_bytes(data, source.file)
            value = self._parse(raw, source)
        except BrokenFile as error:
            return error
        except ConfigError as error:
            return BrokenFile((_problem_of(error, source.file),), detail=error.detail)
        except ValidationError as error:
            return BrokenFile(problems_of(error, source.file))
        except _SLIPS as error:
            # A parse function that stumbles over an odd file must not stop who has a good one.
            logger.exception("Configuration file %s was not understood", source.file)
            message = f"The file is not understood ({type(error).__name__})."
            return BrokenFile((self._problem("invalid_value", message, "Undo the last edit."),))
        problems = (*odd, *source.reported)
        if self.versions:
            logger.info("Configuration file %s was edited and is read again", source.file)
            for problem in problems:
                logger.warning("%s", problem)
        self._good_digest = digest
        self._add(Loaded(value, problems), changed)
        self._succeed()
        return None

    def _succeed(self) -> None:
        if self.failure:
            self.failure = ()
            self.changes += 1
            logger.info("Configuration file %s is in order again", self.file)

    def _fail(self, problems: tuple[Problem, ...], digest: str = "") -> None:
        """Remember, and say so once: the log is not filled by what nobody mends.

        ``digest`` is that of the content at fault, so that it is not parsed again.
        """
        self._bad_digest = digest
        good = bool(self.versions)
        problems = tuple(replace(problem, using_last_good=good) for problem in problems)
        if problems == self.failure:
            return
        self.failure = problems
        self.changes += 1
        if good and not self.gone:
            for problem in problems:
                logger.error("%s What it said before stays in use", problem)

    def _problem(self, code: str, message: str, remedy: str) -> Problem:
        return Problem(code=code, severity="error", file=self.file, message=message, remedy=remedy)


def _problem_of(error: ConfigError, file: str) -> Problem:
    return Problem(
        code="invalid_value",
        severity="error",
        file=error.file or file,
        place=error.where or "",
        message=error.problem,
        remedy=error.remedy,
    )
