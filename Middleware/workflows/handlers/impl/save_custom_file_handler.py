"""SaveCustomFile (nodes §13)."""

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from Middleware.config.models import Text
from Middleware.storage.files import PathLocks, decode_text, require_ordinary, write_atomically
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.variables.pieces import joined

logger = logging.getLogger(__name__)

# Workflows compare with these.
NO_PATH: Final = "No filepath specified"
NO_CONTENT: Final = "No content specified"

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class SaveCustomFileOptions(NodeOptions):
    """Write a text file, or change what stands in one.

    The output says what was done. A mistake in these properties, and a file that cannot be
    written, do not stop the run: the output is a text that names the problem. A file is replaced
    as a whole, so nobody ever reads half of it.
    """

    filepath: Text = ""
    """Absolute, or relative to the folder the server was started in; ``~`` is the home folder.
    Missing folders are made. A path in which a variable stayed unknown is refused."""
    content: Any = None
    """What is written. Not needed to remove or trim."""
    mode: Text = "overwrite"
    """``overwrite``; ``append`` (nothing is put between); ``replace`` every `find` by `content`;
    ``remove`` every line that holds `find`; ``trim``: remove blank lines. The last three leave a
    missing file missing."""
    find: Any = None
    """A literal text."""


@node_type("SaveCustomFile", options=SaveCustomFileOptions)
class SaveCustomFileHandler(NodeHandler):
    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, SaveCustomFileOptions)
        return WorkflowPayload.of(self._output(context, options))

    def _output(self, context: ExecutionContext, options: SaveCustomFileOptions) -> str:
        problem = _problem(options)
        if problem is not None:
            return _told(problem)
        pieces = context.pieces(options.filepath)
        unknown = [piece.text for piece in pieces if piece.origin == "unknown"]
        if unknown:
            return _failed(f"the path holds {unknown[0]}, which nothing fills in")
        name = joined(pieces).strip()
        if not name:
            return _told(NO_PATH)
        content = "" if options.content is None else context.render(options.content)
        find = "" if options.find is None else context.render(options.find)
        if options.mode in ("replace", "remove") and not find:
            return _failed("`find` is empty")
        scope = context.request_scope
        locks = scope.server.path_locks if scope else PathLocks()
        try:
            path = Path(name).expanduser()
            with locks.hold(path):
                return _change(path, options.mode, content, find)
        except (OSError, ValueError, RuntimeError) as error:
            # ValueError: a NUL in the path, or half a character in the content. RuntimeError: a
            # home that nobody has.
            logger.error("SaveCustomFile: %s could not be written: %r", name, error)
            return f"SaveCustomFile error: the file could not be written ({type(error).__name__})."


def _change(path: Path, mode: str, content: str, find: str) -> str:
    if mode == "overwrite":
        write_atomically(path, content.encode())
        return f"Saved {path.name}."
    if mode == "append":
        require_ordinary(path)
        # Bytes are kept as they are: only what is added is ours.
        before = path.read_bytes() if path.exists() else b""
        write_atomically(path, before + content.encode())
        return f"Saved {path.name}."
    if not path.is_file():
        return f"Unchanged: there is no file {path.name}."
    text, changes = _EDITS[mode](decode_text(path.read_bytes()), find, content)
    if not changes:
        return f"Unchanged: nothing to {mode} in {path.name}."
    write_atomically(path, text.encode())
    return f"Updated {path.name}: {changes} {'change' if changes == 1 else 'changes'}."


def _replace(text: str, find: str, content: str) -> tuple[str, int]:
    return text.replace(find, content), text.count(find)


def _remove(text: str, find: str, _: str) -> tuple[str, int]:
    return _without(text, lambda line: find in line)


def _trim(text: str, _: str, __: str) -> tuple[str, int]:
    return _without(text, lambda line: not line.strip())


def _without(text: str, unwanted: Callable[[str], bool]) -> tuple[str, int]:
    lines = _LINE.findall(text)
    kept = [line for line in lines if not unwanted(line)]
    return "".join(kept), len(lines) - len(kept)


_EDITS: Mapping[str, Callable[[str, str, str], tuple[str, int]]] = {
    "replace": _replace,
    "remove": _remove,
    "trim": _trim,
}


def _problem(options: SaveCustomFileOptions) -> str | None:
    if not options.filepath.strip():
        return NO_PATH
    if options.mode not in ("overwrite", "append", *_EDITS):
        return (
            f"SaveCustomFile error: `mode` cannot be {options.mode!r}; it is overwrite, append, "
            "replace, remove or trim."
        )
    if options.content is None and options.mode not in ("remove", "trim"):
        return NO_CONTENT
    if options.mode in ("replace", "remove") and options.find is None:
        return "SaveCustomFile error: `find` is missing."
    return None


def _failed(problem: str) -> str:
    return _told(f"SaveCustomFile error: {problem}.")


def _told(text: str) -> str:
    logger.error("%s", text)
    return text
