"""Runs `Invoke` of a script (nodes §15). Scripts run in this process, with all its rights.

A script reports a failure of its own by raising :class:`ScriptError`:

    from Middleware.tools.python_module import ScriptError

    def Invoke(*args, **kwargs):
        raise ScriptError("no such customer", module_name="customers", details={"id": args[0]})
"""

import itertools
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import WorkflowError
from Middleware.tools.scripts import Stopped, described, run_script, showable

logger = logging.getLogger(__name__)

FUNCTION = "Invoke"
_NUMBERS = itertools.count(1)


class ScriptError(Exception):
    """Raised by a script to say what went wrong: the workflow goes on with that as text."""

    def __init__(self, message: str, module_name: str | None = None, details: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.module_name = module_name
        self.details = details


def find_script(name: str, install: Path) -> Path:
    """Relative names are looked for in the working directory, then in the install folder.

    Raises WorkflowError when there is no such file.
    """
    try:
        path = Path(name).expanduser()
        places = (path,) if path.is_absolute() else (Path.cwd() / path, install / path)
        for place in places:
            if place.is_file():
                return place
    except (OSError, ValueError, RuntimeError):
        # A NUL in the name, or a home that nobody has.
        pass
    raise WorkflowError(f"There is no Python file {name!r}.")


@dataclass(frozen=True, slots=True)
class Call:
    """What ``Invoke`` is given, and the run that waits for it."""

    args: Sequence[str] = ()
    kwargs: Mapping[str, str] = field(default_factory=dict)
    cancel: CancelToken | None = None


def invoke(path: Path, call: Call, *, import_from: Path) -> Any:
    """What ``Invoke`` of the file returns; a text that tells of its failure if it raises.

    The file is read anew for every call. Raises WorkflowError when it cannot be loaded, has no
    ``Invoke``, or returns what has no text; the token's reason when the run is cancelled.
    """
    # Scripts may import the server's own packages, wherever it was started from.
    if str(import_from) not in sys.path:
        sys.path.append(str(import_from))
    name = f"headrace_script_{next(_NUMBERS)}"
    module = ModuleType(name)
    module.__file__ = str(path)
    # Looked up by dataclasses, pickle and the like while the script runs.
    sys.modules[name] = module
    try:
        return run_script(lambda: _loaded_and_called(module, path, call), call.cancel)
    finally:
        sys.modules.pop(name, None)


def _loaded_and_called(module: ModuleType, path: Path, call: Call) -> Any:
    _load(module, path)
    function = getattr(module, FUNCTION, None)
    if not callable(function):
        raise WorkflowError(f"The Python file {path.name!r} has no function Invoke.")
    return _call(function, path, call)


def _load(module: ModuleType, path: Path) -> None:
    try:
        # Compiled from what stands there now: a cached version could be that of a second ago.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except Stopped:
        raise
    # A script may raise anything, and may try to end the process.
    except BaseException as error:
        raise WorkflowError(
            f"The Python file {path.name!r} cannot be loaded: {described(error)}"
        ) from error


def _call(function: Any, path: Path, call: Call) -> Any:
    try:
        try:
            value = function(*call.args, **call.kwargs)
        except ScriptError as error:
            logger.warning("the script %s reported a failure", path.name)
            return _reported(error, path)
    # As above. One text for all of them, wrong arguments and missing files included (S21).
    except Stopped:
        raise
    except BaseException as error:
        logger.exception("the script %s failed", path.name)
        return f"The Python file {path.name!r} failed: {described(error)}"

    return showable(value, f"The Python file {path.name!r} returned a value")


def _reported(error: ScriptError, path: Path) -> str:
    text = f"Error in {error.module_name or path.stem}: {error.message}"
    return text if error.details is None else f"{text} (details: {error.details})"
