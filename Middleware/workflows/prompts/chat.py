"""The messages that a chat endpoint gets (nodes §1, workflow-engine §15)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from Middleware.core.messages import Message
from Middleware.core.tokens import estimate_tokens
from Middleware.workflows.models.message_text import body_start, is_filler, leading_system
from Middleware.workflows.prompts.clamp import (
    ClampSettings,
    clamp,
    exchange_start,
    message_tokens,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRules:
    """What a node's options say about the messages of its call."""

    last_messages: int = 5
    """Conversation mode: how many are sent. Prompt mode: in how many images are looked for."""
    last_messages_tokens: int | None = None
    """Conversation mode: estimated tokens that these may have together."""
    accept_images: bool = False
    max_images: int = 0
    """The newest so many images; 0 for all."""
    merge_assistant: bool = False
    merge_delimiter: str = "\n"
    insert_user_turn: bool = False
    """No effect together with ``merge_assistant``."""
    inserted_user_turn: str = "Continue."
    append_tool_exchange: bool = False
    """``appendNativeToolExchange``, where the endpoint's ``backendSupportsToolTurns`` allows it."""
    clamp: ClampSettings | None = None
    """None: off."""
    tools: Sequence[Mapping[str, Any]] = ()
    """The definitions that go along; the clamp leaves room for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """The messages of a call, and what the clamp did to them."""

    messages: tuple[Message, ...]
    dropped: int = 0
    """Messages of the conversation that did not fit the window."""
    over_budget: bool = False
    """True when what has to stay is larger than the window; it is sent all the same."""


class ToolExchange(NamedTuple):
    """A conversation whose end is an exchange with tools, cut in two."""

    rest: Sequence[Message]
    exchange: tuple[Message, ...]
    """Empty when the conversation does not end like that; ``rest`` is all of it then."""


def chat_messages(
    conversation: Sequence[Message],
    *,
    system_prompt: str,
    prompt: str | None,
    rules: PromptRules,
) -> tuple[Message, ...]:
    """The messages alone of :func:`build_chat`."""
    return build_chat(
        conversation, system_prompt=system_prompt, prompt=prompt, rules=rules
    ).messages


def build_chat(
    conversation: Sequence[Message],
    *,
    system_prompt: str,
    prompt: str | None,
    rules: PromptRules,
    instructions: tuple[Message, ...] = (),
) -> ChatPrompt:
    """What to send. ``prompt`` None is conversation mode; a prompt that turned out empty is not.

    ``conversation`` is all of it, in both modes, a trailing tool exchange included.
    ``instructions`` stand in place of the system prompt.
    """
    head = instructions or ((Message("system", system_prompt),) if system_prompt else ())
    if prompt is None:
        return _conversation_mode(conversation, head, rules)
    return _prompt_mode(conversation, head, prompt, rules)


def split_tool_exchange(conversation: Sequence[Message]) -> ToolExchange:
    """Cut off the tool calls and results a conversation ends with.

    The node's variables are made of ``rest``. A filler behind the exchange is in neither part.
    """
    end = len(conversation)
    if end and is_filler(conversation[end - 1]):
        end -= 1
    first = end - 1
    while first >= 0 and conversation[first].role == "tool":
        first -= 1
    if first < 0 or first == end - 1 or not conversation[first].tool_calls:
        return ToolExchange(conversation, ())
    return ToolExchange(conversation[:first], tuple(conversation[first:end]))


def _conversation_mode(
    conversation: Sequence[Message], head: tuple[Message, ...], rules: PromptRules
) -> ChatPrompt:
    # The order of these steps is fixed by nodes §1.
    body = window(conversation, rules)
    body = with_images(body, rules)
    if rules.merge_assistant:
        body = _merged(body, rules.merge_delimiter)
    elif rules.insert_user_turn:
        body = _separated(body, rules.inserted_user_turn)
    dropped, over_budget = 0, False
    if rules.clamp is not None:
        budget = _budget(head, rules.clamp, rules)
        body, dropped, tokens = clamp(body, budget)
        over_budget = tokens > budget
    if not any(message.role == "user" for message in body):
        place = leading_system(body)
        found = with_images(_newest_user(conversation), rules)
        body = (*body[:place], *found, *body[place:])
    return ChatPrompt(messages=(*head, *body), dropped=dropped, over_budget=over_budget)


def _prompt_mode(
    conversation: Sequence[Message], head: tuple[Message, ...], prompt: str, rules: PromptRules
) -> ChatPrompt:
    exchange: tuple[Message, ...] = ()
    if rules.append_tool_exchange:
        conversation, exchange = split_tool_exchange(conversation)
    images: tuple[str, ...] = ()
    if rules.accept_images:
        window = with_images(last_messages(conversation, rules.last_messages), rules)
        images = tuple(image for message in window for image in message.images)
    elif exchange:
        exchange = with_images(exchange, rules)
    body = (Message("user", prompt, images=images), *exchange)
    over_budget = rules.clamp is not None and (
        sum(map(message_tokens, body)) > _budget(head, rules.clamp, rules)
    )
    return ChatPrompt(messages=(*head, *body), over_budget=over_budget)


def window(conversation: Sequence[Message], rules: PromptRules) -> tuple[Message, ...]:
    """The newest messages by number and tokens; tool exchanges are not cut in two."""
    if rules.last_messages <= 0:
        return ()
    start = body_start(conversation)
    end = len(conversation)
    first = max(start, end - rules.last_messages)
    if first < end:
        first = exchange_start(conversation, first, start)
    if rules.last_messages_tokens is not None:
        level = 1.0 if rules.clamp is None else rules.clamp.level
        first = _first_within(conversation, first, end, int(rules.last_messages_tokens * level))
    return tuple(conversation[first:])


def _first_within(conversation: Sequence[Message], first: int, end: int, tokens: int) -> int:
    """The first message of those between ``first`` and ``end`` that fit, at least one."""
    place, total = end, 0
    while place > first:
        before = exchange_start(conversation, place - 1, first)
        total += sum(estimate_tokens(m.content) for m in conversation[before:place])
        if total > tokens and place != end:
            break
        place = before
    return place


def last_messages(conversation: Sequence[Message], count: int) -> Sequence[Message]:
    """The newest ``count`` messages, leading system messages not among them."""
    start = max(body_start(conversation), len(conversation) - max(count, 0))
    return conversation[start:]


def _newest_user(conversation: Sequence[Message]) -> tuple[Message, ...]:
    for message in reversed(conversation):
        if message.role == "user":
            return (message,)
    return ()


def with_images(messages: Iterable[Message], rules: PromptRules) -> tuple[Message, ...]:
    """The messages with the images that may go along: none, all, or the newest few."""
    messages = tuple(messages)
    if rules.accept_images and rules.max_images <= 0:
        return messages
    left = rules.max_images if rules.accept_images else 0
    kept: list[Message] = []
    for message in reversed(messages):
        if message.images:
            images = message.images[max(0, len(message.images) - left) :]
            left -= len(images)
            if len(images) != len(message.images):
                message = replace(message, images=images)
        kept.append(message)
    kept.reverse()
    return tuple(kept)


def _merged(messages: Sequence[Message], delimiter: str) -> tuple[Message, ...]:
    """Adjacent assistant messages as one. Those with tool calls stay by themselves: their
    results must follow them (nodes S20)."""
    merged: list[Message] = []
    for message in messages:
        before = merged[-1] if merged else None
        if before is not None and _is_plain_answer(before) and _is_plain_answer(message):
            merged[-1] = replace(before, content=f"{before.content}{delimiter}{message.content}")
        else:
            merged.append(message)
    return tuple(merged)


def _is_plain_answer(message: Message) -> bool:
    return message.role == "assistant" and not message.tool_calls


def _separated(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """A user message between every two adjacent assistant messages."""
    separated: list[Message] = []
    for message in messages:
        if separated and separated[-1].role == message.role == "assistant":
            separated.append(Message("user", text))
        separated.append(message)
    return tuple(separated)


def _budget(head: tuple[Message, ...], clamp: ClampSettings, rules: PromptRules) -> int:
    budget = clamp.window_budget - sum(estimate_tokens(message.content) for message in head)
    if rules.tools:
        budget -= estimate_tokens(json.dumps(rules.tools, default=dict))
    return budget
