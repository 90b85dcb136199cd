"""Conversations that front ends write as one text with tags (front-doors §2.3)."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from Middleware.core.messages import Message

_TAG: Final = re.compile(r"\[Beg_(\w+)\]")
_ROLES: Final = {"Sys": "system", "User": "user", "Assistant": "assistant", "SysMes": "systemMes"}


def parse_tagged(text: str) -> tuple[Message, ...]:
    """The messages of a prompt; one user message when none of our tags stands in it.

    What stands before the first tag is dropped, and so is a block whose tag has an unknown word.
    Every system block but the first is one in mid-conversation. Blocks may be empty.
    """
    _, *blocks = _TAG.split(text)
    words, contents = blocks[::2], blocks[1::2]
    if _ROLES.keys().isdisjoint(words):
        return (Message("user", text),)
    messages: list[Message] = []
    system_seen = False
    for word, content in zip(words, contents, strict=True):
        role = _ROLES.get(word)
        if role is None:
            continue
        if role == "system":
            role = "systemMes" if system_seen else role
            system_seen = True
        messages.append(Message(role, content.strip()))
    return tuple(messages)


def with_images(messages: Sequence[Message], images: tuple[str, ...]) -> tuple[Message, ...]:
    """The messages with ``images`` on the last user message, or on a new one at the end."""
    if not images:
        return tuple(messages)
    for index in reversed(range(len(messages))):
        message = messages[index]
        if message.role == "user":
            shown = replace(message, images=message.images + images)
            return (*messages[:index], shown, *messages[index + 1 :])
    return (*messages, Message("user", images=images))
