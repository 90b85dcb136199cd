"""The only place that turns a name from a file or a client into a place below a folder.

Names are never handed to the file system to be joined by it: they are taken apart here, and
``lookup`` then finds each part in the listing of its folder.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

_LONGEST_NAME = 1024
_LONGEST_PART_BYTES = 240
"""File systems allow 255; a suffix and a temporary name have to fit too."""
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?\Z")
_DRIVE = re.compile(r"[A-Za-z]:")


class UnsafeName(ValueError):
    """A name that cannot be a place below a folder. The text completes "The name …"."""


def is_plain_name(name: str) -> bool:
    """Whether ``name`` is one ordinary part: nothing that could lead elsewhere on any system.

    Spaces, emoji and every alphabet are fine. This is the rule for what clients send.
    """
    return (
        0 < len(name.encode("utf-8", "replace")) <= _LONGEST_PART_BYTES
        and name not in (".", "..")
        and not any(sign in "/\\:" or ord(sign) < 32 or ord(sign) == 127 for sign in name)
        and not _DEVICES.match(name)
        and name == name.rstrip(" .")
    )


def parts_of(*names: str) -> tuple[str, ...]:
    """The parts of a name below a root; several names are put behind each other.

    ``/`` and ``\\`` separate. ``..`` goes up, but never above the root. Raises
    :class:`UnsafeName`.
    """
    parts: list[str] = []
    last: list[str] = []
    for name in names:
        last = _split(name)
        for part in last:
            if part != "..":
                parts.append(part)
            elif parts:
                parts.pop()
            else:
                raise UnsafeName("leads out of its folder")
    if not last or last[-1] == "..":
        raise UnsafeName("is empty")
    return tuple(parts)


def _split(name: str) -> list[str]:
    if len(name) > _LONGEST_NAME:
        raise UnsafeName("is too long")
    if any(ord(sign) < 32 for sign in name):
        raise UnsafeName("holds a character that no file name has")
    if name.startswith(("/", "\\")) or _DRIVE.match(name):
        raise UnsafeName("is an absolute path")
    parts = [part for part in re.split(r"[/\\]", name) if part not in ("", ".")]
    if any(len(part.encode("utf-8", "replace")) > _LONGEST_PART_BYTES for part in parts):
        raise UnsafeName("is too long")
    return parts


def is_inside(path: Path, roots: Iterable[Path]) -> bool:
    """Whether ``path``, with every link followed, lies below one of ``roots``."""
    real = os.path.realpath(path)
    for root in roots:
        base = os.path.realpath(root)
        if real == base or real.startswith(base.rstrip(os.sep) + os.sep):
            return True
    return False
