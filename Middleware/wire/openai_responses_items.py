"""Items of the Responses interface -> messages: input, and output that comes back as history."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import Message, ToolCall
from Middleware.wire.bodies import write_json
from Middleware.wire.content_parts import Content, moved
from Middleware.wire.fields import needed_text_in, text_in
from Middleware.wire.openai_messages import ROLES, parse_messages
from Middleware.wire.openai_responses_tools import ToolNames

_SAYS_NOTHING: Final = frozenset(
    ("reasoning", "mcp_approval_request", "mcp_list_tools", "compaction", "ghost_snapshot")
)
"""Items that are no part of what was said."""
_RESULTS: Final = frozenset(("function_call_output", "custom_tool_call_output"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's answer to an ``mcp_approval_request``."""

    request_id: str
    approve: bool
    reason: str | None = None


@dataclass(slots=True)
class Conversation:
    """Messages while items are read. Use :meth:`add` for each, then :meth:`close`."""

    names: ToolNames = field(default_factory=ToolNames)
    messages: list[Message] = field(default_factory=list)
    approvals: list[Approval] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Kinds of items that cannot be used: ``input.web_search_call``."""
    _shown: list[str] = field(default_factory=list)
    """Images from results of tools; only a user message can show them to a model."""

    def add(self, item: Any, place: str) -> None:
        """Raises MalformedRequest naming a place at or below ``place``."""
        if not isinstance(item, dict):
            raise MalformedRequest(place, "must be an object")
        kind = item.get("type") or ("message" if "role" in item else None)
        if not isinstance(kind, str):
            raise MalformedRequest(f"{place}.type", "is missing")
        if kind in _RESULTS:
            self._add_result(item, place)
            return
        self._flush()
        match kind:
            case "message":
                self._add_message(item, place)
            case "function_call":
                self._add_call(item, item.get("arguments"), place)
            case "custom_tool_call":
                arguments = write_json({"input": item.get("input") or ""}).decode()
                self._add_call(item, arguments, place)
            case "mcp_approval_response":
                self._add_approval(item, place)
            case _:
                if kind not in _SAYS_NOTHING:
                    self.skipped.append(f"input.{kind}")

    def close(self) -> tuple[Message, ...]:
        self._flush()
        return tuple(self.messages)

    def _add_message(self, item: Mapping[str, Any], place: str) -> None:
        role = item.get("role")
        if not isinstance(role, str) or role not in ROLES:
            problem = "is missing" if role is None else f"must be one of {', '.join(sorted(ROLES))}"
            raise MalformedRequest(f"{place}.role", problem)
        if "content" not in item:
            raise MalformedRequest(f"{place}.content", "is missing")
        content = Content()
        content.add_all(item["content"], f"{place}.content")
        self.messages.append(Message(role, content.text, tuple(content.images)))

    def _add_call(self, item: Mapping[str, Any], arguments: Any, place: str) -> None:
        """Calls in a row, and the words before them, are one message of the assistant."""
        name = self.names.joined(item.get("namespace"), needed_text_in(item, "name", f"{place}."))
        call = {
            "id": needed_text_in(item, "call_id", f"{place}."),
            "function": {"name": name, "arguments": arguments},
        }
        try:
            (message,) = parse_messages([{"role": "assistant", "tool_calls": [call]}])
        except MalformedRequest as error:
            raise moved(error, "messages.0.tool_calls.0.function", place) from error
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role == "assistant":
            calls: tuple[ToolCall, ...] = last.tool_calls + message.tool_calls
            self.messages[-1] = Message("assistant", last.content, last.images, calls)
        else:
            self.messages.append(message)

    def _add_result(self, item: Mapping[str, Any], place: str) -> None:
        content = Content()
        content.add_all(item.get("output"), f"{place}.output")
        identity = needed_text_in(item, "call_id", f"{place}.")
        self.messages.append(Message("tool", content.text, tool_call_id=identity))
        self._shown += content.images

    def _add_approval(self, item: Mapping[str, Any], place: str) -> None:
        if not isinstance(item.get("approve"), bool):
            raise MalformedRequest(f"{place}.approve", "must be true or false")
        self.approvals.append(
            Approval(
                request_id=needed_text_in(item, "approval_request_id", f"{place}."),
                approve=item["approve"],
                reason=text_in(item, "reason", f"{place}."),
            )
        )

    def _flush(self) -> None:
        if self._shown:
            self.messages.append(Message("user", images=tuple(self._shown)))
            self._shown.clear()


def messages_of(
    items: Iterable[Mapping[str, Any]], names: ToolNames | None = None
) -> tuple[Message, ...]:
    """The conversation that stored items tell of."""
    conversation = Conversation(names or ToolNames())
    for index, item in enumerate(items):
        conversation.add(item, f"input.{index}")
    return conversation.close()


def stored_items(items: Iterable[Mapping[str, Any]], stem: str) -> list[dict[str, Any]]:
    """Input items as they are kept and listed: with ids, and with contents as lists of parts.

    ``stem`` makes the ids of those that came without one.
    """
    return [_stored(item, f"{stem}_{index}") for index, item in enumerate(items)]


def _stored(item: Mapping[str, Any], stem: str) -> dict[str, Any]:
    kind = item.get("type") or "message"
    identity = item.get("id")
    if not isinstance(identity, str) or not identity:
        identity = f"{'msg' if kind == 'message' else 'item'}_{stem}"
    stored = {**item, "type": kind, "id": identity}
    if kind == "message":
        stored.setdefault("status", "completed")
        content = item.get("content")
        if not isinstance(content, list):
            part = "output_text" if item.get("role") == "assistant" else "input_text"
            stored["content"] = [{"type": part, "text": content}] if content else []
    return stored
