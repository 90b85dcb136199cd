"""Answers of ``/v1/responses`` that are kept, and those that are being written."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakValueDictionary

from flask import request

from Middleware.api.doors.kept_conversations import KeptConversations, reachable
from Middleware.api.running import scope_of
from Middleware.core.clock import Clock
from Middleware.core.errors import (
    MiddlewareError,
    RunCancelled,
    StorageUnavailable,
    UnknownResponse,
)
from Middleware.core.events import Event, Finish, Reply
from Middleware.storage.responses import KeptResponse, ResponseStore
from Middleware.storage.sqlite import DatabaseBusy, DatabaseUnavailable
from Middleware.wire import openai_responses
from Middleware.wire.openai_responses import ResponseHead

logger = logging.getLogger(__name__)

ID_START: Final = "resp_"

Keep = Callable[[Mapping[str, Any]], None]


class ResponseEncoder:
    """One answer, which is kept when it has ended."""

    def __init__(self, stream: openai_responses.AnswerStream, keep: Keep | None) -> None:
        self._stream = stream
        self._keep = keep
        self.heartbeat = stream.heartbeat

    @property
    def response(self) -> dict[str, Any]:
        """The response object as it stands."""
        return self._stream.response

    def event(self, event: Event) -> bytes:
        data = self._stream.event(event)
        if self._keep is not None and isinstance(event, Finish):
            # Before the client is told, so that it can go on from it at once.
            self._keep(self._stream.response)
        return data

    def failure(self, error: MiddlewareError) -> bytes:
        data = self._stream.failure(error)
        if self._keep is not None:
            response = self._stream.response
            if isinstance(error, RunCancelled):
                response = {**response, "status": "cancelled", "error": None}
            self._keep(response)
        return data

    def reply(self, reply: Reply) -> bytes:
        data = self._stream.reply(reply)
        if self._keep is not None:
            self._keep(self._stream.response)
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the routes share."""

    store: ResponseStore
    clock: Clock
    conversations: KeptConversations
    live: WeakValueDictionary[tuple[str, str], ResponseEncoder] = field(
        default_factory=WeakValueDictionary
    )
    """Of streams that are being written, by scope and id."""

    def put(self, kept: KeptResponse) -> None:
        """The answer is there whether or not it can be kept."""
        try:
            self.store.put(kept)
        except (DatabaseBusy, DatabaseUnavailable) as error:
            logger.error("response %s was not kept: %s", kept.id, error)

    def told(self, head: ResponseHead, scope: str, response: Mapping[str, Any]) -> None:
        """Add an answer that ended well to its conversation; it is there whether or not that can
        be done."""
        talk = head.asked.conversation
        if talk is None or response["status"] not in ("completed", "incomplete"):
            return
        asked = openai_responses.stored_items(head.asked.items, f"{head.stem}_in")
        try:
            self.conversations.append(scope, talk, [*asked, *response["output"]])
        except StorageUnavailable as error:
            logger.error("conversation %s was not kept: %s", talk, error.detail)

    def require(self, id: str) -> KeptResponse:
        """Raises UnknownResponse, for those of others too."""
        scope = scope_of(request.environ)
        encoder = self.live.get((scope, id))
        with reachable():
            found = self.store.get(scope, id)
        if found is None and encoder is not None:
            found = KeptResponse(id=id, scope=scope, created_at=0, body=encoder.response)
        if found is None:
            raise UnknownResponse(id)
        return found
