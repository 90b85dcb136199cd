"""`run --trace`: of every step what went in and what came out, and a line while it works."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from Middleware.cli.run_output import TerminalRecorder, head_of
from Middleware.cli.screen import hanging, shortened, width_of
from Middleware.runs.recorder import RunRecord, StepRecord

_TICK_SECONDS = 0.2


class ProgressLine:
    """On a terminal a line that is rewritten until something else is shown; nothing elsewhere."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._text = ""
        self._since = 0.0
        self._width = 0
        self._closed = False

    def show(self, text: str) -> None:
        if not self._is_terminal:
            return
        with self._lock:
            self._text, self._since = text, time.monotonic()
            self._draw()
        if self._thread is None:
            self._thread = threading.Thread(target=self._tick, daemon=True)
            self._thread.start()

    def hide(self) -> None:
        with self._lock:
            if self._width:
                self._out.write("\r" + " " * self._width + "\r")
                self._out.flush()
            self._text, self._width = "", 0

    def close(self) -> None:
        self.hide()
        self._closed = True
        self._wake.set()

    def _tick(self) -> None:
        while not self._wake.wait(_TICK_SECONDS):
            with self._lock:
                if self._text and not self._closed:
                    self._draw()

    def _draw(self) -> None:
        text = f"{self._text} {time.monotonic() - self._since:.1f} s"
        text = shortened(text, (width_of(self._out) or 80) - 1)
        self._out.write("\r" + text.ljust(self._width))
        self._out.flush()
        self._width = len(text)


class TraceRecorder(TerminalRecorder):
    """Tells everything that the run log keeps."""

    def __init__(self, out: TextIO, make_room: Callable[[], None]) -> None:
        super().__init__(out, make_room)
        self._progress = ProgressLine(out)

    def make_way(self) -> None:
        self._progress.hide()

    def close(self) -> None:
        self._progress.close()

    def step_started(self, run: RunRecord, node_id: str) -> None:
        self._make_room()
        self._progress.show(f"{'  ' * self._depth}... {node_id}")

    def step_finished(self, run: RunRecord, step: StepRecord) -> None:
        told = step.to_dict()
        self.say(head_of(told))
        self._say_error(told)
        room = self._room()
        for line in details(told, room and room - 2):
            self.say(f"  {line}")

    def say(self, text: str) -> None:
        self._progress.hide()
        super().say(text)


def details(step: dict[str, Any], width: int | None = None) -> Iterator[str]:
    """Lines about a step as ``to_dict()`` gives it, none wider than ``width``."""
    meta = step["meta"]
    prompt = meta.get("resolvedPrompt")
    if isinstance(prompt, str):
        yield from hanging("prompt: ", prompt, width)
    for message in prompt if isinstance(prompt, list) else ():
        yield from hanging(f"{message['role']}: ", message["content"] or "", width)
    for name, value in (meta.get("changedGlobals") or {}).items():
        yield from hanging(f"global {name}: ", str(value), width)
    if meta.get("unknownPlaceholders"):
        names = ", ".join(f"{{{{{name}}}}}" for name in meta["unknownPlaceholders"])
        yield from hanging("unknown: ", names, width)
    if step["thinking"]:
        yield from hanging("thinking: ", step["thinking"], width)
    yield from hanging("output: ", step["outputData"]["content"] or "", width)
    numbers = ", ".join(_numbers(step))
    if numbers:
        yield from hanging("", numbers, width)


def _numbers(step: dict[str, Any]) -> Iterator[str]:
    meta = step["meta"]
    tokens = meta.get("tokens")
    if tokens:
        estimated = ", estimated" if tokens["estimated"] else ""
        yield f"{tokens['prompt']} + {tokens['completion']} tokens{estimated}"
    if step["cost"] is not None:
        yield f"cost {step['cost']:.6g}"
    if step["confidenceScore"] is not None:
        yield f"confidence {step['confidenceScore']:.2f}"
    if meta.get("firstTokenMs") is not None:
        yield f"first piece after {meta['firstTokenMs'] / 1000:.2f} s"
    if (meta.get("attempts") or 0) > 1:
        yield f"{meta['attempts']} attempts"
    if meta["next_route"] is not None:
        yield f"route {meta['next_route']}"
