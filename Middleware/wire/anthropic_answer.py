"""Our events -> what ``/v1/messages`` answers, streamed and whole (clients §2.5)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from Middleware.core.errors import BackendUnreachable, MiddlewareError
from Middleware.core.events import (
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from Middleware.wire.bodies import write_json
from Middleware.wire.tool_arguments import arguments_object, is_whole

STOP_REASONS: Final[dict[FinishReason, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
SIGNATURE: Final = "unsigned"
"""Stands where Anthropic proves that a thought is its own. Ours cannot be sent to it."""

_ERROR_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_DELTAS: Final = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
_PING: Final = b'event: ping\ndata: {"type":"ping"}\n\n'


@dataclass(slots=True)
class _Block:
    """A content block that is open. Its number and kind are put into its frames only once."""

    index: int
    kind: str
    arguments: list[str] = field(default_factory=list)
    start: bytes = field(init=False)

    def __post_init__(self) -> None:
        kind, key = _DELTAS[self.kind]
        self.start = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"%b","%b":' % (self.index, kind.encode(), key.encode())
        )

    def delta(self, text: str) -> bytes:
        return self.start + write_json(text) + b"}}\n\n"

    def is_whole(self) -> bool:
        """Whether nothing can be added to it: true of texts that something else follows."""
        return self.kind != "tool_use" or is_whole("".join(self.arguments))


class AnswerStream:
    """Writes one answer, streamed or whole. ``input_tokens`` is an estimate: the true number
    comes with the end.

    A block ends when another begins. Only a tool call whose arguments are not whole yet stays
    open, because backends may send the fragments of several calls by turns.
    """

    def __init__(self, id: str, model: str, *, input_tokens: int = 0) -> None:
        self._id = id
        self._model = model
        self._input_tokens = input_tokens
        self._begun = False
        self._count = 0
        self._spoken = False
        self._open: list[_Block] = []
        self._calls: dict[int, _Block] = {}

    def event(self, event: Event) -> bytes:
        """The frames of one event."""
        opening = b"" if self._begun else self._begin()
        match event:
            case TextDelta(text):
                return opening + self._add("text", text)
            case ReasoningDelta(text):
                return opening + self._add("thinking", text)
            case ToolCallDelta():
                return opening + self._add_call(event)
            case Finish(reason, usage):
                return opening + self._end(reason, usage)

    def heartbeat(self) -> bytes:
        return _PING if self._begun else self._begin() + _PING

    def failure(self, error: MiddlewareError) -> bytes:
        return error_frame(error)

    def reply(self, reply: Reply) -> bytes:
        """The body of an answer that is not streamed."""
        content: list[dict[str, Any]] = []
        if reply.reasoning:
            content.append(
                {"type": "thinking", "thinking": reply.reasoning, "signature": SIGNATURE}
            )
        if reply.text or not reply.tool_calls:
            content.append({"type": "text", "text": reply.text})
        for call in reply.tool_calls:
            arguments = arguments_object(call.arguments)
            content.append(
                {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
            )
        usage = reply.usage or Usage(prompt_tokens=self._input_tokens)
        return write_json(
            {
                **self._head(usage),
                "content": content,
                "stop_reason": STOP_REASONS[reply.finish_reason],
            }
        )

    def _head(self, usage: Usage) -> dict[str, Any]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(usage),
        }

    def _begin(self) -> bytes:
        self._begun = True
        message = self._head(Usage(prompt_tokens=self._input_tokens))
        return _frame("message_start", message=message)

    def _add(self, kind: str, text: str) -> bytes:
        last = self._open[-1] if self._open else None
        if last is not None and last.kind == kind:
            return last.delta(text)
        opening, block = self._open_block(kind, _EMPTY_BLOCKS[kind])
        return opening + block.delta(text)

    def _add_call(self, event: ToolCallDelta) -> bytes:
        block = self._calls.get(event.index)
        opening = b""
        if block is None:
            start = {"type": "tool_use", "id": event.call_id or "", "name": event.name or ""}
            opening, block = self._open_block("tool_use", {**start, "input": {}})
            self._calls[event.index] = block
        if not event.arguments or block not in self._open:
            return opening
        block.arguments.append(event.arguments)
        return opening + block.delta(event.arguments)

    def _open_block(self, kind: str, start: dict[str, Any]) -> tuple[bytes, _Block]:
        """Close what is whole, and begin a new block."""
        closing = self._close(block for block in list(self._open) if block.is_whole())
        block = _Block(self._count, kind)
        self._count += 1
        self._spoken = self._spoken or kind != "thinking"
        self._open.append(block)
        return closing + _frame(
            "content_block_start", index=block.index, content_block=start
        ), block

    def _close(self, blocks: Iterable[_Block]) -> bytes:
        frames = b""
        for block in blocks:
            self._open.remove(block)
            if block.kind == "thinking":
                delta = {"type": "signature_delta", "signature": SIGNATURE}
                frames += _frame("content_block_delta", index=block.index, delta=delta)
            frames += _frame("content_block_stop", index=block.index)
        return frames

    def _end(self, reason: FinishReason, usage: Usage | None) -> bytes:
        frames = b""
        if not self._spoken:
            # Client code reads the first text without looking whether there is one.
            frames, _ = self._open_block("text", _EMPTY_BLOCKS["text"])
        frames += self._close(list(self._open))
        delta = {"stop_reason": STOP_REASONS[reason], "stop_sequence": None}
        counted = usage or Usage(prompt_tokens=self._input_tokens)
        frames += _frame("message_delta", delta=delta, usage=_usage(counted))
        return frames + _frame("message_stop")


_EMPTY_BLOCKS: Final[dict[str, dict[str, Any]]] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}


def encode_error(error: MiddlewareError) -> dict[str, Any]:
    """The error object of Anthropic's interface; its status is ``error.status``."""
    kind = "api_error" if error.status >= 500 else "invalid_request_error"
    # Clients try again when a server is overloaded; one that is not there is not.
    if not isinstance(error, BackendUnreachable):
        kind = _ERROR_TYPES.get(error.status, kind)
    return {"type": "error", "error": {"type": kind, "message": error.message}}


def error_frame(error: MiddlewareError) -> bytes:
    """An error after the first byte. It is the last frame: ``message_stop`` would deny it."""
    return b"event: error\ndata: " + write_json(encode_error(error)) + b"\n\n"


def encode_count(tokens: int) -> dict[str, int]:
    """The body of ``/v1/messages/count_tokens``."""
    return {"input_tokens": tokens}


def encode_model(name: str, created: int) -> dict[str, Any]:
    """One model as Anthropic's clients read it; ``created`` in seconds since 1970."""
    at = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "model", "id": name, "display_name": name, "created_at": at}


def encode_models(names: Iterable[str], created: int) -> dict[str, Any]:
    """The body of ``/v1/models`` for a request with an ``anthropic-version`` header."""
    models = [encode_model(name, created) for name in names]
    return {
        "data": models,
        "has_more": False,
        "first_id": models[0]["id"] if models else None,
        "last_id": models[-1]["id"] if models else None,
    }


def _frame(name: str, **members: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), write_json({"type": name, **members}))


def _usage(usage: Usage) -> dict[str, int]:
    return {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
