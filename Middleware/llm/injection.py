"""Texts that an endpoint adds to every conversation (config-files §12.2), on chat types."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from Middleware.config.models import Endpoint
from Middleware.core.messages import Message

Injection: TypeAlias = Callable[[Sequence[Message]], Sequence[Message]]

_SYSTEM_ROLES = ("system", "developer")


def injection_of(endpoint: Endpoint) -> Injection | None:
    """What is done to the messages; None when the endpoint adds nothing."""
    steps: list[Injection] = []
    if endpoint.add_text_to_start_of_system and endpoint.text_to_add_to_start_of_system:
        steps.append(_before_system(endpoint.text_to_add_to_start_of_system))
    if endpoint.add_text_to_start_of_prompt and endpoint.text_to_add_to_start_of_prompt:
        steps.append(_before_prompt(endpoint.text_to_add_to_start_of_prompt))
    completion = endpoint.text_to_add_to_start_of_completion
    if endpoint.add_text_to_start_of_completion and completion:
        own_turn = endpoint.ensure_text_added_to_assistant_when_chat_completion
        steps.append(_completion_start(completion, own_turn))
    if not steps:
        return None

    def inject(messages: Sequence[Message]) -> Sequence[Message]:
        for step in steps:
            messages = step(messages)
        return messages

    return inject


def _before_system(text: str) -> Injection:
    def inject(messages: Sequence[Message]) -> Sequence[Message]:
        for index, message in enumerate(messages):
            if message.role in _SYSTEM_ROLES:
                return _put(messages, index, text + message.content)
        return [Message("system", text), *messages]

    return inject


def _before_prompt(text: str) -> Injection:
    def inject(messages: Sequence[Message]) -> Sequence[Message]:
        for index in range(len(messages) - 1, -1, -1):
            if messages[index].role == "user":
                return _put(messages, index, text + messages[index].content)
        return [*messages, Message("user", text)]

    return inject


def _completion_start(text: str, own_turn: bool) -> Injection:
    def inject(messages: Sequence[Message]) -> Sequence[Message]:
        if messages and (messages[-1].role == "assistant" or not own_turn):
            return _put(messages, len(messages) - 1, messages[-1].content + text)
        return [*messages, Message("assistant", text)]

    return inject


def _put(messages: Sequence[Message], index: int, content: str) -> list[Message]:
    changed = list(messages)
    changed[index] = replace(changed[index], content=content)
    return changed
