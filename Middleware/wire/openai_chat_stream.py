"""What an OpenAI-type model server answers, streamed or whole -> our events."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from Middleware.core.events import (
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    Reply,
    TextDelta,
    Usage,
    collect,
)
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.bodies import BadJson, read_json_leniently
from Middleware.wire.framing import SseDecoder
from Middleware.wire.logprobs import Confidence
from Middleware.wire.tool_calls import ToolCallRepair, repair_whole

logger = logging.getLogger(__name__)

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "content_filter": "content_filter",
    "safety": "content_filter",
}
"""Anything else counts as ``stop``."""

_CUT_OFF: Final = "closed the connection in the middle of its answer."
_NO_CHOICES: Final = "sent an answer without choices."
_SSE_STARTS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")


class StreamParser:
    """Makes events of the payloads of one stream.

    A stream is complete when it brought a finish reason, or said ``[DONE]``. One that said
    ``[DONE]`` without a reason has ended of its own will: that is ``stop``. One that just ends
    was cut off, and never counts as ``stop`` (case C-02).
    """

    def __init__(self, voice: BackendVoice, calls: ToolCallRepair | None = None) -> None:
        self._voice = voice
        self._calls = calls or ToolCallRepair()
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._confidence = Confidence()
        self._began = False
        self.done = False
        """Whether ``[DONE]`` was said: nothing more will come."""
        self.heard = False
        """Whether anything came that belongs to such a stream."""

    @property
    def complete(self) -> bool:
        return self.done or self._reason is not None

    def feed(self, payload: bytes) -> list[Event]:
        """Raises BackendRejected when the payload reports an error."""
        if payload == b"[DONE]":
            self.done = self.heard = True
            return []
        chunk = self._read(payload)
        if chunk is None or self.done:
            return []
        self.heard = True
        usage = chunk.get("usage")
        if usage:
            self._usage = parse_usage(usage) or self._usage
        choices = chunk.get("choices")
        if not choices or chunk.get("error"):
            _raise_error_in(chunk, self._voice)
            return []
        choice = first_choice(choices)
        return self._events_of(choice) if choice else []

    def finish(self) -> list[Event]:
        """The last events, Finish at their end; raises BackendBadReply when it was cut off."""
        if not self.complete:
            raise self._voice.nonsense(_CUT_OFF)
        events: list[Event] = [*self._calls.close()]
        reason = finish_reason(self._reason, self._calls.any_sent)
        events.append(Finish(reason, self._usage, self._confidence.value()))
        return events

    def _read(self, payload: bytes) -> Mapping[str, Any] | None:
        try:
            chunk = read_json_leniently(payload)
        except BadJson:
            logger.warning(
                "Endpoint %r sent a line that is no JSON; it was skipped: %s",
                self._voice.endpoint,
                self._voice.quote(payload),
            )
            return None
        return chunk if isinstance(chunk, dict) else None

    def _events_of(self, choice: Mapping[str, Any]) -> list[Event]:
        delta = choice.get("delta")
        if delta is None and not self._began:
            # A whole message in a stream's clothes.
            delta = choice.get("message")
        events: list[Event] = []
        if isinstance(delta, dict):
            self._began = True
            content = delta.get("content")
            # Most chunks are a piece of text and nothing else.
            if content.__class__ is str:
                if len(delta) > 1:
                    self._add_others(delta, events)
                if content:
                    events.append(TextDelta(content))
            else:
                self._add_others(delta, events)
                events += _parts(content)
            self._add_calls(delta, events)
        logprobs = choice.get("logprobs")
        if logprobs:
            self._confidence.add(logprobs)
        reason = choice.get("finish_reason")
        if reason:
            if reason == "error":
                raise self._voice.reported(choice.get("error"))
            self._reason = str(reason)
        return events

    def _add_others(self, delta: Mapping[str, Any], events: list[Event]) -> None:
        """What the model thought comes before what it says, also within one chunk."""
        thought = reasoning_in(delta)
        if thought:
            events.append(ReasoningDelta(thought))

    def _add_calls(self, delta: Mapping[str, Any], events: list[Event]) -> None:
        calls = delta.get("tool_calls")
        if calls:
            events += self._calls.feed(calls)
        elif delta.get("function_call"):
            events += self._calls.feed([{"index": 0, "function": delta["function_call"]}])


def parse_stream(payloads: Iterable[bytes], voice: BackendVoice) -> Iterator[Event]:
    """All events of a stream whose payloads are at hand."""
    parser = StreamParser(voice)
    for payload in payloads:
        yield from parser.feed(payload)
        if parser.done:
            break
    yield from parser.finish()


def parse_reply(body: bytes, voice: BackendVoice) -> Reply:
    """An answer that came whole; raises BackendRejected and BackendBadReply (case C-23).

    A server that streams though it was not asked to is understood as well.
    """
    if body.lstrip().startswith(_SSE_STARTS):
        return _reply_of_stream(body, voice)
    try:
        whole = read_json_leniently(body)
    except BadJson as error:
        raise voice.no_json(body) from error
    if not isinstance(whole, dict):
        raise voice.no_json(body)
    _raise_error_in(whole, voice)
    choice = first_choice(whole.get("choices"))
    if choice is None:
        raise voice.nonsense(_NO_CHOICES, body)
    if choice.get("finish_reason") == "error":
        raise voice.reported(choice.get("error"))
    message = choice.get("message")
    if not isinstance(message, dict):
        raise voice.nonsense("sent an answer without a message.", body)
    return _reply(message, choice, parse_usage(whole.get("usage")))


def looks_whole(data: bytes) -> bool:
    """Whether what should be a stream begins like one JSON text."""
    return data.lstrip()[:1] in (b"{", b"[")


def first_choice(choices: Any) -> Mapping[str, Any] | None:
    """The choice with index 0, or without an index; others were not asked for."""
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, dict) and not choice.get("index"):
                return choice
    return None


def finish_reason(said: str | None, has_calls: bool) -> FinishReason:
    """In our vocabulary, and agreeing with the calls that there are (case C-11)."""
    reason = FINISH_REASONS.get((said or "stop").lower(), "stop")
    if has_calls:
        return "tool_calls" if reason == "stop" else reason
    return "stop" if reason == "tool_calls" else reason


def parse_usage(value: Any) -> Usage | None:
    """None where nothing was counted."""
    if not isinstance(value, Mapping):
        return None
    prompt, completion = _count(value.get("prompt_tokens")), _count(value.get("completion_tokens"))
    if prompt is None and completion is None:
        return None
    return Usage(prompt_tokens=prompt or 0, completion_tokens=completion or 0)


def reasoning_in(holder: Mapping[str, Any]) -> str:
    """Servers disagree on the name of the field; those that send both send the same text."""
    for key in ("reasoning_content", "reasoning"):
        value = holder.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def _reply(message: Mapping[str, Any], choice: Mapping[str, Any], usage: Usage | None) -> Reply:
    said = choice.get("finish_reason")
    confidence = Confidence()
    confidence.add(choice.get("logprobs"))
    text, thought = _text_and_thought(message.get("content"))
    calls = message.get("tool_calls") or [{"function": message.get("function_call")}]
    repaired = repair_whole(calls) if calls != [{"function": None}] else ()
    return Reply(
        text=text,
        reasoning=reasoning_in(message) or thought,
        tool_calls=repaired,
        finish_reason=finish_reason(str(said) if said else None, bool(repaired)),
        usage=usage,
        confidence=confidence.value(),
    )


def _reply_of_stream(body: bytes, voice: BackendVoice) -> Reply:
    decoder = SseDecoder()
    return collect(parse_stream([*decoder.feed(body), *decoder.close()], voice))


def _parts(content: Any) -> list[Event]:
    """Content as a list of parts, in a delta."""
    if not isinstance(content, list):
        return []
    text, thought = _text_and_thought(content)
    events: list[Event] = [ReasoningDelta(thought)] if thought else []
    return [*events, TextDelta(text)] if text else events


def _text_and_thought(content: Any) -> tuple[str, str]:
    """Content as text, or as parts of which some may be thoughts."""
    if isinstance(content, str):
        return content, ""
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Mapping):
            if isinstance(part.get("text"), str):
                texts.append(part["text"])
            elif "thinking" in part:
                thoughts.append(_text_and_thought(part["thinking"])[0])
    return "".join(texts), "".join(thoughts)


def _raise_error_in(value: Mapping[str, Any], voice: BackendVoice) -> None:
    """Errors that come with status 200, in a body or in a frame."""
    error = value.get("error")
    if error:
        raise voice.reported(error)
    if value.get("object") == "error" or value.get("type") == "error":
        raise voice.reported(value)


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value >= 0 else None
