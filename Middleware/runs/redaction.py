"""Records without the words of users and models: of each text only its length is left.

What is not known to be harmless is taken out (memory-and-state, S32). Names that the owner of the
workflow gave stay, and so do times, counts, endpoints and ids.
"""

import re
from collections.abc import Mapping
from typing import Any

_HARMLESS = frozenset(
    {
        "module_type",
        "next_route",
        "title",
        "endpoint",
        "tokens",
        "attempts",
        "childRunId",
        "clampedMessages",
        "firstTokenMs",
        "unknownPlaceholders",
    }
)
_MESSAGES = frozenset({"resolvedPrompt", "insertedMessages"})
_PLACE = re.compile(
    r"(?:Workflow '[^']*', node '[^']*': )?"
    r"(?:Endpoint '[^']*'(?: answered \d+\b| cannot be reached| sent nothing)?(?:: | )?)?"
)
"""How the message of an error begins; behind it stands what a model server or a file said."""

_REDACTED = re.compile(r"\[redacted: \d+ characters\]")


def redacted_text(text: str | None) -> str | None:
    """The length in place of the text; nothing stays nothing."""
    return f"[redacted: {len(text)} characters]" if text else text


def is_redacted(text: str) -> bool:
    """Whether it stands in place of a text."""
    return _REDACTED.fullmatch(text) is not None


def redacted_error(text: str | None) -> str | None:
    """Where it happened stays, and what a model server's status was."""
    if not text:
        return text
    found = _PLACE.match(text)
    place = found[0] if found else ""
    rest = text[len(place) :]
    return f"{place}{redacted_text(rest) or ''}"


def redacted_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run as ``to_dict()`` gives it."""
    context = dict(run["context"])
    context["globalVariables"] = redacted_value(context["globalVariables"])
    context["error"] = redacted_error(context["error"])
    context["steps"] = [redacted_step(step) for step in context["steps"]]
    return {
        **run,
        "error": redacted_error(run["error"]),
        "partialText": redacted_text(run["partialText"]),
        "context": context,
    }


def redacted_step(step: Mapping[str, Any]) -> dict[str, Any]:
    """A step as ``to_dict()`` gives it."""
    output = step["outputData"]
    data = output["data"]
    return {
        **step,
        "outputData": {
            "content": redacted_text(output["content"]),
            "data": {} if isinstance(data, Mapping) else [],
        },
        "meta": {key: _meta(key, value) for key, value in step["meta"].items()},
        "thinking": redacted_text(step["thinking"]),
    }


def redacted_value(value: Any) -> Any:
    """Any value: the keys of objects stay, everything else that tells something goes."""
    if isinstance(value, Mapping):
        return {key: redacted_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_value(one) for one in value]
    if value is None or isinstance(value, bool):
        return value
    return redacted_text(str(value))


def _meta(key: str, value: Any) -> Any:
    if key in _HARMLESS:
        return value
    if key == "error":
        return redacted_error(value)
    if key in _MESSAGES and isinstance(value, list):
        return [_message(message) for message in value]
    return redacted_value(value)


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value if key == "role" else redacted_value(value) for key, value in message.items()
    }
