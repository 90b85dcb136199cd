"""Our events -> the lines and bodies that ``/api/chat`` and ``/api/generate`` answer with."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from Middleware.core.clock import Clock
from Middleware.core.errors import MiddlewareError
from Middleware.core.events import (
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    Reply,
    ReplyBuilder,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from Middleware.core.messages import ToolCall
from Middleware.wire.bodies import write_json
from Middleware.wire.tool_arguments import arguments_object

Shape: TypeAlias = Literal["chat", "generate"]

_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What all lines of one answer share."""

    model: str
    request_id: str
    """With it the client may cancel its request (front-doors §12.2)."""


@dataclass(slots=True)
class Stopwatch:
    """Measures one answer, in nanoseconds, as Ollama counts."""

    clock: Clock
    start: float = field(init=False)
    first: float | None = None

    def __post_init__(self) -> None:
        self.start = self.clock.monotonic()

    def mark_first(self) -> None:
        """The model begins to answer: what came before was its reading of the prompt."""
        if self.first is None:
            self.first = self.clock.monotonic()

    def numbers(self, usage: Usage | None) -> dict[str, int]:
        """The durations and counts of a last line. Counts that nobody knows are left out."""
        end = self.clock.monotonic()
        first = self.start if self.first is None else self.first
        numbers = {"total_duration": _ns(end - self.start), "load_duration": 0}
        if usage is not None:
            numbers["prompt_eval_count"] = usage.prompt_tokens
        numbers["prompt_eval_duration"] = _ns(first - self.start)
        if usage is not None:
            numbers["eval_count"] = usage.completion_tokens
        numbers["eval_duration"] = _ns(end - first)
        return numbers


class AnswerStream:
    """Writes one answer, streamed or whole. The clock is read when it begins and when it ends.

    Tool calls go out whole, on the last line: Ollama's clients put no fragments together.
    ``/api/generate`` has no place for them, so there they are left out.
    """

    def __init__(self, head: AnswerHead, clock: Clock, shape: Shape) -> None:
        self._head = head
        self._clock = clock
        self._shape = shape
        self._watch = Stopwatch(clock)
        self._calls = ReplyBuilder()
        start = b'{"model":%b,"created_at":%b,' % (write_json(head.model), write_json(self._now()))
        end = b',"done":false,"request_id":%b}\n' % write_json(head.request_id)
        if shape == "chat":
            said = b'"message":{"role":"assistant","content":'
            end = b"}" + end
        else:
            said = b'"response":'
        self._text_start, self._end = start + said, end
        self._thought_start = start + said + b'"","thinking":'

    def event(self, event: Event) -> bytes:
        """The line of one event; nothing for the fragments of a tool call."""
        self._watch.mark_first()
        match event:
            case TextDelta(text):
                return self._text_start + write_json(text) + self._end
            case ReasoningDelta(text):
                return self._thought_start + write_json(text) + self._end
            case ToolCallDelta():
                self._calls.add(event)
                return b""
            case Finish(reason, usage):
                calls = self._calls.build().tool_calls
                return self._whole(Reply(tool_calls=calls, finish_reason=reason, usage=usage))

    def heartbeat(self) -> bytes:
        """A line that says nothing: this format has no comments."""
        return self._text_start + b'""' + self._end

    def failure(self, error: MiddlewareError) -> bytes:
        """The error, and a last line that does not claim that the model had stopped."""
        return (
            error_line(error)
            + write_json(
                {
                    "model": self._head.model,
                    "created_at": self._now(),
                    **(
                        {"message": _message(Reply())}
                        if self._shape == "chat"
                        else {"response": ""}
                    ),
                    "done": True,
                    "done_reason": "error",
                    "request_id": self._head.request_id,
                }
            )
            + b"\n"
        )

    def reply(self, reply: Reply) -> bytes:
        """The body of an answer that is not streamed."""
        return self._whole(reply, streamed=False)

    def _whole(self, reply: Reply, *, streamed: bool = True) -> bytes:
        """A last line, or a body: they differ in what ``/api/generate`` adds to the latter."""
        line: dict[str, Any] = {"model": self._head.model, "created_at": self._now()}
        if self._shape == "chat":
            line["message"] = _message(reply)
        else:
            line["response"] = reply.text
            if reply.reasoning:
                line["thinking"] = reply.reasoning
        line["done"] = True
        line["done_reason"] = done_reason(reply.finish_reason)
        line |= self._watch.numbers(reply.usage)
        if self._shape == "generate" and not streamed:
            line |= self._like_a_completion(reply)
        line["request_id"] = self._head.request_id
        return write_json(line) + b"\n"

    def _like_a_completion(self, reply: Reply) -> dict[str, Any]:
        """What the reference puts into this body besides (front-doors §6)."""
        created = int(self._clock.timestamp())
        choice = {"text": reply.text, "index": 0, "logprobs": None}
        return {
            "id": f"gen-{created}",
            "object": "text_completion",
            "created": created,
            "choices": [{**choice, "finish_reason": done_reason(reply.finish_reason)}],
            "usage": {},
        }

    def _now(self) -> str:
        return created_at(self._clock.timestamp())


def done_reason(reason: FinishReason) -> str:
    """Ollama has no other words: a model that called a tool has stopped."""
    return "length" if reason == "length" else "stop"


def created_at(timestamp: float) -> str:
    """Seconds since 1970 as Ollama writes times: UTC, microseconds, ``Z``."""
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def encode_loaded(head: AnswerHead, clock: Clock, *, keep_alive: Any = None) -> bytes:
    """The answer to a request that only loads a model, or unloads it (``keep_alive`` 0). There is
    nothing to load here.
    """
    return write_json(
        {
            "model": head.model,
            "created_at": created_at(clock.timestamp()),
            "response": "",
            "done": True,
            "done_reason": "unload" if keep_alive in (0, "0", "0s") else "load",
        }
    )


def encode_error(error: MiddlewareError) -> dict[str, Any]:
    """The error body of Ollama's interface: a text, not an object."""
    return {"error": error.message}


def error_line(error: MiddlewareError) -> bytes:
    """An error after the first line."""
    return write_json(encode_error(error)) + b"\n"


def _message(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message["thinking"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [encode_call(call) for call in reply.tool_calls]
    return message


def encode_call(call: ToolCall) -> dict[str, Any]:
    """A tool call in Ollama's shape, in answers and in histories: arguments are an object."""
    return {"function": {"name": call.name, "arguments": arguments_object(call.arguments)}}


def _ns(seconds: float) -> int:
    return max(int(seconds * _NANOSECONDS), 0)
