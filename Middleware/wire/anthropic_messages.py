"""Anthropic's messages, both directions: the door's half and the backend's half.

The parts live in modules of their own; this one is what others import.
"""

from Middleware.wire.anthropic_answer import (
    AnswerStream,
    encode_count,
    encode_error,
    encode_model,
    encode_models,
    error_frame,
)
from Middleware.wire.anthropic_call import (
    ACCEPTS,
    PATH,
    VERSION,
    encode_messages,
    encode_request,
    unusable,
)
from Middleware.wire.anthropic_request import count_tokens, parse_request
from Middleware.wire.anthropic_stream import StreamParser, parse_reply, parse_stream

__all__ = [
    "ACCEPTS",
    "PATH",
    "VERSION",
    "AnswerStream",
    "StreamParser",
    "count_tokens",
    "encode_count",
    "encode_error",
    "encode_messages",
    "encode_model",
    "encode_models",
    "encode_request",
    "error_frame",
    "parse_reply",
    "parse_request",
    "parse_stream",
    "unusable",
]
