"""What Anthropic's messages API answers, streamed and whole -> our events (config-files §13.2)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from Middleware.core.events import (
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCallDelta,
    Usage,
    collect,
)
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.bodies import write_json
from Middleware.wire.openai_chat_stream import finish_reason
from Middleware.wire.payload_parser import (
    PayloadParser,
    count_in,
    index_in,
    parse_body,
    parse_payloads,
    text_of,
)
from Middleware.wire.tool_calls import new_call_id

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""Anything else counts as ``stop``."""

_INPUT_COUNTS: Final = (
    "input_tokens",
    # The first does not contain the other two.
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)


class StreamParser(PayloadParser):
    """Makes events of the payloads of one stream; their ``type`` says it all.

    Calls count up in the order in which they begin. One that got no arguments gets an empty
    object when its block ends (case C-12).
    """

    def __init__(self, voice: BackendVoice, new_id: Callable[[], str] = new_call_id) -> None:
        super().__init__(voice)
        self._new_id = new_id
        self._calls: dict[Any, int] = {}
        self._silent: set[int] = set()
        self._count = 0
        self._reason: str | None = None
        self._usage = _Counts()

    @property
    def complete(self) -> bool:
        return self.done or self._reason is not None

    def feed(self, payload: bytes) -> list[Event]:
        # Not of this API, but some servers in its clothes say it.
        return [] if payload == b"[DONE]" else super().feed(payload)

    def take(self, said: Mapping[str, Any]) -> list[Event]:
        take = _TAKES.get(text_of(said, "type"))
        if take is not None:
            return take(self, said)
        if said.get("error"):
            raise self.voice.reported(said["error"])
        return []

    def last_events(self) -> list[Event]:
        events: list[Event] = [ToolCallDelta(index, "{}") for index in sorted(self._silent)]
        reason = FINISH_REASONS.get(self._reason or "", "stop")
        return [*events, Finish(finish_reason(reason, self._count > 0), self._usage.total())]

    def _message_start(self, said: Mapping[str, Any]) -> list[Event]:
        message = said.get("message")
        self._usage.add(message.get("usage") if isinstance(message, dict) else None)
        return []

    def _block_start(self, said: Mapping[str, Any]) -> list[Event]:
        block = said.get("content_block")
        if not isinstance(block, dict):
            return []
        if block.get("type") == "tool_use":
            return self._begin_call(index_in(said, "index"), block)
        # Some servers put the whole text here.
        return _texts(block)

    def _begin_call(self, key: Any, block: Mapping[str, Any]) -> list[Event]:
        index = self._calls[key] = self._count
        self._count += 1
        given = block.get("input")
        arguments = write_json(given).decode() if given else ""
        if not arguments:
            self._silent.add(index)
        identity = block.get("id") or self._new_id()
        return [ToolCallDelta(index, arguments, str(identity), str(block.get("name") or ""))]

    def _block_delta(self, said: Mapping[str, Any]) -> list[Event]:
        delta = said.get("delta")
        if not isinstance(delta, dict):
            return []
        if delta.get("type") != "input_json_delta":
            return _texts(delta)
        index, piece = self._calls.get(index_in(said, "index")), delta.get("partial_json")
        if index is None or not isinstance(piece, str) or not piece:
            return []
        self._silent.discard(index)
        return [ToolCallDelta(index, piece)]

    def _block_stop(self, said: Mapping[str, Any]) -> list[Event]:
        index = self._calls.get(index_in(said, "index"))
        if index not in self._silent:
            return []
        self._silent.discard(index)
        return [ToolCallDelta(index, "{}")]

    def _message_delta(self, said: Mapping[str, Any]) -> list[Event]:
        delta = said.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if reason:
            self._reason = str(reason)
        self._usage.add(said.get("usage"))
        return []

    def _message_stop(self, said: Mapping[str, Any]) -> list[Event]:
        self.done = True
        return []

    def _error(self, said: Mapping[str, Any]) -> list[Event]:
        raise self.voice.reported(said.get("error"))


_TAKES: Final[Mapping[str, Callable[[StreamParser, Mapping[str, Any]], list[Event]]]] = {
    "message_start": StreamParser._message_start,
    "content_block_start": StreamParser._block_start,
    "content_block_delta": StreamParser._block_delta,
    "content_block_stop": StreamParser._block_stop,
    "message_delta": StreamParser._message_delta,
    "message_stop": StreamParser._message_stop,
    "error": StreamParser._error,
}


def parse_stream(payloads: Iterable[bytes], voice: BackendVoice) -> Iterator[Event]:
    """All events of a stream whose payloads are at hand."""
    return parse_payloads(payloads, StreamParser(voice))


def parse_reply(body: bytes, voice: BackendVoice) -> Reply:
    """An answer that came whole; raises BackendRejected and BackendBadReply."""
    whole = parse_body(body, voice)
    if whole.get("type") == "error" or whole.get("error"):
        raise voice.reported(whole.get("error"))
    content = whole.get("content")
    if not isinstance(content, list):
        raise voice.nonsense("sent an answer without content.", body)
    # A whole answer is a stream of whole blocks.
    parser = StreamParser(voice)
    events = parser.take({"type": "message_start", "message": whole})
    for index, block in enumerate(content):
        events += parser.take(
            {"type": "content_block_start", "index": index, "content_block": block}
        )
    parser.take({"type": "message_delta", "delta": whole})
    parser.done = True
    return collect([*events, *parser.finish()])


class _Counts:
    """Token counts, which come in parts; later ones replace earlier ones of the same name."""

    def __init__(self) -> None:
        self._found: dict[str, int] = {}

    def add(self, usage: Any) -> None:
        for name in (*_INPUT_COUNTS, "output_tokens"):
            count = count_in(usage, name)
            if count is not None:
                self._found[name] = count

    def total(self) -> Usage | None:
        if not self._found:
            return None
        return Usage(
            prompt_tokens=sum(self._found.get(name, 0) for name in _INPUT_COUNTS),
            completion_tokens=self._found.get("output_tokens", 0),
        )


def _texts(holder: Mapping[str, Any]) -> list[Event]:
    """A text or a thought, in a block or in a delta of one; signatures say nothing."""
    events: list[Event] = []
    thought, text = holder.get("thinking"), holder.get("text")
    if isinstance(thought, str) and thought:
        events.append(ReasoningDelta(thought))
    if isinstance(text, str) and text:
        events.append(TextDelta(text))
    return events
