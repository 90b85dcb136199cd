"""TagTextExtractor (nodes §10)."""

import logging

from Middleware.config.models import Text
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

logger = logging.getLogger(__name__)


class TagTextExtractorOptions(NodeOptions):
    """Take what stands between ``<tag>`` and ``</tag>``.

    The first such pair counts, in the exact spelling and without attributes; the text is
    trimmed. If there is none, or nothing in it, `defaultText` is the output.
    """

    tag_to_extract_from: Text = ""
    """The text that holds the tag."""
    field_to_extract: Text = ""
    """The tag's name, without brackets."""
    default_text: Text = ""
    """The output where there is no such tag, or nothing in it."""


@node_type("TagTextExtractor", options=TagTextExtractorOptions)
class TagTextExtractorHandler(NodeHandler):
    has_side_effects = False

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, TagTextExtractorOptions)
        if not options.tag_to_extract_from or not options.field_to_extract:
            logger.error("TagTextExtractor needs `tagToExtractFrom` and `fieldToExtract`")
            return WorkflowPayload.of("")
        text = context.render(options.tag_to_extract_from)
        found = between_tags(text, context.render(options.field_to_extract))
        return WorkflowPayload.of(found or context.render(options.default_text))


def between_tags(text: str, tag: str) -> str:
    """The trimmed text inside the first pair of tags; empty when there is no pair."""
    opening = f"<{tag}>"
    start = text.find(opening)
    if start < 0:
        return ""
    start += len(opening)
    end = text.find(f"</{tag}>", start)
    return text[start:end].strip() if end >= 0 else ""
