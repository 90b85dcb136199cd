"""What `run` shows: the answer where answers go, and the steps beside it."""

from collections.abc import Callable
from typing import Any, TextIO

from Middleware.cli.screen import hanging, shortened, width_of
from Middleware.runs.recorder import RunRecord, Silent, StepRecord
from Middleware.workflows.managers.request_runner import ENTRY_WORKFLOW

_NO_TERMINAL = 160
"""Characters of a step's line where no screen tells how many there are."""
_LEAST_SHOWN = 20
"""Characters of an output that are shown however narrow the terminal is."""


class AnswerOutput:
    """Where the answer goes as it comes. On a screen that it shares with the steps, a step begins
    a line of its own."""

    def __init__(self, out: TextIO, *, shares_screen: bool) -> None:
        self._out = out
        self._shares_screen = shares_screen
        self._is_open = False

    def write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self._is_open = not text.endswith("\n")

    def make_room(self) -> None:
        """Called before a step is told."""
        if self._shares_screen:
            self.end_line()

    def end_line(self) -> None:
        if self._is_open:
            self.write("\n")


class TerminalRecorder(Silent):
    """Tells of every run and step, a sub-workflow's further in."""

    def __init__(self, out: TextIO, make_room: Callable[[], None]) -> None:
        self._out = out
        self._make_room = make_room
        self._depth = 0

    def make_way(self) -> None:
        """Called before a piece of the answer is shown."""

    def close(self) -> None:
        """Nothing more will be shown."""

    def run_started(self, run: RunRecord) -> None:
        self.say(f"> {name_of(run.to_dict())}")
        self._depth += 1

    def step_finished(self, run: RunRecord, step: StepRecord) -> None:
        told: dict[str, Any] = step.to_dict()
        said = " ".join((told["outputData"]["content"] or "").split())
        head = f"{head_of(told)}: "
        left = (width_of(self._out) or _NO_TERMINAL) - 2 * self._depth - len(head)
        self.say(head + shortened(said, max(left - 1, _LEAST_SHOWN)))
        self._say_error(told)

    def run_finished(self, run: RunRecord) -> None:
        self._depth -= 1
        told = run.to_dict()
        self.say(f"< {name_of(told)} {told['status']}, {told['durationMs'] / 1000:.2f} s")

    def _say_error(self, step: dict[str, Any]) -> None:
        for line in hanging("! ", step["meta"].get("error") or "", self._room()):
            if line != "!":
                self.say(line)

    def _room(self) -> int | None:
        """Columns that a line may have."""
        width = width_of(self._out)
        return None if width is None else width - 2 * self._depth - 1

    def say(self, text: str) -> None:
        self._make_room()
        self._out.write(f"{'  ' * self._depth}{text}".rstrip() + "\n")
        self._out.flush()


def head_of(step: dict[str, Any]) -> str:
    """Which node it was, on which endpoint, and how long it took."""
    meta = step["meta"]
    endpoint = f" on {meta['endpoint']}" if meta.get("endpoint") else ""
    seconds = (step["processingTimeMs"] or 0) / 1000
    title = meta.get("title") or step["nodeName"]
    return f"{title} ({meta['module_type']}{endpoint}, {seconds:.2f} s)"


def name_of(run: dict[str, Any]) -> str:
    """As one would name it to this command."""
    folder, workflow = str(run["folder"] or ""), str(run["workflow"])
    if workflow == ENTRY_WORKFLOW and folder:
        return folder.rpartition("/")[2]
    return f"{folder}/{workflow}" if folder else workflow
