"""What was tried with a program, and how it went."""

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

PASSED, FAILED = "passed", "FAILED"
_LONGEST = 300


class NotInstalled(Exception):
    """A program cannot be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class Step:
    tried: str
    result: str
    """``passed``, ``FAILED: reason`` or ``not tried: reason``."""

    @property
    def failed(self) -> bool:
        return self.result.startswith(FAILED)


@dataclass(slots=True)
class Report:
    """The steps of one program. Each is told when it is over."""

    program: str
    version: str = ""
    steps: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, tried: str) -> Iterator[None]:
        """A failure inside is the step's result and ends nothing else."""
        try:
            yield
        # Whatever goes wrong with a program of others is a result.
        except Exception as error:  # noqa: BLE001
            if not isinstance(error, AssertionError):
                traceback.print_exc(file=sys.stderr)
            self.add(tried, f"{FAILED}: {type(error).__name__}: {error}")
        else:
            self.add(tried, PASSED)

    def add(self, tried: str, result: str) -> None:
        result = " ".join(result.split())[:_LONGEST]
        self.steps.append(Step(tried, result))
        sys.stdout.write(f"{self.program}: {tried}: {result}\n")
        sys.stdout.flush()


def wait_for(true: Callable[[], object], seconds: float, what: str) -> None:
    """Raises AssertionError when ``true`` does not come true in time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} seconds"
        time.sleep(0.1)


def holds(text: str, *wanted: str) -> None:
    """Raises AssertionError unless ``text`` holds each of ``wanted``."""
    for part in wanted:
        assert part in text, f"{part!r} is missing in: {text[-2000:]}"
