"""Arguments of tool calls for vendors that want them as an object instead of as JSON text."""

from typing import Any

from Middleware.wire.bodies import BadJson, read_json


def arguments_object(arguments: str) -> dict[str, Any]:
    """What a model wrote as arguments; an empty object when that is no JSON object (case C-12)."""
    try:
        value = read_json(arguments) if arguments else {}
    except BadJson:
        return {}
    return value if isinstance(value, dict) else {}


def is_whole(arguments: str) -> bool:
    """Whether nothing more can be added to the arguments of a call: they are JSON already."""
    try:
        read_json(arguments)
    except BadJson:
        return False
    return True
