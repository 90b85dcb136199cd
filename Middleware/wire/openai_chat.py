"""OpenAI's chat completions, both directions: the door's half and the backend's half.

The parts live in modules of their own; this one is what others import.
"""

from Middleware.wire.openai_chat_answer import (
    DONE,
    HEARTBEAT,
    ChunkHead,
    encode_error,
    encode_reply,
    encode_stream,
    encode_stream_event,
    error_frame,
    role_chunk,
    usage_chunk,
)
from Middleware.wire.openai_chat_request import parse_request

__all__ = [
    "DONE",
    "HEARTBEAT",
    "ChunkHead",
    "encode_error",
    "encode_reply",
    "encode_stream",
    "encode_stream_event",
    "error_frame",
    "parse_request",
    "role_chunk",
    "usage_chunk",
]
