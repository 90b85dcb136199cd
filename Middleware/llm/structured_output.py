"""Telling a model server which JSON Schema its answer has to follow (config-files §10)."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from Middleware.config.models import StructuredOutputRule

logger = logging.getLogger(__name__)

SCHEMA_NAME: Final = "wilmer_structured_output"
"""The name that the schema goes by, as in the reference: logs of servers may be searched for it."""


def constrain(
    payload: dict[str, Any], rule: StructuredOutputRule, schema: Mapping[str, Any], endpoint: str
) -> None:
    """Put ``schema`` where ``rule`` says. What stands there already is replaced."""
    *parents, last = rule.field.split(".")
    holder = payload
    for name in parents:
        inner = holder.get(name)
        # Copied: what a preset brought along is shared by all requests.
        holder[name] = dict(inner) if isinstance(inner, Mapping) else {}
        holder = holder[name]
    if last in holder:
        logger.warning(
            "Endpoint %r: `%s` of the request is replaced by the schema of the node.",
            endpoint,
            rule.field,
        )
    holder[last] = _written(rule, schema)


def _written(rule: StructuredOutputRule, schema: Mapping[str, Any]) -> Any:
    if rule.style == "raw":
        return schema
    described = {"name": SCHEMA_NAME, "strict": rule.strict, "schema": schema}
    if rule.style == "openaiResponses":
        return {"type": "json_schema", **described}
    return {"type": "json_schema", "json_schema": described}
