"""Keeping a conversation inside a model's window (workflow-engine §10, config-files §11, C-30).

With the clamp off nothing here has any effect: the window and the level are ignored.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from Middleware.config.files import Snapshot
from Middleware.config.models import Endpoint, User
from Middleware.core.events import Usage
from Middleware.core.messages import Message
from Middleware.core.tokens import estimate_tokens
from Middleware.workflows.models.message_text import leading_system

logger = logging.getLogger(__name__)

LEVELS = {"conservative": 1.0, "balanced": 1.25, "aggressive": 1.5, "xaggressive": 1.85}
"""By how much the estimates may be too high."""
MARGIN_TOKENS = 512
"""Left free beside the prompt and the reply."""
MESSAGE_TOKENS = 8
"""What a message costs besides its text."""
DEFAULT_RESPONSE_TOKENS = 400
_SURELY_LONG = 6000
"""Characters from which on the count that a back end reports is looked at."""
_FAR_BELOW = 8.0
"""Characters a token: no language comes near, and the estimate says half of it."""
_RESULT_ROLES = frozenset({"tool", "function"})
_TRUE = frozenset({"true", "1", "yes", "on"})


class Options(Protocol):
    """A node's options by the names they have on disk."""

    def get(self, key: str, default: Any = None, /) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClampSettings:
    """What one call may use of its endpoint's window."""

    window_tokens: int
    response_tokens: int = DEFAULT_RESPONSE_TOKENS
    level: float = 1.0

    @property
    def window_budget(self) -> int:
        """Estimated tokens for everything that is sent. A reply budget as large as the window is
        a mistake and takes nothing away from the prompt (C-31)."""
        response = self.response_tokens if self.response_tokens < self.window_tokens else 0
        return int((self.window_tokens - response) * self.level) - MARGIN_TOKENS


def resolve_clamp(node: Options, endpoint: Endpoint, user: User) -> ClampSettings | None:
    """The clamp of a call: node, else endpoint, else user; None when it is off.

    Off too when the endpoint has no window. A node's own ``maxContextTokenSize`` makes the
    window smaller for that node (nodes S2).
    """
    if not _is_on(node.get("clampPromptToContextWindow"), endpoint, user):
        return None
    window = endpoint.max_context_token_size
    if window is None or window <= 0:
        return None
    own = _whole(node.get("maxContextTokenSize"))
    if own is not None and own > 0:
        window = min(window, own)
    response = _whole(node.get("maxResponseSizeInTokens"))
    return ClampSettings(
        window_tokens=window,
        response_tokens=DEFAULT_RESPONSE_TOKENS if response is None else max(response, 0),
        level=_level(endpoint),
    )


class Clamped(NamedTuple):
    """A conversation that was made to fit."""

    messages: tuple[Message, ...]
    dropped: int
    """How many messages went."""
    tokens: int
    """Estimated tokens of what stayed, leading system messages not counted. More than the
    budget when what has to stay is larger."""


def clamp_messages(
    messages: Sequence[Message], budget_tokens: int
) -> tuple[tuple[Message, ...], int]:
    """The messages that fit, and how many were dropped, by the rules of :func:`clamp`."""
    clamped = clamp(messages, budget_tokens)
    return clamped.messages, clamped.dropped


def clamp(messages: Sequence[Message], budget_tokens: int) -> Clamped:
    """Drop what does not fit, whole messages only.

    Leading system messages stay and are not counted: the caller takes them off the budget. The
    last user message and the newest message stay too, even beyond the budget. Of the rest
    the newest stay while they fit. A tool call and its results stay or go together.
    """
    start = leading_system(messages)
    end = len(messages)
    asked = _last_user(messages, start)
    spent = 0 if asked is None else message_tokens(messages[asked])
    kept_from = end
    while kept_from > start:
        first = exchange_start(messages, kept_from - 1, start)
        cost = sum(message_tokens(messages[i]) for i in range(first, kept_from) if i != asked)
        if kept_from != end and spent + cost > budget_tokens:
            break
        spent += cost
        kept_from = first
    kept = [*messages[:start], *messages[kept_from:]]
    if asked is not None and asked < kept_from:
        kept.insert(start, messages[asked])
    return Clamped(tuple(kept), end - len(kept), spent)


def exchange_start(messages: Sequence[Message], index: int, start: int = 0) -> int:
    """Where the tool exchange begins that message ``index`` belongs to: the assistant message
    with the calls, whose results stand right behind it.

    ``index`` itself for any other message. Results whose call is not there count as one
    exchange by themselves. Nothing before ``start`` is looked at.
    """
    first = index
    while first > start and messages[first].role in _RESULT_ROLES:
        first -= 1
    if first == index or messages[first].tool_calls or messages[first].role in _RESULT_ROLES:
        return first
    return first + 1


def message_tokens(message: Message) -> int:
    """Estimated tokens of a message, its tool calls included."""
    tokens = estimate_tokens(message.content) + MESSAGE_TOKENS
    for call in message.tool_calls:
        tokens += estimate_tokens(call.name) + estimate_tokens(call.arguments)
    return tokens


def was_cut(prompt: Sequence[Message] | str, usage: Usage | None) -> bool:
    """Whether a back end says that it read far less than it was sent (case C-30): servers drop
    the front of a prompt that is too long without a word. Cheap, and never true of short ones.
    """
    if usage is None or usage.estimated or not usage.prompt_tokens:
        return False
    texts = [prompt] if isinstance(prompt, str) else [message.content for message in prompt]
    characters = sum(map(len, texts))
    return characters > _SURELY_LONG and usage.prompt_tokens * _FAR_BELOW < characters


def warn_of_a_cut(
    config: Snapshot,
    endpoint: Endpoint,
    prompt: Sequence[Message] | str | None,
    usage: Usage | None,
) -> None:
    """Tell the owner in the log, with the remedy: once for as long as the file of the endpoint
    stays the same, because long conversations come again with every request.
    """

    def warn() -> bool:
        logger.warning(
            "endpoint %r counted far fewer tokens than it was sent: its window may be too small, "
            "and the beginning of the prompt lost; set maxContextTokenSize and "
            "clampPromptToContextWindow",
            endpoint.name,
        )
        return True

    if prompt is not None and was_cut(prompt, usage):
        folder = config.user.endpoint_configs_sub_directory
        config.derived(("cut", folder, endpoint.name), (endpoint,), warn)


def fit_response_budget(asked_tokens: int, *, window_tokens: int | None, prompt_tokens: int) -> int:
    """A reply budget that a window can hold (C-31).

    Only one that is as large as the whole window is lowered, to what the prompt leaves free: a
    smaller one may be right, because estimates of a prompt are high.
    """
    if window_tokens is None or window_tokens <= 0 or asked_tokens < window_tokens:
        return asked_tokens
    least = min(MARGIN_TOKENS, max(window_tokens // 4, 1))
    return max(window_tokens - prompt_tokens, least)


def _last_user(messages: Sequence[Message], start: int) -> int | None:
    for index in range(len(messages) - 1, start - 1, -1):
        if messages[index].role == "user":
            return index
    return None


def _is_on(of_node: Any, endpoint: Endpoint, user: User) -> bool:
    if isinstance(of_node, str):
        return of_node.strip().lower() in _TRUE
    if of_node is not None:
        return bool(of_node)
    of_endpoint = endpoint.clamp_prompt_to_context_window
    return user.clamp_prompt_to_context_window if of_endpoint is None else of_endpoint


def _level(endpoint: Endpoint) -> float:
    name = endpoint.wilmer_context_estimation_level.strip().lower()
    level = LEVELS.get(name)
    if level is None:
        logger.warning(
            "Endpoint %s: unknown wilmerContextEstimationLevel %r counts as conservative.",
            endpoint.name,
            name,
        )
        return 1.0
    return level


def _whole(value: Any) -> int | None:
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
