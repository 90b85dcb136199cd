"""Cutting a conversation into pieces of a size (memory-and-state §5)."""

import re
from collections.abc import Sequence
from typing import Final

from Middleware.core.messages import Message
from Middleware.core.tokens import estimate_tokens

CHUNK_BREAK: Final = "--ChunkBreak--"
"""Between pieces, in the texts that nodes hand to each other."""

_FULL: Final = 0.8
_ROLES = re.compile(r"User: |USER: |Assistant: |ASSISTANT: |systemMes: |SYSTEMMES: ")


def chunked(messages: Sequence[Message], size: int) -> list[list[Message]]:
    """Groups of neighbours, filled from the newest on: at most 80 % of ``size`` estimated tokens
    or a single message. The order stays; the oldest group may be small.
    """
    limit = _FULL * size
    groups: list[list[Message]] = []
    total = 0
    for message in reversed(messages):
        tokens = estimate_tokens(message.content)
        if not groups or total + tokens > limit:
            groups.append([])
            total = 0
        groups[-1].append(message)
        total += tokens
    return [group[::-1] for group in reversed(groups)]


def chunk_text(messages: Sequence[Message]) -> str:
    return "\n".join(message.content for message in messages)


def without_roles(text: str) -> str:
    """``text`` without the role prefixes that some front ends write, wherever they stand."""
    return _ROLES.sub("", text)
