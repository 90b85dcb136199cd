"""Our events -> what ``/v1/chat/completions`` answers, streamed and whole (clients §2.1-2.3)."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from Middleware.core.errors import MiddlewareError
from Middleware.core.events import (
    Event,
    Finish,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from Middleware.core.messages import ToolCall
from Middleware.wire.bodies import write_json

DONE: Final = b"data: [DONE]\n\n"
HEARTBEAT: Final = b":\n\n"

_ERROR_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    499: "request_cancelled",
}


class ChunkHead:
    """What all chunks of one answer share. Their constant bytes are put together once."""

    __slots__ = ("_choice", "_start", "created", "id", "model")

    def __init__(self, id: str, created: int, model: str) -> None:
        """``created`` is in seconds since 1970."""
        self.id = id
        self.created = created
        self.model = model
        self._start = (
            b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,'
            % (
                write_json(id),
                created,
                write_json(model),
            )
        )
        self._choice = self._start + b'"choices":[{"index":0,"delta":{'

    def chunk(self, delta: bytes) -> bytes:
        """A frame around the members of a delta, which are JSON already."""
        return self._choice + delta + b'},"finish_reason":null}]}\n\n'

    def last_chunk(self, reason: bytes) -> bytes:
        return self._choice + b'},"finish_reason":"' + reason + b'"}]}\n\n'

    def usage_chunk(self, usage: bytes) -> bytes:
        return self._start + b'"choices":[],"usage":' + usage + b"}\n\n"


def role_chunk(head: ChunkHead) -> bytes:
    """The first frame of a stream: some clients fail when no chunk names the role."""
    return head.chunk(b'"role":"assistant","content":""')


def encode_stream_event(event: Event, head: ChunkHead) -> bytes:
    """The frame of one event. Usage has a frame of its own, see :func:`usage_chunk`."""
    match event:
        case TextDelta(text):
            return head.chunk(b'"content":' + _text(text))
        case ReasoningDelta(text):
            return head.chunk(b'"reasoning_content":' + _text(text))
        case ToolCallDelta():
            return head.chunk(b'"tool_calls":[' + _tool_fragment(event) + b"]")
        case Finish(reason):
            return head.last_chunk(reason.encode())


def usage_chunk(usage: Usage, head: ChunkHead) -> bytes:
    """For clients that asked with ``include_usage``; stands right before the end (C-15)."""
    return head.usage_chunk(orjson.dumps(encode_usage(usage)))


def encode_stream(
    events: Iterable[Event], head: ChunkHead, *, include_usage: bool = False
) -> Iterator[bytes]:
    """A whole stream. A failure on the way becomes an error frame: the status line is gone."""
    yield role_chunk(head)
    try:
        for event in events:
            yield encode_stream_event(event, head)
            if include_usage and isinstance(event, Finish) and event.usage is not None:
                yield usage_chunk(event.usage, head)
    except MiddlewareError as error:
        yield error_frame(error)
    yield DONE


def encode_reply(reply: Reply, head: ChunkHead) -> bytes:
    """The body of an answer that is not streamed."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if reply.tool_calls and not reply.text else reply.text,
    }
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [encode_tool_call(call) for call in reply.tool_calls]
    body: dict[str, Any] = {
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": reply.finish_reason,
            }
        ],
    }
    if reply.usage is not None:
        body["usage"] = encode_usage(reply.usage)
    return write_json(body)


def encode_tool_call(call: ToolCall) -> dict[str, Any]:
    """No arguments are an empty object: empty text is no JSON (C-12)."""
    arguments = call.arguments if call.arguments.strip() else "{}"
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def encode_usage(usage: Usage) -> dict[str, int]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def encode_error(error: MiddlewareError) -> dict[str, Any]:
    """The error object of OpenAI's interface; its status is ``error.status``."""
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": error.message,
            "type": _ERROR_TYPES.get(error.status, kind),
            "param": error.param,
            "code": error.code,
        }
    }


def error_frame(error: MiddlewareError) -> bytes:
    """An error after the first byte. :data:`DONE` follows it."""
    return b"data: " + write_json(encode_error(error)) + b"\n\n"


def _text(text: str) -> bytes:
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:
        return write_json(text)


def _tool_fragment(event: ToolCallDelta) -> bytes:
    """Id, type and name stand in the first fragment only: clients join what is repeated."""
    function: dict[str, Any] = {"arguments": event.arguments}
    fragment: dict[str, Any] = {"index": event.index, "function": function}
    if event.call_id is not None or event.name is not None:
        function = {"name": event.name or "", "arguments": event.arguments}
        fragment = {
            "index": event.index,
            "id": event.call_id or "",
            "type": "function",
            "function": function,
        }
    return write_json(fragment)
