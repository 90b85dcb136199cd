"""Responses whose words are kept elsewhere: items of proposals, and streams that resume anywhere.

A stream of :class:`ToldStream` numbers its events by what they tell, not by how often somebody
looked: a piece of text has the number of its last character, so that another process, after a
restart, goes on behind any number (RESP-3: numbers rise; nothing says that they have no gaps).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from Middleware.wire.bodies import write_json
from Middleware.wire.openai_responses_object import message_item, text_part

PROPOSAL: Final = "mcpr_"
"""What the id of a proposal begins with in this interface (RESP-4)."""

_FIRST_TEXT: Final = 4


def approval_request(
    id: str, name: str, arguments: Mapping[str, Any], label: str
) -> dict[str, Any]:
    return {
        "id": f"{PROPOSAL}{id}",
        "type": "mcp_approval_request",
        "name": name,
        "arguments": write_json(arguments).decode(),
        "server_label": label,
    }


def approval_response(
    id: str, request_id: str, *, approve: bool, reason: str | None
) -> dict[str, Any]:
    return {
        "id": id,
        "type": "mcp_approval_response",
        "approval_request_id": f"{PROPOSAL}{request_id}",
        "approve": approve,
        "reason": reason,
    }


def user_item(id: str, text: str) -> dict[str, Any]:
    return {
        "id": id,
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": text}],
    }


@dataclass(frozen=True, slots=True)
class Told:
    """How far a response has come: the response object, and the words there are so far."""

    response: Mapping[str, Any]
    text: str = ""
    """Of the running attempt; nothing while it may become something else than the reply."""

    @property
    def done(self) -> bool:
        return self.response["status"] not in ("queued", "in_progress")


class ToldStream:
    """Frames of one response, to be asked whenever there is news. ``after`` is the number of the
    last event that the client has; -1 for none."""

    def __init__(self, item_id: str, after: int = -1) -> None:
        self._item_id = item_id
        self._after = after
        self._number = -1
        self._text = ""
        self._opened = False

    def frames(self, told: Told) -> bytes:
        """What is new. The frames of a response that is done are the last."""
        data = b""
        if self._number < 0:
            response = told.response
            if told.done:
                response = {**response, "status": "in_progress", "output": [], "error": None}
            data += self._frame(0, "response.created", response=response)
            data += self._frame(1, "response.in_progress", response=response)
        if told.done:
            return data + self._end(told.response)
        return data + self._grow(told.text)

    def _grow(self, text: str) -> bytes:
        """The words that came since; of a new attempt only as far as it says the same."""
        if len(text) <= len(self._text) or not text.startswith(self._text):
            return b""
        data = b""
        if not self._opened:
            self._opened = True
            item = {**message_item(self._item_id, "", "in_progress"), "content": []}
            data += self._frame(2, "response.output_item.added", output_index=0, item=item)
            data += self._part(3, "response.content_part.added", part=text_part(""))
        start = max(len(self._text), self._after - _FIRST_TEXT + 1)
        self._text = text
        number = _FIRST_TEXT + len(text) - 1
        piece = text[start:]
        return data + self._part(number, "response.output_text.delta", delta=piece, logprobs=[])

    def _end(self, response: Mapping[str, Any]) -> bytes:
        output = response["output"]
        item = output[0] if output else None
        data = b""
        text = item["content"][0]["text"] if item and item["type"] == "message" else None
        if text is not None:
            data += self._grow(text)
        if self._opened:
            data += self._close(text if text is not None else self._text, response)
        if item is not None and (text is None or not self._opened):
            index = int(self._opened)
            number = self._number
            data += self._frame(
                number + 1, "response.output_item.added", output_index=index, item=item
            )
            data += self._frame(
                number + 2, "response.output_item.done", output_index=index, item=item
            )
        # Whatever the client says that it has, the last event is told.
        self._after = min(self._after, self._number)
        status = response["status"]
        name = "response.failed" if status == "cancelled" else f"response.{status}"
        return data + self._frame(self._number + 1, name, response=response)

    def _close(self, text: str, response: Mapping[str, Any]) -> bytes:
        number = self._number
        status = "completed" if response["status"] == "completed" else "incomplete"
        item = message_item(self._item_id, text, status)
        return (
            self._part(number + 1, "response.output_text.done", text=text, logprobs=[])
            + self._part(number + 2, "response.content_part.done", part=text_part(text))
            + self._frame(number + 3, "response.output_item.done", output_index=0, item=item)
        )

    def _part(self, number: int, name: str, **members: Any) -> bytes:
        place = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        return self._frame(number, name, **place, **members)

    def _frame(self, number: int, name: str, **members: Any) -> bytes:
        self._number = number
        if number <= self._after:
            return b""
        data = write_json({"type": name, "sequence_number": number, **members})
        return b"event: %b\ndata: %b\n\n" % (name.encode(), data)
