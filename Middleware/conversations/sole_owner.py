"""Proof that no other process uses an SQLite file: a lock beside it (REPAIR-7)."""

import contextlib
import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


class SoleOwner:
    """Every process that works on the file shares the lock; one that can have it for itself is
    the only one. Where files cannot be locked like that, nobody is.
    """

    def __init__(self, file: Path | None) -> None:
        self._handle: int | None = None
        if file is None or sys.platform == "win32":
            return
        with contextlib.suppress(OSError):
            path = file.with_name(file.name + ".lock")
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def is_proved(self) -> bool:
        return self._lock(exclusive=True)

    def share(self) -> None:
        """Let others in, and let them see that they are not alone."""
        self._lock(exclusive=False)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _lock(self, *, exclusive: bool) -> bool:
        if self._handle is None or sys.platform == "win32":
            return False
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            fcntl.flock(self._handle, kind | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
