"""Ollama's ``/api/generate``, both directions: the door's half and the backend's half.

The parts live in modules of their own; this one is what others import.
"""

from Middleware.core.clock import Clock
from Middleware.wire.ollama_answer import (
    AnswerHead,
    AnswerStream,
    encode_error,
    encode_loaded,
    error_line,
)
from Middleware.wire.ollama_call import ACCEPTS
from Middleware.wire.ollama_call import GENERATE_PATH as PATH
from Middleware.wire.ollama_call import encode_generate as encode_request
from Middleware.wire.ollama_request import only_loads
from Middleware.wire.ollama_request import parse_generate as parse_request
from Middleware.wire.ollama_stream import StreamParser, parse_reply, parse_stream

__all__ = [
    "ACCEPTS",
    "PATH",
    "AnswerHead",
    "AnswerStream",
    "StreamParser",
    "answer_stream",
    "encode_error",
    "encode_loaded",
    "encode_request",
    "error_line",
    "only_loads",
    "parse_reply",
    "parse_request",
    "parse_stream",
]


def answer_stream(head: AnswerHead, clock: Clock) -> AnswerStream:
    """The writer of one answer; its times count from now."""
    return AnswerStream(head, clock, "generate")
