"""OpenAI's older text completions, both directions: the door's half and the backend's half."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from Middleware.core.errors import MalformedRequest, MiddlewareError
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
from Middleware.core.messages import ChatRequest
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.bodies import write_json
from Middleware.wire.fields import flag_in, object_in, text_in
from Middleware.wire.model_call import ModelCall
from Middleware.wire.openai_chat_answer import (
    DONE,
    HEARTBEAT,
    encode_error,
    encode_usage,
    error_frame,
)
from Middleware.wire.openai_chat_stream import (
    finish_reason,
    first_choice,
    parse_usage,
    reasoning_in,
)
from Middleware.wire.openai_parameters import (
    OPENAI_FIELDS,
    SAMPLER_FIELDS,
    is_parameter,
    parse_parameters,
)
from Middleware.wire.payload_parser import PayloadParser, parse_body, parse_payloads
from Middleware.wire.tagged_prompt import parse_tagged

__all__ = [
    "ACCEPTS",
    "PATH",
    "AnswerStream",
    "StreamParser",
    "encode_error",
    "encode_request",
    "parse_reply",
    "parse_request",
    "parse_stream",
]

PATH: Final = "/v1/completions"

_OWN_FIELDS: Final = frozenset(("model", "prompt", "stream", "stream_options", "metadata"))
_OTHER_MEANING: Final[Mapping[str, tuple[Any, ...]]] = {
    "logprobs": (None,),
    "echo": (None, False),
    "best_of": (None, 1),
    "suffix": (None, ""),
}
"""Fields that say something else here than in chats, or nothing there, with the values that ask
for nothing.
"""

ACCEPTS: Final = frozenset((*OPENAI_FIELDS, *SAMPLER_FIELDS)) - frozenset(
    (
        *("n", "logprobs", "top_logprobs", "max_completion_tokens", "parallel_tool_calls"),
        *("response_format", "reasoning_effort", "verbosity", "chat_template_kwargs"),
    )
) | {"max_completion_tokens"}
"""Fields of a client's request that can be sent on."""


# The door's half.


def parse_request(body: Mapping[str, Any], *, stream_by_default: bool = False) -> ChatRequest:
    """Raises MalformedRequest naming the first field that is wrong.

    ``stream_by_default`` is the user's ``completionsStreamByDefault`` (decisions §2).
    """
    parameters = {name: v for name, v in body.items() if name not in _OTHER_MEANING}
    options = object_in(body, "stream_options")
    return ChatRequest(
        model=text_in(body, "model") or "",
        messages=parse_tagged(_prompt(body.get("prompt"))),
        stream=flag_in(body, "stream", default=stream_by_default),
        include_usage=flag_in(options, "include_usage", "stream_options."),
        parameters=parse_parameters(parameters),
        metadata=object_in(body, "metadata"),
        unknown_fields=tuple([name for name in body if _is_unused(name, body[name])]),
    )


def _prompt(value: Any) -> str:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    if isinstance(value, str):
        return value
    if value is None:
        raise MalformedRequest("prompt", "is missing")
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        raise MalformedRequest("prompt", "holds several texts; send one request for each")
    raise MalformedRequest("prompt", "must be a text; lists of tokens are not understood")


def _is_unused(name: str, value: Any) -> bool:
    if name in _OTHER_MEANING:
        return value not in _OTHER_MEANING[name]
    return name not in _OWN_FIELDS and not is_parameter(name)


class AnswerStream:
    """Writes one answer, streamed or whole. Thoughts and tool calls have no place here."""

    def __init__(self, id: str, created: int, model: str, *, include_usage: bool = False) -> None:
        """``created`` is in seconds since 1970."""
        self._id = id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._start = b'data: {"id":%b,"object":"text_completion","created":%d,"model":%b,' % (
            write_json(id),
            created,
            write_json(model),
        )
        self._text_start = self._start + b'"choices":[{"text":'

    def event(self, event: Event) -> bytes:
        match event:
            case TextDelta(text):
                return self._chunk(write_json(text), b"null")
            case ReasoningDelta() | ToolCallDelta():
                return b""
            case Finish(reason, usage):
                end = self._chunk(b'""', write_json(_reason(reason)))
                if self._include_usage and usage is not None:
                    end += self._start + b'"choices":[],"usage":' + _usage(usage) + b"}\n\n"
                return end + DONE

    def heartbeat(self) -> bytes:
        return HEARTBEAT

    def failure(self, error: MiddlewareError) -> bytes:
        return error_frame(error) + DONE

    def reply(self, reply: Reply) -> bytes:
        """The body of an answer that is not streamed."""
        choice = {
            "text": reply.text,
            "index": 0,
            "logprobs": None,
            "finish_reason": _reason(reply.finish_reason),
        }
        body: dict[str, Any] = {
            "id": self._id,
            "object": "text_completion",
            "created": self._created,
            "model": self._model,
            "choices": [choice],
        }
        if reply.usage is not None:
            body["usage"] = encode_usage(reply.usage)
        return write_json(body)

    def _chunk(self, text: bytes, reason: bytes) -> bytes:
        return (
            self._text_start
            + text
            + b',"index":0,"logprobs":null,"finish_reason":'
            + reason
            + b"}]}\n\n"
        )


def _reason(reason: FinishReason) -> FinishReason:
    return "stop" if reason == "tool_calls" else reason


def _usage(usage: Usage) -> bytes:
    return write_json(encode_usage(usage))


# The backend's half.


def encode_request(call: ModelCall) -> dict[str, Any]:
    """The body for :data:`PATH`; parameters win over what is ours, the client's over those."""
    body: dict[str, Any] = {"model": call.model} if call.model else {}
    body |= {"prompt": call.prompt, **call.parameters}
    body |= {name: v for name, v in call.client_parameters.items() if name in ACCEPTS}
    if "max_completion_tokens" in body:
        body["max_tokens"] = body.pop("max_completion_tokens")
    body["stream"] = call.stream
    if call.stream and call.include_usage:
        body.setdefault("stream_options", {"include_usage": True})
    return body


class StreamParser(PayloadParser):
    """Makes events of the payloads of one stream; complete once it told why it ends."""

    def __init__(self, voice: BackendVoice) -> None:
        super().__init__(voice)
        self._reason: str | None = None
        self._usage: Usage | None = None

    @property
    def complete(self) -> bool:
        return self.done or self._reason is not None

    def feed(self, payload: bytes) -> list[Event]:
        if payload == b"[DONE]":
            self.done = self.heard = True
            return []
        return super().feed(payload)

    def take(self, said: Mapping[str, Any]) -> list[Event]:
        _raise_error_in(said, self.voice)
        self._usage = parse_usage(said.get("usage")) or self._usage
        choice = first_choice(said.get("choices"))
        if choice is None:
            return []
        events: list[Event] = []
        thought, text = reasoning_in(choice), choice.get("text")
        if thought:
            events.append(ReasoningDelta(thought))
        if isinstance(text, str) and text:
            events.append(TextDelta(text))
        if choice.get("finish_reason"):
            self._reason = str(choice["finish_reason"])
        return events

    def last_events(self) -> list[Event]:
        return [Finish(finish_reason(self._reason, False), self._usage)]


def parse_stream(payloads: Iterable[bytes], voice: BackendVoice) -> Iterator[Event]:
    """All events of a stream whose payloads are at hand."""
    return parse_payloads(payloads, StreamParser(voice))


def parse_reply(body: bytes, voice: BackendVoice) -> Reply:
    """An answer that came whole; raises BackendRejected and BackendBadReply (case C-23)."""
    whole = parse_body(body, voice)
    _raise_error_in(whole, voice)
    choice = first_choice(whole.get("choices"))
    if choice is None:
        raise voice.nonsense("sent an answer without choices.", body)
    text, said = choice.get("text"), choice.get("finish_reason")
    return Reply(
        text=text if isinstance(text, str) else "",
        reasoning=reasoning_in(choice),
        finish_reason=finish_reason(str(said) if said else None, False),
        usage=parse_usage(whole.get("usage")),
    )


def _raise_error_in(said: Mapping[str, Any], voice: BackendVoice) -> None:
    if said.get("error"):
        raise voice.reported(said["error"])
