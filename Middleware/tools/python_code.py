"""Runs the `run(context, payload)` of a script, or of code that stands in a workflow file."""

import traceback
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

from Middleware.core.errors import MiddlewareError, WorkflowError
from Middleware.core.registry import nearest
from Middleware.tools.scripts import Stopped, showable

FUNCTION = "run"


def load_script(path: Path) -> Callable[..., Any]:
    """The function of a script; the script is compiled again when the file has changed."""
    try:
        stat = path.stat()
        code = _compiled_file(path, stat.st_mtime_ns, stat.st_size)
    except FileNotFoundError as error:
        near = nearest(path.name, scripts_in(path.parent))
        hint = f" Did you mean {near!r}?" if near else ""
        message = f"there is no script {path.name!r} in its folder.{hint}"
        raise WorkflowError(message, detail=str(error)) from error
    except OSError as error:
        raise WorkflowError(
            f"the script {path.name!r} cannot be read.", detail=str(error)
        ) from error
    return _function_of(code, path.name)


def scripts_in(folder: Path) -> list[str]:
    """Names of the Python files of a folder; none where there is no such folder."""
    try:
        return [one.name for one in folder.iterdir() if one.suffix == ".py"]
    except OSError:
        return []


def load_code(text: str, name: str) -> Callable[..., Any]:
    """The function of inline code; ``name`` is what errors call it."""
    return _function_of(_compiled(text, name), name)


def call(function: Callable[..., Any], context: Any, payload: Any, name: str) -> Any:
    """What the function returns. What it raises becomes a WorkflowError that names the line."""
    try:
        value = function(context, payload)
    except (MiddlewareError, Stopped):
        raise
    # Scripts may raise anything, and are the owner's own: the line helps, the rest is for the log.
    except BaseException as error:
        raise WorkflowError(
            f"{name} raised {type(error).__name__}{_line_of(error, name)}.",
            detail=traceback.format_exc(),
        ) from error

    return showable(value, f"{name} returned a value")


@lru_cache(maxsize=256)
def _compiled_file(path: Path, mtime_ns: int, size: int) -> CodeType:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise WorkflowError(f"the script {path.name!r} is not UTF-8.") from error
    return _compiled(text, path.name)


@lru_cache(maxsize=256)
def _compiled(text: str, name: str) -> CodeType:
    try:
        return compile(text, name, "exec")
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        number = error.lineno if isinstance(error, SyntaxError) else None
        line = "" if number is None else f", line {number}"
        raise WorkflowError(f"{name}{line}: this is no valid Python: {error}.") from error


def _function_of(code: CodeType, name: str) -> Callable[..., Any]:
    """The code is run anew each time, so that one run leaves nothing behind for the next."""
    scope: dict[str, Any] = {"__name__": name}
    try:
        exec(code, scope)
    except (MiddlewareError, Stopped):
        raise
    except BaseException as error:
        raise WorkflowError(
            f"{name} raised {type(error).__name__} while it was loaded{_line_of(error, name)}.",
            detail=traceback.format_exc(),
        ) from error
    function: Callable[..., Any] | None = scope.get(FUNCTION)
    if not callable(function):
        raise WorkflowError(f"{name} has no function `{FUNCTION}(context, payload)`.")
    return function


def _line_of(error: BaseException, name: str) -> str:
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == name
    ]
    return f" in line {lines[-1]}" if lines else ""
