"""Our events -> what ``/v1/responses`` answers, streamed and whole (clients §2.4)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from Middleware.core.errors import MiddlewareError
from Middleware.core.events import (
    Event,
    Finish,
    ReasoningDelta,
    Reply,
    TextDelta,
    ToolCallDelta,
)
from Middleware.core.messages import ToolCall
from Middleware.wire.bodies import write_json
from Middleware.wire.openai_responses_object import (
    INCOMPLETE_REASONS,
    Outcome,
    ResponseHead,
    call_item,
    encode_response,
    message_item,
    outcome_of,
    reasoning_item,
    text_part,
)
from Middleware.wire.openai_responses_tools import ToolNames
from Middleware.wire.tool_arguments import is_whole

_Kind: TypeAlias = Literal["message", "reasoning", "function_call"]

_ID_PREFIXES: Final = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_DELTAS: Final = {
    "message": "response.output_text.delta",
    "reasoning": "response.reasoning_summary_text.delta",
    "function_call": "response.function_call_arguments.delta",
}


class Frame(NamedTuple):
    """One event of the stream. A client that was cut off asks for those after a number."""

    number: int
    data: bytes


@dataclass(slots=True)
class _Item:
    """An output item while it grows."""

    kind: _Kind
    index: int
    id: str
    names: ToolNames
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    status: str = "in_progress"
    place: bytes = field(init=False)
    """The members of its frames that say where it is, as JSON."""

    def __post_init__(self) -> None:
        inner = {"message": b'"content_index":0,', "reasoning": b'"summary_index":0,'}
        self.place = b'"item_id":%b,"output_index":%d,%b' % (
            write_json(self.id),
            self.index,
            inner.get(self.kind, b""),
        )

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def is_whole(self) -> bool:
        """Whether nothing can be added to it: true of texts that something else follows."""
        return self.kind != "function_call" or is_whole(self.text)

    def encode(self) -> dict[str, Any]:
        match self.kind:
            case "message":
                item = message_item(self.id, self.text, self.status)
                if self.status == "in_progress":
                    item["content"] = []
                return item
            case "reasoning":
                item = reasoning_item(self.id, self.text, self.status)
                if self.status == "in_progress":
                    item["summary"] = []
                return item
            case "function_call":
                call = ToolCall(id=self.call_id, name=self.name, arguments=self.text)
                return call_item(self.id, call, self.names, self.status)


class AnswerStream:
    """Writes one answer, streamed or whole. ``response`` is the response object as it stands.

    An item ends when another begins. Only a tool call whose arguments are not whole yet stays
    open, because backends may send the fragments of several calls by turns.
    """

    def __init__(self, head: ResponseHead) -> None:
        self.response = encode_response(head, Outcome())
        self._head = head
        self._number = 0
        self._items: list[_Item] = []
        self._open: list[_Item] = []
        self._calls: dict[int, _Item] = {}
        self._still_working = b""

    def event(self, event: Event) -> bytes:
        """The frames of one event."""
        return b"".join(frame.data for frame in self.frames(event))

    def frames(self, event: Event) -> list[Frame]:
        """As :meth:`event`, one by one, for streams that are kept to be read again."""
        frames = self.begin()
        match event:
            case TextDelta(text):
                frames += self._add("message", text)
            case ReasoningDelta(text):
                frames += self._add("reasoning", text)
            case ToolCallDelta():
                frames += self._add_call(event)
            case Finish():
                frames += self._end(event)
        return frames

    def begin(self) -> list[Frame]:
        """The frames that stand before all others; none the second time."""
        if self._still_working:
            return []
        # Told again and again while nothing happens, so without what makes it long.
        brief = {**self.response, "instructions": None, "tools": []}
        self._still_working = b'"response":%b}\n\n' % write_json(brief)
        return [self._frame("response.created", response=self.response), self._in_progress()]

    def heartbeat(self) -> bytes:
        """Comments do not count as a sign of life with Codex; this event does (clients §2.7)."""
        frames = self.begin() or [self._in_progress()]
        return b"".join(frame.data for frame in frames)

    def failure(self, error: MiddlewareError) -> bytes:
        return b"".join(frame.data for frame in self.failure_frames(error))

    def failure_frames(self, error: MiddlewareError) -> list[Frame]:
        """As :meth:`failure`, one by one. The response keeps what there is of its items."""
        frames = self.begin()
        for item in self._open:
            item.status = "incomplete"
        self._finish(Outcome(status="failed", output=self._output(), error=error))
        return [*frames, self._frame("response.failed", response=self.response)]

    def reply(self, reply: Reply) -> bytes:
        """The body of an answer that is not streamed."""
        self._finish(outcome_of(reply, self._head))
        return write_json(self.response)

    def _in_progress(self) -> Frame:
        return self._raw("response.in_progress", self._still_working)

    def _add(self, kind: _Kind, text: str) -> list[Frame]:
        last = self._open[-1] if self._open else None
        frames: list[Frame] = []
        if last is None or last.kind != kind:
            frames, last = self._open_item(kind)
        return [*frames, self._delta(last, text)]

    def _add_call(self, event: ToolCallDelta) -> list[Frame]:
        item = self._calls.get(event.index)
        frames: list[Frame] = []
        if item is None:
            frames, item = self._open_item("function_call", event)
            self._calls[event.index] = item
        if event.arguments and item in self._open:
            frames.append(self._delta(item, event.arguments))
        return frames

    def _delta(self, item: _Item, text: str) -> Frame:
        item.pieces.append(text)
        # The field that tells how likely each token was must be there, though nobody asked.
        end = b',"logprobs":[]}\n\n' if item.kind == "message" else b"}\n\n"
        return self._raw(_DELTAS[item.kind], item.place + b'"delta":' + write_json(text) + end)

    def _open_item(
        self, kind: _Kind, call: ToolCallDelta | None = None
    ) -> tuple[list[Frame], _Item]:
        """Close what is whole, and begin a new item."""
        frames = self._close(item for item in list(self._open) if item.is_whole())
        index = len(self._items)
        item = _Item(
            kind, index, f"{_ID_PREFIXES[kind]}_{self._head.stem}_{index}", self._head.asked.names
        )
        if call is not None:
            item.call_id, item.name = call.call_id or "", call.name or ""
        self._items.append(item)
        self._open.append(item)
        frames.append(
            self._frame("response.output_item.added", output_index=index, item=item.encode())
        )
        if kind == "message":
            frames.append(self._placed("response.content_part.added", item, part=text_part("")))
        elif kind == "reasoning":
            part = {"type": "summary_text", "text": ""}
            frames.append(self._placed("response.reasoning_summary_part.added", item, part=part))
        return frames, item

    def _close(self, items: Iterable[_Item], status: str = "completed") -> list[Frame]:
        frames: list[Frame] = []
        for item in items:
            self._open.remove(item)
            item.status = status
            frames += self._endings(item)
            frames.append(
                self._frame(
                    "response.output_item.done", output_index=item.index, item=item.encode()
                )
            )
        return frames

    def _endings(self, item: _Item) -> list[Frame]:
        text = item.text
        match item.kind:
            case "message":
                name, part = "response.content_part.done", text_part(text)
                return [
                    self._placed("response.output_text.done", item, text=text, logprobs=[]),
                    self._placed(name, item, part=part),
                ]
            case "reasoning":
                part = {"type": "summary_text", "text": text}
                name = "response.reasoning_summary_part.done"
                return [
                    self._placed("response.reasoning_summary_text.done", item, text=text),
                    self._placed(name, item, part=part),
                ]
            case "function_call":
                told = item.encode()
                name = "response.function_call_arguments.done"
                return [self._placed(name, item, name=told["name"], arguments=told["arguments"])]

    def _end(self, finish: Finish) -> list[Frame]:
        reason = INCOMPLETE_REASONS.get(finish.reason)
        frames: list[Frame] = []
        if all(item.kind == "reasoning" for item in self._items):
            # Clients read the first message without looking whether there is one.
            frames, _ = self._open_item("message")
        status: Literal["completed", "incomplete"] = "completed" if reason is None else "incomplete"
        frames += self._close(list(self._open), status)
        self._finish(
            Outcome(status=status, output=self._output(), usage=finish.usage, reason=reason)
        )
        return [*frames, self._frame(f"response.{status}", response=self.response)]

    def _output(self) -> list[dict[str, Any]]:
        return [item.encode() for item in self._items]

    def _finish(self, outcome: Outcome) -> None:
        self.response = encode_response(self._head, outcome)

    def _placed(self, name: str, item: _Item, /, **members: Any) -> Frame:
        """A frame that says where its item is."""
        return self._raw(name, item.place + write_json(members)[1:] + b"\n\n")

    def _frame(self, name: str, /, **members: Any) -> Frame:
        return self._raw(name, write_json(members)[1:] + b"\n\n")

    def _raw(self, name: str, rest: bytes) -> Frame:
        """``rest`` are the members behind the number, and the end of the frame."""
        number, kind = self._number, name.encode()
        self._number += 1
        return Frame(
            number,
            b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b' % (kind, kind, number, rest),
        )
