"""What flows through a run: a stream of events that ends with exactly one :class:`Finish`.

"Not streaming" is :func:`collect`; there is no second path.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from Middleware.core.messages import ToolCall

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call, or of all calls of a run."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    """True when at least one part was not reported by a backend but estimated."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            estimated=self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """A piece of what the model thought, kept apart from the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A fragment of a tool call. The first of an index carries ``call_id`` and ``name``."""

    index: int
    arguments: str
    call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The last event. ``usage`` is None when nobody reported it."""

    reason: FinishReason = "stop"
    usage: Usage | None = None
    confidence: float | None = None
    """How sure the model was, from 0 to 1; None where nothing was reported."""


Event: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole answer."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage | None = None
    confidence: float | None = None


@dataclass(slots=True)
class _CallParts:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def build(self) -> ToolCall:
        return ToolCall(id=self.id, name=self.name, arguments="".join(self.arguments))


@dataclass(slots=True)
class ReplyBuilder:
    """Gathers events while they pass by, so that a streamed answer can be kept as well."""

    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _calls: dict[int, "_CallParts"] = field(default_factory=dict)
    finish: Finish | None = None

    def add(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._text.append(text)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case ToolCallDelta(index, arguments, call_id, name):
                call = self._calls.get(index)
                if call is None:
                    call = self._calls[index] = _CallParts()
                call.id = call.id or call_id or ""
                call.name = call.name or name or ""
                call.arguments.append(arguments)
            case Finish():
                self.finish = event

    def texts(self, start: int = 0) -> list[str]:
        """The pieces of the text from number ``start`` on. May be asked from any thread."""
        return self._text[start:]

    def build(self) -> Reply:
        """The reply so far; complete once ``finish`` is set."""
        finish = self.finish or Finish()
        return Reply(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=tuple(self._calls[index].build() for index in sorted(self._calls)),
            finish_reason=finish.reason,
            usage=finish.usage,
            confidence=finish.confidence,
        )


def collect(events: Iterable[Event]) -> Reply:
    """Drain a stream into one reply."""
    builder = ReplyBuilder()
    for event in events:
        builder.add(event)
    return builder.build()


def replay(reply: Reply) -> Iterator[Event]:
    """The inverse of :func:`collect`: a whole answer as a stream."""
    if reply.reasoning:
        yield ReasoningDelta(reply.reasoning)
    if reply.text:
        yield TextDelta(reply.text)
    for index, call in enumerate(reply.tool_calls):
        yield ToolCallDelta(index, call.arguments, call.id, call.name)
    yield Finish(reply.finish_reason, reply.usage, reply.confidence)
