"""Tool calls that must happen, on back ends that can be held to a schema (nodes §1, config-files
§10): the tools are told as text, and the answer is a JSON object that names one of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from Middleware.wire.model_call import forced_function

_OPEN: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class EnforcedCall:
    """The call that an answer stands for."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforcement:
    """One round in which a tool must be called."""

    schema: Mapping[str, Any]
    instructions: str
    """For the end of the system prompt."""
    names: frozenset[str]

    def call_in(self, text: str) -> EnforcedCall | None:
        """The call; None unless the text is an object with a known name and object arguments."""
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(said, dict) or said.get("name") not in self.names:
            return None
        arguments = said.get("arguments")
        if not isinstance(arguments, dict):
            return None
        return EnforcedCall(said["name"], json.dumps(arguments, ensure_ascii=False))


def enforcement(tools: Sequence[Mapping[str, Any]], choice: Any) -> Enforcement | None:
    """The round for ``choice``; None when it leaves the model free, or without tools."""
    known = {function["name"]: function for function in map(_function, tools) if function}
    forced = forced_function(choice)
    if not known or (forced is None and choice != "required"):
        return None
    offered = known if forced is None else {forced: known.get(forced, {"name": forced})}
    schemas = [_schema(name, function) for name, function in offered.items()]
    return Enforcement(
        schema=schemas[0] if len(schemas) == 1 else {"anyOf": schemas},
        instructions=_instructions(offered, forced),
        names=frozenset(offered),
    )


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any] | None:
    function = tool.get("function")
    return function if isinstance(function, Mapping) and function.get("name") else None


def _parameters(function: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = function.get("parameters")
    return parameters if isinstance(parameters, Mapping) and parameters else _OPEN


def _schema(name: str, function: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": _parameters(function)},
        "required": ["name", "arguments"],
    }


def _instructions(offered: Mapping[str, Mapping[str, Any]], forced: str | None) -> str:
    lines = ["These tools can be called:"]
    for name, function in offered.items():
        description = str(function.get("description") or "").strip()
        lines.append(f"- {name}: {description}" if description else f"- {name}")
        lines.append(f"  parameters: {json.dumps(_parameters(function), ensure_ascii=False)}")
    must = f"call the tool {forced}" if forced else "call one of them"
    lines += [
        f"In this turn you must {must}. Answer with one JSON object and nothing else:",
        '{"name": "<the tool>", "arguments": {<its parameters>}}',
    ]
    return "\n".join(lines)
