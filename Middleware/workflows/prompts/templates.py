"""A conversation as one text for a text endpoint (variables §2.3 T, config-files §8.1)."""

from collections.abc import Sequence

from Middleware.config.files import Snapshot
from Middleware.config.models import Endpoint, PromptTemplate
from Middleware.core.errors import ConfigError
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


def template_of(config: Snapshot, endpoint: Endpoint) -> PromptTemplate:
    """The template of a text endpoint: its own, else the user's. Raises ConfigError."""
    name = endpoint.prompt_template or config.user.chat_prompt_template_name
    return named_template(config, name)


def named_template(config: Snapshot, name: str) -> PromptTemplate:
    """Raises ConfigError, also when no name was given."""
    if not name:
        raise ConfigError(
            "A prompt template is needed, but none is named.",
            remedy="Set promptTemplate in the endpoint, or chatPromptTemplateName in the user "
            "file.",
        )
    return config.prompt_template(name)
