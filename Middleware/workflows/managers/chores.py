"""Requests that front ends make on the side: titles, tags, follow-ups (clients §4).

They are told by what they look like, for they come through the same door and under the same
model name as what people say. None of them is a turn of a conversation.
"""

from collections.abc import Iterable
from typing import Final

from Middleware.core.messages import ChatRequest, Message

_TASK: Final = "### Task:"
_HISTORY: Final = "<chat_history>"
_TITLES: Final = "you are a title generator"
_LOOKED_AT: Final = 200
_TOOL_SELECTION: Final = (
    "Your task is to choose and return the correct tool(s) from the list of available tools "
    "based on the query"
)


def is_chore(asked: ChatRequest) -> bool:
    """Whether nobody reads the answer as an answer."""
    if asked.tools:
        return False
    return _is_task(asked.messages) or any(_wants_title(message) for message in asked.messages[:2])


def selects_tools(messages: Iterable[Message]) -> bool:
    """Whether Open WebUI asks which of its tools to call (front-doors §11.1)."""
    return any(
        message.role == "system" and _TOOL_SELECTION in message.content for message in messages
    )


def _is_task(messages: tuple[Message, ...]) -> bool:
    """Open WebUI's: one user message, with the conversation quoted in it."""
    spoken: Message | None = None
    for message in messages:
        if message.role in ("system", "developer"):
            continue
        if spoken is not None or message.role != "user":
            return False
        spoken = message
    if spoken is None:
        return False
    text = spoken.content
    # A user file may have put `User: ` in front of it, a person an id.
    return _TASK in text[:_LOOKED_AT] and _HISTORY in text


def _wants_title(message: Message) -> bool:
    """opencode's."""
    return message.role == "system" and _TITLES in message.content[:_LOOKED_AT].lower()
