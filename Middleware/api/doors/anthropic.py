"""Anthropic's messages. Routes only: the shapes are in ``wire``."""

from flask import Blueprint, Response

from Middleware.api.delivery import Delivery
from Middleware.api.doors.common import EVENT_STREAM, json_body, json_response
from Middleware.core.errors import MiddlewareError
from Middleware.core.messages import ChatRequest
from Middleware.wire import anthropic_messages
from Middleware.wire.bodies import write_json


class MessagesFormat:
    """See :class:`AnswerFormat`."""

    name = "anthropicmessages"
    stream_type = EVENT_STREAM

    def encoder(
        self, asked: ChatRequest, *, request_id: str, model: str
    ) -> anthropic_messages.AnswerStream:
        # The first frame wants a number before any model has counted.
        estimate = anthropic_messages.count_tokens(asked) if asked.stream else 0
        return anthropic_messages.AnswerStream(f"msg_{request_id}", model, input_tokens=estimate)

    def error_body(self, error: MiddlewareError) -> bytes:
        return write_json(anthropic_messages.encode_error(error))


def anthropic_door(delivery: Delivery) -> Blueprint:
    """Its model list is the one at ``/v1/models``, which knows its clients by a header."""
    door = Blueprint("anthropic", __name__)
    messages = MessagesFormat()

    @door.post("/v1/messages")
    @door.post("/messages")
    def create_message() -> Response:
        """A chat in Anthropic's shape, streamed or whole."""
        return delivery.send(anthropic_messages.parse_request(json_body()), messages)

    @door.post("/v1/messages/count_tokens")
    @door.post("/messages/count_tokens")
    def count_tokens() -> Response:
        """An estimate of what a request's messages and tools come to."""
        asked = anthropic_messages.parse_request(json_body())
        return json_response(
            anthropic_messages.encode_count(anthropic_messages.count_tokens(asked))
        )

    return door
