"""Which processes live: each keeps a file of its own locked, and the system lets go of it."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Final

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_FOLDER: Final = ".alive"


class Alive:
    """This process, and what it can find out about others that use the same folder."""

    def __init__(self, folder: Path, session: str) -> None:
        """Raises OSError when the folder cannot be written to."""
        self._folder = folder / _FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)
        self._mine = self._folder / session
        self._handle: int | None = os.open(self._mine, os.O_RDWR | os.O_CREAT, 0o600)
        _lock(self._handle)

    def lives(self, session: str) -> bool:
        """Whether a process of that name still runs. One that never said so does not."""
        if session != Path(session).name:
            return False
        path = self._folder / session
        try:
            handle = os.open(path, os.O_RDWR)
        except OSError:
            return False
        try:
            dead = _lock(handle)
        finally:
            os.close(handle)
        if dead:
            path.unlink(missing_ok=True)
        return not dead

    def renew(self) -> None:
        """Nothing to do: the system keeps the lock while the process lives."""

    def close(self) -> None:
        """Say that this process is gone."""
        if self._handle is not None:
            self._mine.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None


def _lock(handle: int) -> bool:
    """Take the file if nobody has it."""
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
