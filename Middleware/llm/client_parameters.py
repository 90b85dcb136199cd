"""Sampling fields of the client's request -> fields of the backend (design §4, clients A13)."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from Middleware.config.models import ApiType, Endpoint
from Middleware.core.tokens import estimate_all, estimate_tokens
from Middleware.llm.backend import ModelRequest
from Middleware.llm.presets import deep_merge
from Middleware.wire.openai_parameters import OPENAI_FIELDS, SAMPLER_FIELDS

logger = logging.getLogger(__name__)

_LENGTHS: Final = ("max_completion_tokens", "max_tokens")
"""One idea under two names; the first one counts when both are there."""
_NOT_RELAYED: Final = frozenset(("n", "logprobs", "top_logprobs"))
"""What they ask for is not part of our answers, so backends are spared the work."""
_LEAST_LEFT: Final = 256
"""Tokens: an answer is not cut shorter than this to fit the window, unless the author did."""


class ClientParameters:
    """What one OpenAI-type endpoint makes of the client's fields. Worked out when the endpoint is
    loaded; other formats have tables of their own."""

    def __init__(self, endpoint: Endpoint, api_type: ApiType) -> None:
        self._endpoint = endpoint
        self._length_key = api_type.max_new_tokens_property_name
        names = api_type.sampler_field_map
        self._native: dict[str, str] = {
            name: names.get(name, name)
            for name in OPENAI_FIELDS
            if name not in _LENGTHS and name not in _NOT_RELAYED
        }
        # Names that are not OpenAI's may be sent only where the API type is known to take them.
        self._native |= {name: names[name] for name in SAMPLER_FIELDS if name in names}
        if api_type.supports_chat_template_kwargs:
            self._native["chat_template_kwargs"] = "chat_template_kwargs"
        self.accepts = frozenset((*self._native, *(_LENGTHS if self._length_key else ())))

    def apply(self, payload: dict[str, Any], request: ModelRequest) -> None:
        """Put the client's fields over those that ``payload`` has."""
        wanted = request.client_parameters
        for name, value in wanted.items():
            native = self._native.get(name)
            if native is None or (name == "parallel_tool_calls" and not request.tools):
                continue
            below = payload.get(native)
            if name == "chat_template_kwargs" and isinstance(below, Mapping):
                value = deep_merge(below, value)
            payload[native] = value
        length = next((wanted[name] for name in _LENGTHS if name in wanted), None)
        if length is not None and self._length_key:
            payload[self._length_key] = fitting_length(
                length, payload.get(self._length_key), request, self._endpoint
            )


def with_fitting_length(
    request: ModelRequest, endpoint: Endpoint, length_key: str | None
) -> Mapping[str, Any]:
    """The client's fields, with one length under the name ``max_tokens``, made to fit."""
    wanted = request.client_parameters
    length = next((wanted[name] for name in _LENGTHS if name in wanted), None)
    if length is None:
        return wanted
    authored = request.parameters.get(length_key) if length_key else None
    rest = {name: value for name, value in wanted.items() if name not in _LENGTHS}
    return {**rest, "max_tokens": fitting_length(length, authored, request, endpoint)}


def fitting_length(length: int, authored: Any, request: ModelRequest, endpoint: Endpoint) -> int:
    """The client's length, lowered to what the window leaves beside the prompt (C-31), but
    never below what the workflow's author has set.
    """
    window = endpoint.max_context_token_size
    floor = authored if isinstance(authored, int) else _LEAST_LEFT
    if not window or length <= floor:
        return length
    spent = (
        estimate_all(message.content for message in request.messages)
        if request.prompt is None
        else estimate_tokens(request.prompt)
    )
    fitting = min(length, max(window - spent, floor))
    if fitting < length:
        logger.info(
            "Endpoint %r: the client asked for %d tokens; %d fit into the context window.",
            endpoint.name,
            length,
            fitting,
        )
    return fitting
