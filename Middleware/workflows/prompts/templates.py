"""A conversation as one text for a text endpoint (variables §2.3 T, config-files §8.1)."""

from collections.abc import Sequence

from Middleware.config.models import PromptTemplate
from Middleware.core.messages import Message
from Middleware.workflows.models.message_text import is_system, template_text


def conversation_text(
    conversation: Sequence[Message], template: PromptTemplate | None, *, last: int | None = None
) -> str:
    """The ``last`` messages that are not system messages (None: all) in ``template``.

    Exactly so many, where the reference sends one more (nodes S3).
    """
    chosen: list[Message] = []
    for message in reversed(conversation):
        if last is not None and len(chosen) >= last:
            break
        if not is_system(message):
            chosen.append(message)
    chosen.reverse()
    return template_text(chosen, template)


def system_text(system_prompt: str, template: PromptTemplate) -> str:
    """The system prompt between its prefix and suffix; these stand there for an empty one too."""
    prefix, suffix = template.around("system")
    return f"{prefix}{system_prompt}{suffix}"
