"""The JSON Schema of workflow files, from the registry of node types."""

from collections.abc import Iterable
from typing import Any

from Middleware.config.schema import DRAFT, Schema, embed
from Middleware.workflows.handlers import impl as impl
from Middleware.workflows.handlers.base.node_handler import node_types
from Middleware.workflows.handlers.base.node_options import NodeOptions

_DEFAULT_TYPE = "Standard"


def workflow_schema(later: Iterable[str] = ()) -> Schema:
    """``later`` are names of node types that files may have and that cannot be run yet."""
    schema: Schema = {
        "$schema": DRAFT,
        "title": "A workflow: Workflows/<folder>/<name>.json",
        "if": {"type": "array"},
        "then": {"$ref": "#/$defs/nodes"},
        "else": {"$ref": "#/$defs/workflow"},
        "$defs": {
            "nodes": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/node"}},
            "workflow": _object(),
        },
    }
    schema["$defs"]["node"] = _node(schema, sorted(set(later) - set(node_types.names())))
    return schema


def _object() -> Schema:
    return {
        "description": "`nodes`, and variables: what stands under another key is `{key}` in texts.",
        "type": "object",
        "required": ["nodes"],
        "properties": {
            "nodes": {"$ref": "#/$defs/nodes"},
            "edges": {
                "description": "The order of the nodes, where it is not that of the list.",
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["from", "to"],
                    "properties": {
                        "from": {"type": "string", "description": "Id of a node."},
                        "to": {"type": "string", "description": "Id of the next one."},
                        "route": {
                            "type": ["string", "boolean", "null"],
                            "description": "Only when the node takes this route.",
                        },
                    },
                },
            },
            "globalVariables": {"description": "An object: what `{{name}}` stands for at first."},
            "placeholders": {
                "description": "true: `{{name}}` is live in this file, as in one with `edges`."
            },
            "parallel": {"description": "true: nodes that do not need each other run at once."},
            "showProgress": {"description": "true or false, in place of the user's."},
            "showThinking": {"description": "true or false, in place of the user's."},
        },
    }


def _node(schema: Schema, later: list[str]) -> Schema:
    """By its type; one without a type, or with an unknown one, is read as Standard."""
    definitions = schema["$defs"]
    every = embed(schema, NodeOptions)
    names: dict[type[NodeOptions], list[str]] = {}
    for name, kind in node_types:
        names.setdefault(kind.options, []).append(name)
    standard = node_types.get(_DEFAULT_TYPE).options
    others = [name for name in (*node_types.names(), *later) if name not in names[standard]]
    branches = []
    for options, known in names.items():
        condition = {"not": _type_is(others)} if options is standard else _type_is(known)
        branches.append({"if": condition, "then": embed(schema, options)})
        _leave_out(definitions[options.__name__], definitions[NodeOptions.__name__])
    properties = definitions[NodeOptions.__name__]["properties"]
    properties["type"] = {
        "description": properties["type"]["description"],
        "anyOf": [{"enum": [*node_types.names(), *later]}, {"type": ["string", "null"]}],
    }
    return {"allOf": [every, *branches]}


def _leave_out(options: Schema, every: Schema) -> None:
    """What a node type has in common with all others is said once."""
    common = every["properties"]
    options["properties"] = {
        key: value for key, value in options["properties"].items() if value != common.get(key)
    }


def _type_is(names: list[str]) -> dict[str, Any]:
    return {"required": ["type"], "properties": {"type": {"enum": names}}}
