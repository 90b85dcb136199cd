"""The Conversations interface: what clients post to ``/v1/conversations``, and what they get."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.wire.fields import list_in
from Middleware.wire.openai_responses_items import Conversation

_MOST_LABELS: Final = 16
_LONGEST_NAME, _LONGEST_VALUE = 64, 512
_MOST_ITEMS: Final = 20


def parse_metadata(body: Mapping[str, Any]) -> dict[str, str]:
    """Labels, within the published limits; raises MalformedRequest."""
    given = body.get("metadata")
    if given is None:
        return {}
    if not isinstance(given, dict) or len(given) > _MOST_LABELS:
        raise MalformedRequest("metadata", f"must be an object of at most {_MOST_LABELS} texts")
    for name, value in given.items():
        fits = isinstance(value, str) and len(value) <= _LONGEST_VALUE
        if not fits or len(name) > _LONGEST_NAME:
            raise MalformedRequest(
                f"metadata.{name[:_LONGEST_NAME]}",
                f"must be a text of at most {_LONGEST_VALUE} characters under a name of at most "
                f"{_LONGEST_NAME}",
            )
    return given


def parse_items(body: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Items to be kept; raises MalformedRequest for those that no history could hold."""
    items = tuple(list_in(body, "items"))
    if len(items) > _MOST_ITEMS:
        raise MalformedRequest("items", f"must be at most {_MOST_ITEMS} at once")
    said = Conversation()
    for index, item in enumerate(items):
        said.add(item, f"items.{index}")
    said.close()
    return items


def user_text(items: Sequence[Mapping[str, Any]]) -> str:
    """The text of the one user message that items must be; raises MalformedRequest."""
    said = Conversation()
    for index, item in enumerate(items):
        said.add(item, f"items.{index}")
    messages = said.close()
    if len(messages) != 1 or messages[0].role != "user" or said.approvals:
        raise MalformedRequest("items", "must be one user message in a durable conversation")
    return messages[0].content


def encode_conversation(id: str, created_at: int, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": id,
        "object": "conversation",
        "created_at": created_at,
        "metadata": dict(metadata),
    }


def encode_deleted_conversation(id: str) -> dict[str, Any]:
    return {"id": id, "object": "conversation.deleted", "deleted": True}


def item_of(items: Sequence[Mapping[str, Any]], id: str) -> Mapping[str, Any] | None:
    return next((item for item in items if item.get("id") == id), None)
