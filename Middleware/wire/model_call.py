"""One call of a model, before it is written in the format of a vendor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from Middleware.core.messages import Message

INSTRUCTING: Final = frozenset(("system", "developer", "systemMes"))
"""Roles that tell the model what to do; to a vendor without them they are all ``system``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """What a request to a model server is written from.

    Chat formats read ``messages``, text formats read ``prompt`` and ``images``.
    """

    model: str = ""
    """Empty: the request names none."""
    messages: Sequence[Message] = ()
    prompt: str = ""
    images: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Generation fields under the vendor's own names."""
    client_parameters: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the client's request under OpenAI's names. Those that the format knows win over
    ``parameters``; the others are left out."""
    tools: Sequence[Mapping[str, Any]] = ()
    """In OpenAI's function format."""
    tool_choice: str | Mapping[str, Any] | None = None
    stream: bool = False
    include_usage: bool = False
    """Whether a streamed OpenAI-type answer is to end with its token counts."""


def renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The values that ``names`` knows, under the names that it gives them. Where it gives two
    fields one name, the later of them counts.
    """
    return {new: values[name] for name, new in names.items() if name in values}


def as_texts(value: Any) -> list[str]:
    """Stop words, which clients may send as one text or as a list."""
    return [value] if isinstance(value, str) else list(value)


def forced_function(tool_choice: Any) -> str | None:
    """The name of the function that must be called, where the choice names one."""
    if not isinstance(tool_choice, Mapping):
        return None
    function = tool_choice.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) and name else None


def schema_of(response_format: Any) -> Mapping[str, Any] | None:
    """The JSON Schema that a ``response_format`` asks for, where it asks for one."""
    if not isinstance(response_format, Mapping) or response_format.get("type") != "json_schema":
        return None
    holder = response_format.get("json_schema")
    schema = holder.get("schema") if isinstance(holder, Mapping) else None
    return schema if isinstance(schema, Mapping) else None
