"""Signals that ask a process to end: Ctrl-C, ``kill``, and a terminal that was closed."""

import signal
from collections.abc import Callable
from types import FrameType

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


def when_asked_to_end(handler: Callable[[int, FrameType | None], None]) -> None:
    """Call ``handler`` for each of them from now on. Main thread only."""
    for name in _ENDING:
        # Not every system has all of them.
        number = getattr(signal, name, None)
        if number is not None and not _is_waved_off(name, number):
            signal.signal(number, handler)


def _is_waved_off(name: str, number: int) -> bool:
    """`nohup` says that the end of the terminal is not ours."""
    return name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN
