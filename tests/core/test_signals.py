import signal
import subprocess
import sys

import pytest

ASKS_TWICE = """
import signal
from Middleware.core.signals import when_asked_to_end

signal.signal(signal.SIGHUP, signal.{before})
when_asked_to_end(lambda number, _: print(signal.Signals(number).name))
signal.raise_signal(signal.SIGHUP)
signal.raise_signal(signal.SIGTERM)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no terminals that hang up")
@pytest.mark.parametrize(
    ("before", "told"), [("SIG_DFL", ["SIGHUP", "SIGTERM"]), ("SIG_IGN", ["SIGTERM"])]
)
def test_a_closed_terminal_ends_what_nohup_does_not_hold(before: str, told: list[str]) -> None:
    """In a process of its own, whose handlers are nobody else's."""
    code = ASKS_TWICE.format(before=before)

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == told
