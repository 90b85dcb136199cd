"""The folder and the files of one discussion id, in the formats that exist (memory-and-state §2).

Reading never creates anything (Surprise 23). One lock a folder is held while a file is changed,
so that two requests of one conversation do not undo each other's work (Surprise 7).
"""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Middleware.core.errors import ConfigError
from Middleware.storage.encryption import Cipher, Unreadable, key_hash
from Middleware.storage.files import PRIVATE, PathLocks, find_in_any_case, write_atomically

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscussionKey:
    """Whose discussions: without a key everyone shares a folder."""

    api_key: str | None = field(default=None, repr=False)
    user: str = ""
    encrypts: bool = False
    """The user's ``encryptUsingApiKey``; without a key nothing can be encrypted."""

    @property
    def cipher(self) -> Cipher | None:
        return Cipher(self.api_key, self.user) if self.api_key and self.encrypts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscussionRoot:
    """Where discussions lie, and where those of older installations may still lie."""

    path: Path
    legacy: Path | None = None
    locks: PathLocks = field(default_factory=PathLocks, repr=False, compare=False)
    """Shared by everyone in the process who changes files below."""

    def folder(self, discussion_id: str, key: DiscussionKey) -> "DiscussionFolder":
        """The folder of an id; it need not exist. Raises ConfigError for an id that is no plain
        name, which the doors have refused long before.
        """
        if not _is_plain(discussion_id):
            raise ConfigError(f"The discussion id {discussion_id[:80]!r} is no plain name.")
        if key.encrypts and not key.api_key:
            logger.warning(
                "encryptUsingApiKey is on, but a request for user %r has no key: what it stores "
                "is plain text",
                key.user,
            )
        below = (key_hash(key.api_key),) if key.api_key else ()
        path = self.path.joinpath(*below, discussion_id)
        old = self.legacy.joinpath(*below, discussion_id) if self.legacy else None
        if old is not None and not path.exists() and old.is_dir():
            path = old
        flat = None if key.api_key else self.path / f"{discussion_id}_"
        return DiscussionFolder(path=path, flat=flat, cipher=key.cipher, locks=self.locks)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscussionFolder:
    """The files of one discussion."""

    path: Path
    flat: Path | None = None
    """Beginning of the file names of installations that had no folders."""
    cipher: Cipher | None = None
    locks: PathLocks = field(default_factory=PathLocks, repr=False, compare=False)

    def file(self, name: str) -> Path:
        """Where ``name`` lies: in the folder, or where an older installation put it."""
        nested = find_in_any_case(self.path / name)
        if nested is not None:
            return nested
        if self.flat is not None:
            old = self.flat.with_name(self.flat.name + name)
            if old.is_file():
                return old
        return self.path / name

    def read_list(self, name: str) -> list[Any]:
        """What a list file holds; a missing one is empty. Raises ConfigError for another type."""
        value: list[Any] = self._read(name, list)
        return value

    def read_object(self, name: str) -> dict[str, Any]:
        """As :meth:`read_list`, for files that hold an object."""
        value: dict[str, Any] = self._read(name, dict)
        return value

    def write(self, name: str, value: Any) -> None:
        """Put a value in place of the file. Raises OSError."""
        data = json.dumps(value, indent=4).encode()
        if self.cipher is not None:
            data = self.cipher.encrypt(data)
        write_atomically(self.file(name), data, mode=PRIVATE)

    def update_object(self, name: str, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change the newest version of an object file while nobody else does."""
        with self.locks.hold(self.path):
            value = self.read_object(name)
            change(value)
            self.write(name, value)

    def _read(self, name: str, kind: Callable[[], Any]) -> Any:
        path = self.file(name)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return kind()
        value = self._parse(data, name)
        if type(value) is not kind:
            raise ConfigError(f"The file {name} of this conversation does not hold what it should.")
        return value

    def _parse(self, data: bytes, name: str) -> Any:
        if self.cipher is not None:
            try:
                return json.loads(self.cipher.decrypt(data))
            except (Unreadable, ValueError):
                # Written before encryption was turned on: encrypted when it is written next.
                pass
        try:
            return json.loads(data)
        except ValueError as error:
            raise ConfigError(
                f"The file {name} of this conversation cannot be read.",
                remedy="Was it encrypted for another key or user, or encryption turned off since?",
            ) from error


def _is_plain(name: str) -> bool:
    return bool(name) and name not in (".", "..") and not any(sign in "/\\:\0" for sign in name)
