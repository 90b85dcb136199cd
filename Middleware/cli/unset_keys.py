"""Keys that are not set, where nobody is called: tests on a build server need none."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from Middleware.config.syntax import SUFFIXES

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FOLDERS = ("Endpoints", "Users")
_UNUSED = "not-set-and-not-used"


@contextmanager
def unset_keys_filled_in(configs: Path) -> Iterator[None]:
    """Inside, every variable that a user or an endpoint names is set; the files load.

    Changes the environment of the process: for commands, not for servers.
    """
    lacking = sorted(name for name in _named(configs) if not os.environ.get(name))
    os.environ.update(dict.fromkeys(lacking, _UNUSED))
    try:
        yield
    finally:
        for name in lacking:
            del os.environ[name]


def _named(configs: Path) -> set[str]:
    names: set[str] = set()
    for folder in _FOLDERS:
        for path in (configs / folder).rglob("*"):
            if path.suffix in SUFFIXES and path.is_file():
                names.update(_VARIABLE.findall(path.read_text("utf-8", errors="replace")))
    return names
