"""Rules about messages that variables and prompts share (variables §2.3, config-files §8.1)."""

import re
from collections.abc import Sequence

from Middleware.config.models import PromptTemplate
from Middleware.core.messages import Message

_SYSTEM_ROLES = frozenset({"system", "developer"})
_MARKERS = re.compile(r"\[Beg_(?:Sys|User|Assistant|SysMes)\]")


def is_system(message: Message) -> bool:
    """True for instructions; ``systemMes`` is part of the conversation and none."""
    return message.role in _SYSTEM_ROLES


def is_filler(message: Message) -> bool:
    """True for the assistant turn that ``chatCompletionAddMissingAssistantGenerator`` adds."""
    return (
        message.role == "assistant"
        and not message.tool_calls
        and message.content.strip() in ("", "Assistant:")
    )


def leading_system(messages: Sequence[Message]) -> int:
    """How many system messages stand before the first other message."""
    count = 0
    for message in messages:
        if not is_system(message):
            break
        count += 1
    return count


def body_start(messages: Sequence[Message]) -> int:
    """Where the conversation starts for a chat endpoint: after the leading system messages, or
    at the first of them when there is nothing else."""
    start = leading_system(messages)
    return 0 if start == len(messages) else start


def without_markers(text: str) -> str:
    """``text`` without the literal tags of single-prompt front ends."""
    return _MARKERS.sub("", text) if "[Beg_" in text else text


def template_text(messages: Sequence[Message], template: PromptTemplate | None) -> str:
    """One text for a text endpoint: every message between the prefix and suffix of its role.

    The suffix is left out when the last message is the assistant's, so that the model goes on
    with it. Without a template the contents are put together as they are.
    """
    if template is None:
        return without_markers("".join([message.content for message in messages]))
    pieces: list[str] = []
    for message in messages:
        prefix, suffix = template.around(message.role)
        pieces += (prefix, message.content, suffix)
    if messages and messages[-1].role == "assistant":
        pieces.pop()
    return without_markers("".join(pieces))
