"""The conversation variables (variables §2.3 with Surprises 10-12).

Each looks at as few messages as it can: the newest ones, from the back. Only
``*_without_system`` and the labels of tool results go through all of them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import TypeAlias

from Middleware.config.models import PromptTemplate
from Middleware.core.messages import Message, ToolCall
from Middleware.core.tokens import estimate_tokens
from Middleware.workflows.models.message_text import (
    body_start,
    is_system,
    leading_system,
    template_text,
    without_markers,
)

_TAGS = {
    "user": "User: ",
    "assistant": "Assistant: ",
    "system": "System: ",
    "developer": "System: ",
    "tool": "Tool Result: ",
}
_SUMMARY_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRules:
    """What the node, its endpoint and the user say about the conversation variables."""

    chat_endpoint: bool = True
    """False for an endpoint that takes one prompt text."""
    separator: str = "\n"
    tags: bool = False
    n_messages: int = 5
    estimated_tokens: int = 2048
    min_messages: int = 5
    max_tokens: int = 2048
    include_tool_calls: bool = False
    endpoint_template: Callable[[], PromptTemplate] | None = None
    """Called only when a text endpoint's ``templated_*`` variable is asked for."""
    user_template: Callable[[], PromptTemplate] | None = None
    window_budget: int | None = None
    """Tokens of the context clamp; None when it is off. Then ``level`` has no effect either."""
    level: float = 1.0

    def budget(self, tokens: int) -> int:
        """A token limit of the node, as the clamp changes it."""
        if self.window_budget is None:
            return tokens
        return min(int(tokens * self.level), self.window_budget)


class Conversation:
    """One message list, seen by the rules of one node."""

    __slots__ = ("_labels", "_messages", "rules")

    def __init__(self, messages: Sequence[Message], rules: ConversationRules) -> None:
        self._messages = messages
        self.rules = rules
        self._labels: dict[str, str] | None = None

    def value(self, name: str) -> str:
        """The variable ``name``, which is one of :data:`CONVERSATION_VARIABLES`."""
        return CONVERSATION_VARIABLES[name](self)

    # --- which messages, newest first ---

    def newest(self, *, without_system: bool) -> Iterator[Message]:
        """The messages a variable may choose from. A chat endpoint's ``chat_*`` variables leave
        out the leading system messages only; all others leave out every system message."""
        every = without_system or not self.rules.chat_endpoint
        start = 0 if every else body_start(self._messages)
        for index in range(len(self._messages) - 1, start - 1, -1):
            message = self._messages[index]
            if not (every and is_system(message)):
                yield self._with_tool_text(message) if self.rules.include_tool_calls else message

    def select(
        self, messages: Iterator[Message], *, at_least: int, tokens: int | None
    ) -> list[Message]:
        """The newest messages in reading order: ``at_least`` of them, then more while all fit
        into ``tokens`` (None: no more).

        The first one is always taken; beyond it not even ``at_least`` exceeds the clamp.
        """
        chosen: list[Message] = []
        window, total = self.rules.window_budget, 0
        counts = tokens is not None or window is not None
        for message in messages if tokens is not None else islice(messages, max(at_least, 0)):
            if counts:
                total += estimate_tokens(message.content)
                limit = tokens if len(chosen) >= at_least else window
                if chosen and limit is not None and total > limit:
                    break
            chosen.append(message)
        chosen.reverse()
        return chosen

    def without_system(self) -> list[Message]:
        return [m for m in self._messages if not is_system(m)]

    # --- how they are shown ---

    def joined(self, messages: Sequence[Message]) -> str:
        """Contents with the separator between them, tagged by role if the node wants that."""
        if not self.rules.tags:
            return self.rules.separator.join([m.content for m in messages])
        return self.rules.separator.join([_TAGS.get(m.role, "") + m.content for m in messages])

    def templated(self, messages: Sequence[Message], *, of_user: bool = False) -> str:
        """Rendering T: by the prompt template, or joined when the endpoint needs none."""
        if self.rules.chat_endpoint:
            return without_markers(self.rules.separator.join([m.content for m in messages]))
        return template_text(messages, self.template(of_user=of_user))

    def template(self, *, of_user: bool) -> PromptTemplate | None:
        own, users = self.rules.endpoint_template, self.rules.user_template
        load = users if of_user else own or users
        return load() if load else None

    def system_text(self) -> str:
        if self.rules.chat_endpoint:
            chosen = self._messages[: leading_system(self._messages)]
        else:
            chosen = [m for m in self._messages if is_system(m)]
        return " ".join([m.content for m in chosen])

    def system_block(self, *, of_user: bool) -> str:
        """The system text; for a text endpoint between the affixes of a prompt template."""
        if self.rules.chat_endpoint:
            return self.system_text()
        template = self.template(of_user=of_user)
        prefix, suffix = template.around("system") if template else ("", "")
        return f"{prefix}{self.system_text()}{suffix}"

    # --- tool calls as text ---

    def _with_tool_text(self, message: Message) -> Message:
        if message.tool_calls:
            lines = [f"[Tool Call: {_name(call)}] {_summary(call)}" for call in message.tool_calls]
            before = [message.content] if message.content else []
            return replace(message, content="\n".join(before + lines))
        if message.role == "tool":
            label = self._result_labels().get(message.tool_call_id or "")
            label = label or message.name or "unknown_tool"
            return replace(message, content=f"[Tool Result: {label}] {message.content}")
        return message

    def _result_labels(self) -> Mapping[str, str]:
        if self._labels is None:
            self._labels = {
                call.id: f"{_name(call)} {_summary(call)}"
                for message in self._messages
                for call in message.tool_calls
            }
        return self._labels


def _name(call: ToolCall) -> str:
    return call.name or "unknown"


def _summary(call: ToolCall) -> str:
    """The first text among the arguments, else all of them as written; shortened."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = None
    values = arguments.values() if isinstance(arguments, dict) else ()
    text = next((value for value in values if isinstance(value, str)), call.arguments)
    return text[:_SUMMARY_CHARACTERS]


_Window: TypeAlias = Callable[[Conversation, Iterator[Message]], list[Message]]


def _last(count: int) -> _Window:
    return lambda talk, messages: talk.select(messages, at_least=count, tokens=None)


def _last_n(talk: Conversation, messages: Iterator[Message]) -> list[Message]:
    return talk.select(messages, at_least=talk.rules.n_messages, tokens=None)


def _up_to_tokens(talk: Conversation, messages: Iterator[Message]) -> list[Message]:
    tokens = talk.rules.budget(talk.rules.estimated_tokens)
    return talk.select(messages, at_least=0, tokens=tokens)


def _min_then_tokens(talk: Conversation, messages: Iterator[Message]) -> list[Message]:
    tokens = talk.rules.budget(talk.rules.max_tokens)
    return talk.select(messages, at_least=talk.rules.min_messages, tokens=tokens)


_WINDOWS: Mapping[str, _Window] = {
    "last_one": _last(1),
    "last_two": _last(2),
    "last_three": _last(3),
    "last_four": _last(4),
    "last_five": _last(5),
    "last_ten": _last(10),
    "last_twenty": _last(20),
    "n_messages": _last_n,
    "estimated_token_limit": _up_to_tokens,
    "min_n_max_tokens": _min_then_tokens,
}


def _chat(window: _Window) -> Callable[[Conversation], str]:
    return lambda talk: talk.joined(window(talk, talk.newest(without_system=False)))


def _templated(window: _Window) -> Callable[[Conversation], str]:
    return lambda talk: talk.templated(window(talk, talk.newest(without_system=True)))


CONVERSATION_VARIABLES: Mapping[str, Callable[[Conversation], str]] = MappingProxyType(
    {f"chat_user_prompt_{name}": _chat(window) for name, window in _WINDOWS.items()}
    | {f"templated_user_prompt_{name}": _templated(window) for name, window in _WINDOWS.items()}
    | {
        "chat_system_prompt": lambda talk: talk.system_block(of_user=True),
        "templated_system_prompt": lambda talk: talk.system_block(of_user=False),
        "chat_user_prompt_without_system": lambda talk: talk.templated(
            talk.without_system(), of_user=True
        ),
        "templated_user_prompt_without_system": lambda talk: talk.templated(talk.without_system()),
    }
)
"""Every name, and how it is computed."""
