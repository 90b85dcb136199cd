"""OpenAI's Responses interface, both directions: the door's half and the backend's half.

The parts live in modules of their own; this one is what others import.
"""

from Middleware.wire.openai_chat_answer import encode_error
from Middleware.wire.openai_responses_answer import AnswerStream, Frame
from Middleware.wire.openai_responses_call import (
    ACCEPTS,
    PATH,
    encode_messages,
    encode_request,
)
from Middleware.wire.openai_responses_items import (
    Approval,
    messages_of,
    stored_items,
)
from Middleware.wire.openai_responses_object import (
    Outcome,
    Page,
    ResponseHead,
    encode_deleted,
    encode_items,
    encode_response,
    failure_code,
    outcome_of,
    parse_page,
)
from Middleware.wire.openai_responses_request import (
    ResponsesRequest,
    parse_request,
    with_history,
)
from Middleware.wire.openai_responses_stream import StreamParser, parse_reply, parse_stream

__all__ = [
    "ACCEPTS",
    "PATH",
    "AnswerStream",
    "Approval",
    "Frame",
    "Outcome",
    "Page",
    "ResponseHead",
    "ResponsesRequest",
    "StreamParser",
    "encode_deleted",
    "encode_error",
    "encode_items",
    "encode_messages",
    "encode_request",
    "encode_response",
    "failure_code",
    "messages_of",
    "outcome_of",
    "parse_page",
    "parse_reply",
    "parse_request",
    "parse_stream",
    "stored_items",
    "with_history",
]
