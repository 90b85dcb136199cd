"""Conversation values that every layer shares. Vendor spellings of them live in ``wire/``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that a model asked for."""

    id: str
    name: str
    arguments: str
    """JSON text exactly as the model wrote it; it may be invalid."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    ``role`` is one of ``system developer user assistant tool function systemMes``; the last one
    is a system message in mid-conversation (front-doors §2.3).
    """

    role: str
    content: str = ""
    images: tuple[str, ...] = ()
    """Data URIs, http(s) URLs or bare base64, as the client sent them."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whose key came with a request. ``user`` is empty for the key of the command line."""

    user: str
    key_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What a front end asked for, whichever door it came through."""

    model: str
    messages: tuple[Message, ...]
    stream: bool = False
    include_usage: bool = False
    tools: tuple[Mapping[str, Any], ...] = ()
    """Tool definitions in OpenAI's function format."""
    tool_choice: str | Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Sampling fields under their OpenAI names; fields that were null are absent."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    field_names: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """What the client calls ``parameters`` that it calls otherwise than OpenAI."""
    unknown_fields: tuple[str, ...] = ()
    """Top-level fields that no part of this server knows."""
