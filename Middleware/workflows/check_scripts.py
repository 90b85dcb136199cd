"""Whether the Python that nodes run is there, and has what is called. Nothing of it is executed."""

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from Middleware.config.paths import UnsafeName, is_inside, parts_of
from Middleware.config.problems import Problem
from Middleware.core.errors import WorkflowError
from Middleware.core.registry import nearest
from Middleware.tools.python_code import FUNCTION, scripts_in
from Middleware.tools.python_module import FUNCTION as INVOKE
from Middleware.tools.python_module import find_script
from Middleware.workflows.check_names import Asker
from Middleware.workflows.handlers.impl.python_code_handler import SCRIPTS_FOLDER
from Middleware.workflows.models.server_parts import INSTALL
from Middleware.workflows.models.workflow import Node

CODES: Final = {
    "missing_script": "a node names a Python file that is not there",
    "invalid_script": "Python that cannot be run, or lacks the function that is called",
    "inline_code": "code in a workflow file; it runs with --allow-inline-python only",
}
_INNER: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def script_problems(asker: Asker, node: Node) -> Iterator[Problem]:
    options: Any = node.options
    if node.type_name == "PythonCode" and options.script:
        yield from _script(asker, options.script)
    elif node.type_name == "PythonCode":
        message = "It is refused by a server that was not started with --allow-inline-python."
        remedy = f"Put it into a file of {SCRIPTS_FOLDER}, and name that as `script`."
        yield asker.problem("inline_code", "code", message, remedy, "warning")
        yield from _content(asker, "code", options.code, FUNCTION)
    elif node.type_name == "PythonModule" and "{" not in options.module_path:
        key = "module_path" if "module_path" in options else "modulePath"
        yield from _module(asker, key, options.module_path.strip())


def _script(asker: Asker, name: str) -> Iterator[Problem]:
    folder = asker.config.store.locations.public / SCRIPTS_FOLDER
    try:
        path = folder.joinpath(*parts_of(name))
    except (UnsafeName, ValueError) as error:
        message = f"The name {name[:80]!r} {error}."
        yield asker.problem("missing_script", "script", message, "Name a file of that folder.")
        return
    if not is_inside(path, [folder]):
        message = f"{name!r} leads out of {SCRIPTS_FOLDER}."
        yield asker.problem("missing_script", "script", message, "Name a file of that folder.")
    elif path.is_file():
        yield from _file(asker, "script", path, FUNCTION)
    else:
        near = nearest(path.name, scripts_in(path.parent))
        message = f"There is no {name!r} in {SCRIPTS_FOLDER}."
        yield asker.problem("missing_script", "script", message, _meant(near))


def _module(asker: Asker, key: str, name: str) -> Iterator[Problem]:
    try:
        path = find_script(name, INSTALL)
    except WorkflowError:
        folder = Path(name).parent
        near = nearest(Path(name).name, [*scripts_in(folder), *scripts_in(INSTALL / folder)])
        message = f"There is no Python file {name!r}."
        # It may be meant for another machine, or another working directory.
        yield asker.problem("missing_script", key, message, _meant(near), "warning")
        return
    yield from _file(asker, key, path, INVOKE)


def _meant(near: str | None) -> str:
    return f"Did you mean {near!r}?" if near else "Correct the name, or put the file there."


def _file(asker: Asker, key: str, path: Path, function: str) -> Iterator[Problem]:
    try:
        content = path.read_bytes()
    except OSError:
        message = f"{path.name} cannot be read."
        remedy = "Give the server the right to read it."
        yield asker.problem("invalid_script", key, message, remedy)
        return
    yield from _content(asker, key, content, function, path.name)


def _content(
    asker: Asker, key: str, content: bytes | str, function: str, name: str = "The code"
) -> Iterator[Problem]:
    try:
        with warnings.catch_warnings():
            # Of the script's author, and for a place where it runs.
            warnings.simplefilter("ignore")
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = "" if line is None else f", line {line}"
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        message = f"{name}{where}: this is no valid Python: {said}."
        yield asker.problem("invalid_script", key, message, "Correct it.")
        return
    if not _binds(tree, function):
        message = f"{name} has no function `{function}`."
        remedy = f"Add `def {function}(…)`, or correct the name of the function."
        yield asker.problem("invalid_script", key, message, remedy)


def _binds(tree: ast.Module, name: str) -> bool:
    """Whether the module may give ``name`` a value, in a branch or loop too."""
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        part = waiting.pop()
        match part:
            case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found):
                bound = [found]
            case ast.ClassDef(name=found):
                bound = [found]
            case ast.Name(id=found, ctx=ast.Store()):
                bound = [found]
            case ast.alias(name=source, asname=asname):
                bound = [asname or source]
            case ast.Call(func=ast.Name(id="exec" | "globals" | "vars" | "setattr")):
                # It may make any name.
                bound = ["*"]
            case _:
                bound = []
        if name in bound or "*" in bound:
            return True
        if not isinstance(part, _INNER):
            waiting.extend(ast.iter_child_nodes(part))
    return False
