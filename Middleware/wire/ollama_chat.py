"""Ollama's ``/api/chat``, both directions: the door's half and the backend's half.

The parts live in modules of their own; this one is what others import.
"""

from Middleware.core.clock import Clock
from Middleware.wire.ollama_answer import (
    AnswerHead,
    AnswerStream,
    encode_error,
    error_line,
)
from Middleware.wire.ollama_call import ACCEPTS, encode_messages
from Middleware.wire.ollama_call import CHAT_PATH as PATH
from Middleware.wire.ollama_call import encode_chat as encode_request
from Middleware.wire.ollama_request import parse_chat as parse_request
from Middleware.wire.ollama_stream import StreamParser, parse_reply, parse_stream

__all__ = [
    "ACCEPTS",
    "PATH",
    "AnswerHead",
    "AnswerStream",
    "StreamParser",
    "answer_stream",
    "encode_error",
    "encode_messages",
    "encode_request",
    "error_line",
    "parse_reply",
    "parse_request",
    "parse_stream",
]


def answer_stream(head: AnswerHead, clock: Clock) -> AnswerStream:
    """The writer of one answer; its times count from now."""
    return AnswerStream(head, clock, "chat")
