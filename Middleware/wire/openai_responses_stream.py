"""What a server with OpenAI's Responses interface answers, streamed and whole -> our events."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

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
from Middleware.wire.openai_chat_stream import finish_reason
from Middleware.wire.payload_parser import (
    PayloadParser,
    count_in,
    index_in,
    parse_body,
    parse_payloads,
    text_of,
)
from Middleware.wire.tool_calls import arguments_text, new_call_id

_REASONS: Final = {"max_output_tokens": "length", "content_filter": "content_filter"}
_TEXT_DELTAS: Final = frozenset(("response.output_text.delta", "response.refusal.delta"))
_THOUGHT_DELTAS: Final = frozenset(
    ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
)
_ENDS: Final = frozenset(("response.completed", "response.incomplete"))


class StreamParser(PayloadParser):
    """Makes events of the payloads of one stream; their ``type`` says it all.

    What was not told piece by piece is taken from the finished items, and what was not told item
    by item from the finished response.
    """

    def __init__(self, voice: BackendVoice, new_id: Callable[[], str] = new_call_id) -> None:
        super().__init__(voice)
        self._new_id = new_id
        self._told: dict[Any, str] = {}
        """Output index -> the kind of deltas it came in, of items that speak."""
        self._kinds: set[str] = set()
        """Types of items of which something was told."""
        self._calls: dict[Any, int] = {}
        """Output index -> number of the call."""
        self._ids: dict[str, int] = {}
        """The same by its id."""
        self._count = 0
        self._silent: set[int] = set()
        """Calls that got no arguments yet."""
        self._reason: str | None = None
        self._usage: Usage | None = None

    def feed(self, payload: bytes) -> list[Event]:
        # Not of this interface, but some servers in its clothes say it.
        return [] if payload == b"[DONE]" else super().feed(payload)

    def take(self, said: Mapping[str, Any]) -> list[Event]:
        kind = text_of(said, "type")
        if kind in _TEXT_DELTAS or kind in _THOUGHT_DELTAS:
            return self._delta(said)
        if kind == "response.function_call_arguments.delta":
            return self._arguments(index_in(said, "output_index"), said.get("delta"))
        if kind == "response.function_call_arguments.done":
            return self._missing_arguments(index_in(said, "output_index"), said.get("arguments"))
        if kind == "response.output_item.added":
            return self._begin(index_in(said, "output_index"), said.get("item"))
        if kind == "response.output_item.done":
            return self.take_item(index_in(said, "output_index"), said.get("item"))
        if kind in _ENDS:
            return self.take_response(said.get("response"))
        self._raise_error_in(said)
        return []

    def take_response(self, response: Any) -> list[Event]:
        """The finished response. Items that were not told of are taken from it."""
        self.done = True
        if not isinstance(response, Mapping):
            return []
        details = response.get("incomplete_details")
        reason = text_of(details, "reason") if isinstance(details, Mapping) else ""
        self._reason = _REASONS.get(reason, "stop")
        self._usage = parse_usage(response.get("usage"))
        events: list[Event] = []
        output, known = response.get("output"), frozenset(self._kinds)
        for index, item in enumerate(output if isinstance(output, list) else ()):
            # Not by index: some servers give every item the same one.
            if isinstance(item, Mapping) and text_of(item, "type") not in known:
                events += self.take_item(("response", index), item)
        return events

    def take_item(self, index: Any, item: Any) -> list[Event]:
        """A finished item: what of it was not told yet."""
        if not isinstance(item, Mapping):
            return []
        self._kinds.add(text_of(item, "type"))
        if item.get("type") == "function_call":
            events = self._begin(index, item)
            return [*events, *self._missing_arguments(index, item.get("arguments"))]
        if index in self._told:
            return []
        if item.get("type") == "message":
            text = _texts(item.get("content"), "")
            return [TextDelta(text)] if text else []
        if item.get("type") == "reasoning":
            thought = _texts(item.get("summary"), "\n\n") or _texts(item.get("content"), "")
            return [ReasoningDelta(thought)] if thought else []
        return []

    def last_events(self) -> list[Event]:
        events: list[Event] = [ToolCallDelta(index, "{}") for index in sorted(self._silent)]
        return [*events, Finish(finish_reason(self._reason, self._count > 0), self._usage)]

    def _delta(self, said: Mapping[str, Any]) -> list[Event]:
        kind, text = said["type"], said.get("delta")
        index = index_in(said, "output_index")
        # Some servers tell a thought twice: as it is, and summed up. The first to come counts.
        if not isinstance(text, str) or not text or self._told.setdefault(index, kind) != kind:
            return []
        if kind in _TEXT_DELTAS:
            self._kinds.add("message")
            return [TextDelta(text)]
        self._kinds.add("reasoning")
        return [ReasoningDelta(text)]

    def _begin(self, index: Any, item: Any) -> list[Event]:
        if not isinstance(item, Mapping) or item.get("type") != "function_call":
            return []
        given = item.get("call_id") or item.get("id")
        known = self._calls.get(index) if given is None else self._ids.get(str(given))
        if known is not None:
            self._calls[index] = known
            return []
        number = self._calls[index] = self._count
        self._count += 1
        identity = self._new_id() if given is None else str(given)
        self._ids[identity] = number
        self._silent.add(number)
        return [ToolCallDelta(number, "", identity, str(item.get("name") or ""))]

    def _arguments(self, index: Any, piece: Any) -> list[Event]:
        number = self._calls.get(index)
        if number is None or not isinstance(piece, str) or not piece:
            return []
        self._silent.discard(number)
        return [ToolCallDelta(number, piece)]

    def _missing_arguments(self, index: Any, whole: Any) -> list[Event]:
        if self._calls.get(index) not in self._silent:
            return []
        return self._arguments(index, arguments_text(whole))

    def _raise_error_in(self, said: Mapping[str, Any]) -> None:
        kind, error = said.get("type"), said.get("error")
        response = said.get("response")
        if kind == "response.failed" and isinstance(response, Mapping):
            error = response.get("error") or {"message": "the response failed"}
        elif kind == "error":
            error = error or {"message": said.get("message"), "code": said.get("code")}
        if error:
            raise self.voice.reported(error)


def parse_stream(payloads: Iterable[bytes], voice: BackendVoice) -> Iterator[Event]:
    """All events of a stream whose payloads are at hand."""
    return parse_payloads(payloads, StreamParser(voice))


def parse_reply(body: bytes, voice: BackendVoice) -> Reply:
    """An answer that came whole; raises BackendRejected and BackendBadReply."""
    whole = parse_body(body, voice)
    if whole.get("error"):
        raise voice.reported(whole["error"])
    if whole.get("status") == "failed":
        raise voice.reported({"message": "the response failed"})
    if not isinstance(whole.get("output"), list):
        raise voice.nonsense("sent an answer without output.", body)
    parser = StreamParser(voice)
    return collect([*parser.take_response(whole), *parser.finish()])


def parse_usage(value: Any) -> Usage | None:
    """None where nothing was counted."""
    prompt, completion = count_in(value, "input_tokens"), count_in(value, "output_tokens")
    if prompt is None and completion is None:
        return None
    return Usage(prompt_tokens=prompt or 0, completion_tokens=completion or 0)


def _texts(parts: Any, between: str) -> str:
    """The texts of a list of parts; what a model refuses to say is what it says."""
    if not isinstance(parts, list):
        return ""
    found = (part.get("text") or part.get("refusal") for part in parts if isinstance(part, Mapping))
    return between.join(text for text in found if isinstance(text, str))
