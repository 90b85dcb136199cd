"""JsonExtractor (nodes §9)."""

import json
import logging
import re
from typing import Any

from Middleware.config.models import Text
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

logger = logging.getLogger(__name__)

_FENCE = re.compile(r"\A```(?:json|JSON)?\s*(.*?)\s*```\Z", re.DOTALL)


class JsonExtractorOptions(NodeOptions):
    """Take one field of a JSON object.

    The object may stand in a fence of three backticks. Only its own keys can be named: a dot is
    part of a name. A text comes out as it is, an object or list as JSON, a number or a truth
    value as Python writes it (``1.5``, ``True``). Whatever is missing or no JSON object gives an
    empty text.
    """

    json_to_extract_from: Text = ""
    """The text that is read as JSON; nothing may stand around it."""
    field_to_extract: Text = ""
    """The key."""


@node_type("JsonExtractor", options=JsonExtractorOptions)
class JsonExtractorHandler(NodeHandler):
    has_side_effects = False

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, JsonExtractorOptions)
        if not options.json_to_extract_from or not options.field_to_extract:
            logger.error("JsonExtractor needs `jsonToExtractFrom` and `fieldToExtract`")
            return WorkflowPayload.of("")
        text = context.render(options.json_to_extract_from).strip()
        return WorkflowPayload.of(extract(text, context.render(options.field_to_extract)))


def extract(text: str, field: str) -> str:
    fenced = _FENCE.match(text)
    try:
        root = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        logger.warning("JsonExtractor: the text is no JSON; the output is empty")
        return ""
    value = root.get(field) if isinstance(root, dict) else None
    if value is None:
        logger.info("JsonExtractor: there is no value for the field; the output is empty")
    return _as_text(value)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value)
