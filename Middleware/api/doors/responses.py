"""OpenAI's Responses for ordinary workflows. Routes only: the shapes are in ``wire``."""

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from flask import Blueprint, Response, request

from Middleware.api.catalogue import Catalogue
from Middleware.api.doors.background_responses import BackgroundResponses, starting_after
from Middleware.api.doors.common import EVENT_STREAM, json_body, json_response
from Middleware.api.doors.kept_conversations import reachable
from Middleware.api.doors.kept_responses import ID_START, Kept, ResponseEncoder
from Middleware.api.durable_access import UnknownConversation
from Middleware.api.running import scope_of
from Middleware.core.errors import (
    MalformedRequest,
    MiddlewareError,
    UnknownResponse,
)
from Middleware.core.messages import ChatRequest
from Middleware.storage.responses import KeptResponse
from Middleware.wire import openai_responses
from Middleware.wire.bodies import write_json
from Middleware.wire.openai_responses import ResponsesRequest

logger = logging.getLogger(__name__)


class DurableResponses(Protocol):
    """Responses that belong to durable conversations. Each method returns None for what is not
    its own.
    """

    def create(self, asked: ResponsesRequest) -> Response | None: ...

    def show(self, id: str) -> Response | None: ...

    def items(self, id: str) -> Response | None: ...

    def delete(self, id: str) -> Response | None: ...

    def cancel(self, id: str) -> Response | None: ...


class NoDurableResponses:
    """Stands where there are none."""

    def create(self, asked: ResponsesRequest) -> Response | None:
        return None

    def show(self, id: str) -> Response | None:
        return None

    items = delete = cancel = show


class ResponsesFormat:
    """See :class:`AnswerFormat`; made for one request, since an answer repeats what was asked."""

    name = "openairesponses"
    stream_type = EVENT_STREAM

    def __init__(self, asked: ResponsesRequest, kept: Kept, scope: str, *, keeps: bool) -> None:
        self._asked = asked
        self._kept = kept
        self._scope = scope
        self._keeps = keeps

    def encoder(self, asked: ChatRequest, *, request_id: str, model: str) -> ResponseEncoder:
        head = openai_responses.ResponseHead(
            id=f"{ID_START}{request_id}",
            created_at=int(self._kept.clock.timestamp()),
            model=model,
            asked=self._asked,
        )
        stream = openai_responses.AnswerStream(head)
        if not self._keeps:
            return ResponseEncoder(stream, None)

        def keep(response: Mapping[str, Any]) -> None:
            self._kept.told(head, self._scope, response)
            self._kept.put(
                KeptResponse(
                    id=head.id,
                    scope=self._scope,
                    created_at=head.created_at,
                    body=response,
                    items=openai_responses.stored_items(self._asked.items, head.stem),
                    previous_id=self._asked.previous_response_id,
                )
            )

        encoder = ResponseEncoder(stream, keep)
        if asked.stream:
            self._kept.live[(self._scope, head.id)] = encoder
        return encoder

    def error_body(self, error: MiddlewareError) -> bytes:
        return write_json(openai_responses.encode_error(error))


def responses_door(
    catalogue: Catalogue,
    kept: Kept,
    background: BackgroundResponses,
    durable: DurableResponses | None = None,
) -> Blueprint:
    """``durable`` is asked first: it knows which requests and ids are its own."""
    door = Blueprint("responses", __name__)
    durable = durable or NoDurableResponses()
    _add_create(door, catalogue, kept, background, durable)
    _add_views(door, kept, background, durable)
    _add_changes(door, kept, background, durable)
    return door


def _add_create(
    door: Blueprint,
    catalogue: Catalogue,
    kept: Kept,
    background: BackgroundResponses,
    durable: DurableResponses,
) -> None:
    delivery = background.delivery

    @door.post("/v1/responses")
    @door.post("/responses")
    def create() -> Response:
        """An answer to a text or to items, streamed or whole; kept unless `store` is false."""
        asked = openai_responses.parse_request(json_body())
        taken = durable.create(asked)
        if taken is not None:
            return taken
        if asked.approvals:
            raise MalformedRequest("input", "answers a proposal, and there is none")
        scope = scope_of(request.environ)
        chat = _with_history(asked, kept, scope)
        keeps = asked.store and not _is_encrypted(catalogue, chat.model, scope)
        if asked.background and not keeps:
            raise MalformedRequest("background", "is fetched later, and nothing is kept here")
        if asked.background:
            return background.start(asked, chat)
        return delivery.send(chat, ResponsesFormat(asked, kept, scope, keeps=keeps))


def _with_history(asked: ResponsesRequest, kept: Kept, scope: str) -> ChatRequest:
    """The chat behind the responses, or the conversation, that it goes on from."""
    if asked.conversation is not None:
        said = kept.conversations.items(asked.conversation)
        if said is None:
            raise UnknownConversation(asked.conversation)
        return openai_responses.with_history(asked, said)
    if asked.previous_response_id is None:
        return asked.chat
    with reachable():
        chain = kept.store.chain(scope, asked.previous_response_id)
    if not chain:
        raise MalformedRequest("previous_response_id", "names no response that is kept here")
    earlier = [item for one in chain for item in (*one.items, *one.body.get("output", ()))]
    return openai_responses.with_history(asked, earlier)


def _is_encrypted(catalogue: Catalogue, model: str, scope: str) -> bool:
    """Whether nothing that is said may lie about in the clear (``encryptUsingApiKey``)."""
    return scope != "" and catalogue.owner(model).encrypt_using_api_key


def _add_views(
    door: Blueprint, kept: Kept, background: BackgroundResponses, durable: DurableResponses
) -> None:
    @door.get("/v1/responses/<id>")
    @door.get("/responses/<id>")
    def show(id: str) -> Response:
        """A kept response."""
        theirs = durable.show(id)
        if theirs is not None:
            return theirs
        found = kept.require(id)
        streamed = request.args.get("stream", "").lower() == "true"
        return background.show(id, found, streamed=streamed, after=starting_after())

    @door.get("/v1/responses/<id>/input_items")
    @door.get("/responses/<id>/input_items")
    def items(id: str) -> Response:
        """The input that a kept response answers, page by page."""
        theirs = durable.items(id)
        if theirs is not None:
            return theirs
        page = openai_responses.parse_page(request.args)
        return json_response(openai_responses.encode_items(kept.require(id).items, page))


def _add_changes(
    door: Blueprint, kept: Kept, background: BackgroundResponses, durable: DurableResponses
) -> None:
    delivery = background.delivery

    @door.delete("/v1/responses/<id>")
    @door.delete("/responses/<id>")
    def delete(id: str) -> Response:
        """Forget a kept response."""
        theirs = durable.delete(id)
        if theirs is not None:
            return theirs
        with reachable():
            done = kept.store.delete(scope_of(request.environ), id)
        if not done:
            raise UnknownResponse(id)
        return json_response(openai_responses.encode_deleted(id))

    @door.post("/v1/responses/<id>/cancel")
    @door.post("/responses/<id>/cancel")
    def cancel(id: str) -> Response:
        """Stop a response that is being made."""
        theirs = durable.cancel(id)
        if theirs is not None:
            return theirs
        found = kept.require(id)
        if found.body.get("background"):
            return background.cancel(id, found)
        if found.body["status"] != "in_progress" or not delivery.cancel(id.removeprefix(ID_START)):
            raise MalformedRequest(None, "Only a response in progress can be cancelled")
        return json_response({**found.body, "status": "cancelled"})
