"""OpenAI's Conversations. Routes only: durable ones are asked first, all others are kept lists."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from flask import Blueprint, Response, request

from Middleware.api.doors.common import json_body, json_response
from Middleware.api.doors.kept_conversations import KeptConversations
from Middleware.api.durable_access import UnknownConversation
from Middleware.core.errors import MalformedRequest, RequestError
from Middleware.wire import openai_responses
from Middleware.wire.openai_conversations import (
    encode_deleted_conversation,
    item_of,
    parse_items,
    parse_metadata,
)


class UnknownItem(RequestError):
    status = 404
    code = "item_not_found"

    def __init__(self, id: str) -> None:
        super().__init__(f"The conversation has no item {id[:128]!r}.")


class SomeConversations(Protocol):
    """One kind of conversations. Each method returns None for what is not its own."""

    def create(
        self, items: tuple[Mapping[str, Any], ...], metadata: Mapping[str, str]
    ) -> dict[str, Any] | None:
        """The conversation object."""
        ...

    def show(self, id: str) -> dict[str, Any] | None: ...

    def label(self, id: str, metadata: Mapping[str, str]) -> dict[str, Any] | None: ...

    def delete(self, id: str) -> bool | None: ...

    def items(self, id: str) -> list[dict[str, Any]] | None:
        """All items, oldest first."""
        ...

    def add(self, id: str, items: tuple[Mapping[str, Any], ...]) -> list[dict[str, Any]] | None:
        """The items as they are kept."""
        ...

    def remove(self, id: str, item_id: str) -> dict[str, Any] | None:
        """The conversation object without that item; raises UnknownItem."""
        ...


def conversations_door(durable: SomeConversations, kept: KeptConversations) -> Blueprint:
    """``durable`` is asked first: it knows which profiles and ids are its own."""
    door = Blueprint("conversations", __name__)
    _add_conversations(door, durable, kept)
    _add_items(door, durable, kept)
    return door


def _add_conversations(
    door: Blueprint, durable: SomeConversations, kept: KeptConversations
) -> None:
    @door.post("/v1/conversations")
    @door.post("/conversations")
    def create() -> Response:
        """A conversation: durable where `metadata.profile` names a profile."""
        body = json_body()
        items, metadata = parse_items(body), parse_metadata(body)
        made = durable.create(items, metadata)
        return json_response(kept.create(items, metadata) if made is None else made)

    @door.get("/v1/conversations/<id>")
    @door.get("/conversations/<id>")
    def show(id: str) -> Response:
        """One of them."""
        return json_response(_found(id, durable.show(id) or kept.show(id)))

    @door.post("/v1/conversations/<id>")
    @door.post("/conversations/<id>")
    def label(id: str) -> Response:
        """Put other labels on it."""
        metadata = parse_metadata(json_body())
        return json_response(_found(id, durable.label(id, metadata) or kept.label(id, metadata)))

    @door.delete("/v1/conversations/<id>")
    @door.delete("/conversations/<id>")
    def delete(id: str) -> Response:
        """Forget it with all that was said; one that is open is cancelled first."""
        if not (durable.delete(id) or kept.delete(id)):
            raise UnknownConversation(id)
        return json_response(encode_deleted_conversation(id))


def _add_items(door: Blueprint, durable: SomeConversations, kept: KeptConversations) -> None:
    all_items = partial(_all_items, durable, kept)

    @door.get("/v1/conversations/<id>/items")
    @door.get("/conversations/<id>/items")
    def items(id: str) -> Response:
        """What was said, page by page."""
        page = openai_responses.parse_page(request.args)
        return json_response(openai_responses.encode_items(all_items(id), page))

    @door.post("/v1/conversations/<id>/items")
    @door.post("/conversations/<id>/items")
    def add(id: str) -> Response:
        """Add items; a durable conversation takes a user message, which gets its turn."""
        given = parse_items(json_body())
        if not given:
            raise MalformedRequest("items", "holds no item")
        added = durable.add(id, given)
        added = kept.add(id, given) if added is None else added
        if added is None:
            raise UnknownConversation(id)
        page = openai_responses.Page(limit=len(added), newest_first=False)
        return json_response(openai_responses.encode_items(added, page))

    @door.get("/v1/conversations/<id>/items/<item_id>")
    @door.get("/conversations/<id>/items/<item_id>")
    def item(id: str, item_id: str) -> Response:
        """One item."""
        found = item_of(all_items(id), item_id)
        if found is None:
            raise UnknownItem(item_id)
        return json_response(found)

    @door.delete("/v1/conversations/<id>/items/<item_id>")
    @door.delete("/conversations/<id>/items/<item_id>")
    def remove(id: str, item_id: str) -> Response:
        """Forget one item; refused where the conversation is durable."""
        if item_of(all_items(id), item_id) is None:
            raise UnknownItem(item_id)
        return json_response(_found(id, durable.remove(id, item_id) or kept.remove(id, item_id)))


def _all_items(
    durable: SomeConversations, kept: KeptConversations, id: str
) -> list[dict[str, Any]]:
    found = durable.items(id)
    found = kept.items(id) if found is None else found
    if found is None:
        raise UnknownConversation(id)
    return found


def _found(id: str, conversation: dict[str, Any] | None) -> dict[str, Any]:
    if conversation is None:
        raise UnknownConversation(id)
    return conversation
