"""What `run` shows: the answer where answers go, and the steps beside it."""

import shutil
from collections.abc import Callable
from typing import Any, TextIO

from Middleware.runs.recorder import RunRecord, Silent, StepRecord
from Middleware.workflows.managers.request_runner import ENTRY_WORKFLOW

_NO_TERMINAL = (160, 24)
"""Columns and lines where nothing tells how many there are."""
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
        meta = told["meta"]
        title = meta.get("title") or told["nodeName"]
        said = " ".join((told["outputData"]["content"] or "").split())
        endpoint = f" on {meta['endpoint']}" if meta.get("endpoint") else ""
        seconds = (told["processingTimeMs"] or 0) / 1000
        head = f"{title} ({meta['module_type']}{endpoint}, {seconds:.2f} s): "
        left = shutil.get_terminal_size(_NO_TERMINAL).columns - 2 * self._depth - len(head)
        self.say(head + shortened(said, max(left - 1, _LEAST_SHOWN)))
        if meta.get("error"):
            self.say(f"! {meta['error']}")

    def run_finished(self, run: RunRecord) -> None:
        self._depth -= 1
        told = run.to_dict()
        self.say(f"< {name_of(told)} {told['status']}, {told['durationMs'] / 1000:.2f} s")

    def say(self, text: str) -> None:
        self._make_room()
        self._out.write(f"{'  ' * self._depth}{text}\n")
        self._out.flush()


def name_of(run: dict[str, Any]) -> str:
    """As one would name it to this command."""
    folder, workflow = str(run["folder"] or ""), str(run["workflow"])
    if workflow == ENTRY_WORKFLOW and folder:
        return folder.rpartition("/")[2]
    return f"{folder}/{workflow}" if folder else workflow


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
