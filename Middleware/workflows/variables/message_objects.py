"""The variables ``messages``, ``messages_json`` and ``last_user_message``."""

import json
from collections.abc import Sequence
from typing import Any

from Middleware.core.messages import Message


def message_objects(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """``role``, ``content`` and, where there are any, ``images``, ``tool_calls``,
    ``tool_call_id`` and ``name``. A fresh list, which the caller may change."""
    return [_message_object(message) for message in messages]


def messages_json(messages: Sequence[Message]) -> str:
    """The same as JSON, non-ASCII kept (Surprise 16)."""
    return json.dumps(message_objects(messages), ensure_ascii=False)


def last_user_message(messages: Sequence[Message]) -> str:
    """What the person said last, or nothing. Coding agents put system messages behind it, and
    results of tools (clients A9)."""
    return next((m.content for m in reversed(messages) if m.role == "user"), "")


def _message_object(message: Message) -> dict[str, Any]:
    shown: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.images:
        shown["images"] = list(message.images)
    if message.tool_calls:
        shown["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        shown["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        shown["name"] = message.name
    return shown
