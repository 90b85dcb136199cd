"""A program that takes its time, behind one line that shows that it does. Standard library only."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

LOOKS_EVERY_SECONDS = 0.2
SPEAKS_EVERY_SECONDS = 10.0
_NAME = re.compile(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`keeps_open` are file numbers that stay open in it, and in it alone, should we be ended."""

    command: Sequence[str]
    folder: Path
    environ: Mapping[str, str]
    keeps_open: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    said: str


@dataclass(slots=True, kw_only=True)
class Progress:
    """On a terminal the line is rewritten; elsewhere one is added now and then."""

    title: str
    packages: int = 0
    has_begun_to_change: bool = False
    _found: set[str] = field(default_factory=set)
    _detail: str = ""
    _began: float = field(default_factory=time.monotonic)
    _width: int = 0

    def read(self, line: str) -> None:
        """Take a line of pip's into account."""
        if found := _NAME.match(line):
            self._found.add(found[1].lower().replace("_", "-"))
            count = min(len(self._found), self.packages)
            self._detail = f", {count} of {self.packages} packages found"
        elif line.startswith("Installing collected packages"):
            self.has_begun_to_change = True
            self._detail = ", unpacking"

    def show(self, done: Event) -> None:
        """Keep the line fresh until it is done."""
        spoke = self._began
        self._say(self.title)
        while not done.wait(LOOKS_EVERY_SECONDS):
            now = time.monotonic()
            if sys.stderr.isatty() or now - spoke >= SPEAKS_EVERY_SECONDS:
                self._say(f"{self.title}{self._detail}, {now - self._began:.0f} s")
                spoke = now

    def end(self, how: str) -> None:
        self._say(f"{self.title}: {how} after {time.monotonic() - self._began:.0f} s")
        if sys.stderr.isatty():
            print(file=sys.stderr, flush=True)

    def _say(self, text: str) -> None:
        if not sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)
            return
        text = text[: shutil.get_terminal_size().columns - 1]
        print("\r" + text.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = len(text)


def follow(program: Program, progress: Progress) -> Ended:
    """Run it to its end. What it says is kept back; who needs to know gets it whole."""
    said: list[str] = []
    done = Event()
    line_keeper = Thread(target=progress.show, args=(done,), daemon=True)
    with subprocess.Popen(
        program.command,
        cwd=program.folder,
        env=program.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        pass_fds=program.keeps_open,
    ) as child:
        line_keeper.start()
        try:
            for line in child.stdout or ():
                said.append(line)
                progress.read(line)
        except BaseException:
            child.terminate()
            raise
        finally:
            done.set()
            line_keeper.join()
    progress.end("failed" if child.returncode else "done")
    return Ended(child.returncode, "".join(said))
