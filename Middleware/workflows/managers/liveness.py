"""The tool call that keeps an agent's loop going (front-doors §11.2)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from Middleware.core.events import Event, Finish, TextDelta, ToolCallDelta
from Middleware.core.messages import Message, ToolCall

_ID_START: Final = "wilmer_liveness_"
_MARK: Final = "[Wilmer]"
_FILLER: Final = "Assistant:"
_FEW: Final = 3
DOORS: Final = frozenset(("openaichatcompletion", "ollamaapichat"))
"""Where calls are added to streams."""


@dataclass(frozen=True, slots=True)
class LivenessCall:
    """The user's ``livenessToolCall``."""

    name: str
    arguments: Mapping[str, Any]

    @staticmethod
    def parse(value: Any) -> "LivenessCall | None":
        """None for whatever names no tool."""
        if not isinstance(value, Mapping):
            return None
        name, arguments = value.get("toolName"), value.get("arguments")
        if not isinstance(name, str) or not name.strip():
            return None
        return LivenessCall(name.strip(), arguments if isinstance(arguments, Mapping) else {})

    def made(self, unique: str) -> ToolCallDelta:
        arguments = orjson.dumps(dict(self.arguments)).decode()
        return ToolCallDelta(0, arguments, f"{_ID_START}{unique[-8:]}", self.name)

    def is_ours(self, call: ToolCall) -> bool:
        """Whether a call in a client's history was made by this feature, or for it."""
        if call.id.startswith(_ID_START) or _MARK in call.arguments:
            return True
        return call.name == self.name and _object(call.arguments) == self.arguments


def kept_alive(
    events: Iterator[Event], call: LivenessCall, wanted: Callable[[], bool], unique: str
) -> Iterator[Event]:
    """The stream, with the call before its end when no tool is called in it and the answering
    node ``wanted`` it, or when it says nothing at all.
    """
    blank, called = True, False
    try:
        for event in events:
            if isinstance(event, TextDelta):
                blank = blank and not event.text.strip()
            elif isinstance(event, ToolCallDelta):
                called = True
            elif isinstance(event, Finish) and not called and (blank or wanted()):
                yield call.made(unique)
                event = Finish("tool_calls", event.usage)
            yield event
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            close()


def cleaned(messages: tuple[Message, ...], call: LivenessCall) -> tuple[Message, ...]:
    """A conversation without our calls and their results, and without what an agent repeated."""
    end = _last_exchange(messages, call)
    return tuple(_without_repetitions([*_without_ours(messages[:end], call), *messages[end:]]))


def _last_exchange(messages: Sequence[Message], call: LivenessCall) -> int:
    """Where the exchange begins that the conversation ends with, if it holds a call of ours: the
    model must see what it goes on from. Otherwise the end.
    """
    place = len(messages)
    while place and messages[place - 1].role == "assistant" and _is_empty(messages[place - 1]):
        place -= 1
    while place and messages[place - 1].role == "tool":
        place -= 1
    caller = messages[place - 1] if place else None
    if caller is not None and any(map(call.is_ours, caller.tool_calls)):
        return place - 1
    return len(messages)


def _without_ours(messages: Sequence[Message], ours: LivenessCall) -> Iterator[Message]:
    gone: set[str] = set()
    nameless = 0
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id in gone:
                continue
            if not message.tool_call_id and nameless:
                nameless -= 1
                continue
            yield message
            continue
        nameless = 0
        removed = [call for call in message.tool_calls if ours.is_ours(call)]
        if not removed:
            yield message
            continue
        gone |= {call.id for call in removed if call.id}
        kept = tuple(call for call in message.tool_calls if call not in removed)
        nameless = 0 if kept else len(removed)
        shortened = replace(message, tool_calls=kept)
        if not _is_empty(shortened):
            yield shortened


def _without_repetitions(messages: list[Message]) -> Iterator[Message]:
    place = 0
    while place < len(messages):
        pair = _pair(messages, place)
        times = 1
        while pair is not None and _pair(messages, place + 2 * times) == pair:
            times += 1
        if pair is None or times < _FEW:
            yield messages[place]
            place += 1
            continue
        result = messages[place + 1]
        note = (
            f"\n\n[This call was made {times} times in a row, each time with this result. "
            "Making it again will not help.]"
        )
        yield messages[place]
        yield replace(result, content=result.content + note)
        place += 2 * times


def _pair(messages: Sequence[Message], place: int) -> tuple[str, str, str] | None:
    """What makes two exchanges of one call and one result the same."""
    if place + 1 >= len(messages):
        return None
    caller, result = messages[place], messages[place + 1]
    if caller.role != "assistant" or len(caller.tool_calls) != 1 or result.role != "tool":
        return None
    (call,) = caller.tool_calls
    return call.name, call.arguments, " ".join(result.content.split())


def _is_empty(message: Message) -> bool:
    return not message.tool_calls and message.content.strip() in ("", _FILLER)


def _object(text: str) -> Any:
    try:
        return orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return None
