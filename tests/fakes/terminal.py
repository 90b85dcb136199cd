"""Commands of ``python -m Middleware`` as a person starts them: processes of their own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE_SECONDS = 30


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


def command(*words: str | Path, **environ: str) -> Ran:
    """Run one to its end. A terminal of 120 columns is pretended."""
    with started(*words, **environ) as process:
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
    return Ran(process.returncode, out, err)


def started(*words: str | Path, **environ: str) -> "subprocess.Popen[Any]":
    return subprocess.Popen(
        [sys.executable, "-m", "Middleware", *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "120", "PYTHONIOENCODING": "utf-8", **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
