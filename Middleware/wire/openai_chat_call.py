"""Our messages -> what an OpenAI-type model server is sent (config-files §13.1, §13.6)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from Middleware.core.messages import Message
from Middleware.wire.images import is_address, parse_inline
from Middleware.wire.openai_chat_answer import encode_tool_call

logger = logging.getLogger(__name__)

_LEADING: Final = frozenset(("system", "developer", "systemMes"))


@dataclass(frozen=True, slots=True)
class MessageRules:
    """What a server is particular about."""

    developer_role: bool = False
    """Whether it knows the role ``developer``."""
    strict_content: bool = False
    """Whether it refuses null as the content of a message with tool calls."""


def encode_messages(messages: Sequence[Message], rules: MessageRules) -> list[dict[str, Any]]:
    """Without support for ``developer``, all messages of that role count as system messages, and
    those that lead the conversation become one (case C-27). An empty assistant message at the
    end is left out.
    """
    if messages and _is_empty_turn(messages[-1]):
        messages = messages[:-1]
    if not rules.developer_role and any(m.role == "developer" for m in messages):
        messages = _without_developer(messages)
    return [
        {"role": m.role, "content": m.content}
        if m.content and m.role in ("user", "assistant") and _is_plain(m)
        else _encode(m, rules)
        for m in messages
    ]


def image_url(image: str) -> str | None:
    """The image as OpenAI wants it; None when it cannot be sent (config-files §13.6)."""
    if is_address(image):
        return image
    inline = parse_inline(image)
    if inline is not None and inline.media_type is not None:
        return f"data:{inline.media_type};base64,{inline.data}"
    logger.warning("An image was left out: it is neither a data URI, a web address nor base64.")
    return None


def _is_plain(message: Message) -> bool:
    return not (
        message.images or message.tool_calls or message.name or message.tool_call_id is not None
    )


def _is_empty_turn(message: Message) -> bool:
    return message.role == "assistant" and not message.content and not message.tool_calls


def _without_developer(messages: Sequence[Message]) -> list[Message]:
    lead = 0
    while lead < len(messages) and messages[lead].role in _LEADING:
        lead += 1
    merged: list[Message] = []
    if any(m.role == "developer" for m in messages[:lead]):
        text = "\n\n".join(m.content for m in messages[:lead] if m.content)
        merged = [Message("system", text)]
    else:
        merged = list(messages[:lead])
    rest = messages[lead:]
    return merged + [replace(m, role="system") if m.role == "developer" else m for m in rest]


def _encode(message: Message, rules: MessageRules) -> dict[str, Any]:
    role = "system" if message.role == "systemMes" else message.role
    encoded: dict[str, Any] = {"role": role, "content": _content(message, rules)}
    if message.tool_calls:
        encoded["tool_calls"] = [encode_tool_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        encoded["tool_call_id"] = message.tool_call_id
    if message.name:
        encoded["name"] = message.name
    return encoded


def _content(message: Message, rules: MessageRules) -> Any:
    if message.tool_calls and not message.content:
        return "" if rules.strict_content else None
    if not message.images or message.role != "user":
        return message.content
    urls = [url for url in map(image_url, message.images) if url is not None]
    if not urls:
        return message.content
    text = [{"type": "text", "text": message.content}] if message.content else []
    return [*text, *({"type": "image_url", "image_url": {"url": url}} for url in urls)]
