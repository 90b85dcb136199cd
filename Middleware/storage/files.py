"""Files that the server writes: whole or not at all; and reading that forgives old encodings."""

import contextlib
import errno
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

PRIVATE = 0o600
"""The mode of what is remembered of conversations."""


def require_ordinary(path: Path) -> None:
    """Raises OSError for a device or a pipe: reading it may never end, and a new file would take
    its place for every program."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))


def write_atomically(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Put ``data`` in place of ``path``; a reader sees the old bytes or the new ones.

    Folders are made. An existing file keeps its mode unless ``mode`` is given; a link stays a
    link; what is no ordinary file is refused. Raises OSError and leaves nothing behind.
    """
    # The link's target is replaced, not the link.
    target = Path(os.path.realpath(path))
    require_ordinary(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode or 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is None:
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def decode_text(data: bytes) -> str:
    """UTF-8, with or without a mark at its beginning. What is none is taken as the old Western
    code page, in which every byte means something."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def read_text(path: Path) -> str:
    """The text of a file, whatever system wrote its line ends. Raises OSError."""
    text = decode_text(path.read_bytes())
    return text.replace("\r\n", "\n").replace("\r", "\n")


def find_in_any_case(path: Path) -> Path | None:
    """``path`` if it is there, else a file in the same folder whose name differs in case only."""
    if path.is_file():
        return path
    wanted = path.name.lower()
    try:
        names = sorted(entry.name for entry in os.scandir(path.parent))
    except OSError:
        return None
    for name in names:
        if name.lower() == wanted and path.with_name(name).is_file():
            return path.with_name(name)
    return None


class _PathLock:
    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class PathLocks:
    """Lets one thread at a time change what stands at a path."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[str, _PathLock] = WeakValueDictionary()
        self._guard = threading.Lock()

    @contextmanager
    def hold(self, path: Path) -> Iterator[None]:
        """Wait for the path, and keep others waiting while the block runs."""
        # The entry lives as long as somebody refers to it.
        entry = self._of(path)
        with entry.lock:
            yield

    @contextmanager
    def try_hold(self, path: Path) -> Iterator[bool]:
        """As :meth:`hold`, without waiting: tells whether the path was free."""
        entry = self._of(path)
        free = entry.lock.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                entry.lock.release()

    def _of(self, path: Path) -> _PathLock:
        name = os.path.realpath(path)
        with self._guard:
            entry = self._known.get(name)
            if entry is None:
                entry = self._known[name] = _PathLock()
            return entry
