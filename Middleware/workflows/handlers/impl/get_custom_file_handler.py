"""GetCustomFile (nodes §12)."""

import logging
from pathlib import Path
from typing import Any, Final

from Middleware.config.models import Text
from Middleware.storage.files import find_in_any_case, read_text
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

logger = logging.getLogger(__name__)

# Workflows compare with these.
NO_PATH: Final = "No filepath specified"
MISSING: Final = "Custom instruction file did not exist"
EMPTY: Final = "No additional information added"


class GetCustomFileOptions(NodeOptions):
    """Read a text file.

    A mistake in these properties does not stop the run: the output is a text that names it. So
    is a file that is missing (``Custom instruction file did not exist``) or empty (``No
    additional information added``). Files are UTF-8.
    """

    filepath: Text = ""
    """Absolute, or relative to the folder the server was started in; ``~`` is the home folder. A
    name that differs from the file's in upper and lower case only is found too."""
    delimiter: Text = ""
    """Text that is replaced by `customReturnDelimiter`, when neither of them is empty."""
    custom_return_delimiter: Text = ""
    """What stands in place of `delimiter`. One of both alone changes nothing."""
    head_count: Any = None
    """Keep the first so many parts; not together with `tailCount`."""
    tail_count: Any = None
    """Keep the last so many parts. A file that ends with a line break has an empty last line."""
    chunk_delimiter: Text = "\n"
    """What separates the parts that are counted."""


@node_type("GetCustomFile", options=GetCustomFileOptions)
class GetCustomFileHandler(NodeHandler):
    # A file may have been written by another node.
    has_side_effects = True

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, GetCustomFileOptions)
        problem = _problem(options)
        if problem is not None:
            return WorkflowPayload.of(_told(f"GetCustomFile error: {problem}."))
        path = context.render(options.filepath).strip()
        if not path:
            return WorkflowPayload.of(_told(NO_PATH))
        return WorkflowPayload.of(_shaped(read_custom_file(path), options))


def read_custom_file(path: str) -> str:
    """The text of a file, or the marker that stands for one that is missing or empty."""
    try:
        found = find_in_any_case(Path(path).expanduser())
        if found is None:
            logger.warning("GetCustomFile: there is no file %s", path)
            return MISSING
        return read_text(found) or EMPTY
    except (OSError, ValueError, RuntimeError) as error:
        # ValueError: a NUL in the path. RuntimeError: a home that nobody has.
        return _told(f"GetCustomFile error: the file cannot be read ({type(error).__name__}).")


def _shaped(text: str, options: GetCustomFileOptions) -> str:
    if text in (MISSING, EMPTY):
        return text
    cut = options.chunk_delimiter or "\n"
    if options.head_count is not None:
        text = cut.join(text.split(cut)[: options.head_count])
    elif options.tail_count is not None:
        text = cut.join(text.split(cut)[-options.tail_count :])
    # With only one of them given the other is the same, so nothing changes.
    if options.delimiter and options.custom_return_delimiter:
        text = text.replace(options.delimiter, options.custom_return_delimiter)
    return text


def _problem(options: GetCustomFileOptions) -> str | None:
    if options.head_count is not None and options.tail_count is not None:
        return "`headCount` and `tailCount` cannot be used together"
    for key, count in (("headCount", options.head_count), ("tailCount", options.tail_count)):
        if count is None:
            continue
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            return f"`{key}` must be a whole number from 1"
    return None


def _told(text: str) -> str:
    logger.error("%s", text)
    return text
