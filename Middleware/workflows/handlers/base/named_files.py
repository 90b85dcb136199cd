"""Options that name a file. They say so in their type, and that is all `check` needs to follow
them: to a child workflow, an endpoint, a preset, an MCP server, a schema.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel

from Middleware.config.models import Text
from Middleware.config.schema import keys_of

Kind = Literal["workflow", "endpoint", "preset", "mcp_server", "structured_output"]


@dataclass(frozen=True, slots=True)
class Names:
    """What an option is a name of: a text, a list of texts, or an object whose values are."""

    kind: Kind


WorkflowName = Annotated[Text, Names("workflow")]
"""A workflow of the folder that ``workflowUserFolderOverride`` names, else of the user's own."""
EndpointName = Annotated[Text, Names("endpoint")]
PresetName = Annotated[Text, Names("preset")]
McpServerName = Annotated[Text, Names("mcp_server")]
SchemaName = Annotated[Text, Names("structured_output")]


class Named(NamedTuple):
    """One name in a file."""

    kind: Kind
    key: str
    """Where it stands: ``workflowName``, ``conditionalWorkflows.yes``, ``mcpServers[0]``."""
    name: str


def names_in(options: BaseModel) -> Iterator[Named]:
    """Every name that is given, in the order of the class."""
    for field_name, field in type(options).model_fields.items():
        marks = [mark for mark in field.metadata if isinstance(mark, Names)]
        if not marks:
            continue
        key, value = keys_of(field_name, field)[0], getattr(options, field_name)
        if isinstance(value, Mapping):
            given = [(f"{key}.{name}", one) for name, one in value.items()]
        elif isinstance(value, (list, tuple)):
            given = [(f"{key}[{index}]", one) for index, one in enumerate(value)]
        else:
            given = [(key, value)]
        yield from (Named(marks[0].kind, place, name) for place, name in given if name)
