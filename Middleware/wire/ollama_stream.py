"""What an Ollama server answers, streamed and whole -> our events (config-files §13.3, §13.4)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from Middleware.core.errors import BackendBadReply
from Middleware.core.events import (
    Event,
    Finish,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCallDelta,
    Usage,
    collect,
)
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.framing import NdjsonDecoder
from Middleware.wire.openai_chat_stream import finish_reason
from Middleware.wire.payload_parser import PayloadParser, count_in, parse_body, parse_payloads
from Middleware.wire.tool_calls import new_call_id, repair_whole


class StreamParser(PayloadParser):
    """Makes events of the lines of one stream of ``/api/chat`` or ``/api/generate``.

    Only a line that says ``done`` completes an answer. Every tool call comes whole, without an
    index and often without an id (cases C-08, C-11).
    """

    def __init__(self, voice: BackendVoice, new_id: Callable[[], str] = new_call_id) -> None:
        super().__init__(voice)
        self._new_id = new_id
        self._ids: set[str] = set()
        self._reason: str | None = None
        self._usage: Usage | None = None

    def take(self, said: Mapping[str, Any]) -> list[Event]:
        if said.get("error"):
            raise self.voice.reported(said["error"])
        message = said.get("message")
        events: list[Event] = []
        if isinstance(message, dict):
            _add(events, message.get("thinking"), message.get("content"))
            if message.get("tool_calls"):
                events += self._calls(message["tool_calls"])
        else:
            _add(events, said.get("thinking"), said.get("response"))
        if said.get("done") is True:
            self.done = True
            reason = said.get("done_reason")
            self._reason = reason if isinstance(reason, str) else None
            if self._reason == "error":
                raise self.voice.reported(None)
            self._usage = parse_usage(said)
        return events

    def last_events(self) -> list[Event]:
        return [Finish(finish_reason(self._reason, bool(self._ids)), self._usage)]

    def _calls(self, calls: Any) -> list[ToolCallDelta]:
        events: list[ToolCallDelta] = []
        for call in repair_whole(calls, self._new_id):
            identity = call.id if call.id not in self._ids else self._new_id()
            events.append(ToolCallDelta(len(self._ids), call.arguments, identity, call.name))
            self._ids.add(identity)
        return events


def parse_stream(lines: Iterable[bytes], voice: BackendVoice) -> Iterator[Event]:
    """All events of a stream whose lines are at hand."""
    return parse_payloads(lines, StreamParser(voice))


def parse_reply(body: bytes, voice: BackendVoice) -> Reply:
    """An answer that came whole; raises BackendRejected and BackendBadReply.

    A server that streams though it was not asked to is understood as well.
    """
    try:
        whole = parse_body(body, voice)
    except BackendBadReply:
        decoder = NdjsonDecoder()
        lines = [*decoder.feed(body), *decoder.close()]
        if len(lines) < 2 or not lines[0].startswith(b"{"):
            raise
        return collect(parse_stream(lines, voice))
    said = whole.get("message", whole.get("response"))
    if not whole.get("error") and not isinstance(said, dict | str):
        raise voice.nonsense("sent an answer without a message.", body)
    parser = StreamParser(voice)
    # Whether or not it says so, a whole answer is complete.
    return collect([*parser.take({**whole, "done": True}), *parser.finish()])


def parse_usage(said: Mapping[str, Any]) -> Usage | None:
    """None where nothing was counted. A prompt that was cached whole is not counted by Ollama."""
    prompt, completion = count_in(said, "prompt_eval_count"), count_in(said, "eval_count")
    if prompt is None and completion is None:
        return None
    return Usage(prompt_tokens=prompt or 0, completion_tokens=completion or 0)


def _add(events: list[Event], thought: Any, text: Any) -> None:
    """What the model thought comes before what it says, also within one line."""
    if isinstance(thought, str) and thought:
        events.append(ReasoningDelta(thought))
    if isinstance(text, str) and text:
        events.append(TextDelta(text))
