"""Generation parameters of a call: presets of either kind -> fields of an API (config-files §7)."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from Middleware.config.files import ChosenPreset
from Middleware.config.models import ApiType, Endpoint
from Middleware.core.registry import nearest
from Middleware.wire.openai_parameters import SAMPLER_FIELDS

logger = logging.getLogger(__name__)

CANONICAL_SAMPLERS: Final = (frozenset(SAMPLER_FIELDS) - {"chat_template_kwargs"}) | {
    *("temperature", "top_p", "presence_penalty", "frequency_penalty"),
    *("seed", "stop", "logit_bias"),
}
"""The names that ``presetSamplers`` may use, besides ``thinkingMode`` and
``chat_template_kwargs``."""

REAL_NULL: Final = "__wilmer_null__"
"""Literal of the reference: stands for null in a preset, where null itself means "leave out"."""

_OFF: Final = frozenset(("off", "false", "no", "0", "none", "disabled"))
_EFFORTS: Final = frozenset(("low", "medium", "high"))
ENDLESS: Final = frozenset(("scripted",))
"""API types that have no use for a length."""
_KEPT_AS_WRITTEN: Final = frozenset(("json_schema", "grammar"))


def preset_fields(endpoint: Endpoint, api_type: ApiType, chosen: ChosenPreset) -> dict[str, Any]:
    """The fields that a preset asks for, nulls and all: :func:`generation_parameters` ends it.

    Logs what had to be dropped, so keep the result while the files stay the same.
    """
    if chosen.samplers is not None:
        fields = translate_samplers(chosen.samplers, api_type, endpoint.name)
    else:
        fields = dict(chosen.native or {})
    if chosen.appended:
        fields = deep_merge(fields, chosen.appended)
    if api_type.max_new_tokens_property_name is None and api_type.type not in ENDLESS:
        logger.warning(
            "API type %r names no `maxNewTokensPropertyName`: the length of answers of endpoint "
            "%r is not limited.",
            api_type.name,
            endpoint.name,
        )
    return fields


def generation_parameters(
    endpoint: Endpoint, api_type: ApiType, fields: Mapping[str, Any], max_tokens: int | None
) -> dict[str, Any]:
    """The fields of the payload besides messages, model and the stream key, which the backend
    adds. ``fields`` are the preset's, ``max_tokens`` is the node's ``maxResponseSizeInTokens``.
    """
    sized = dict(fields)
    _put(sized, api_type.truncate_length_property_name, endpoint.max_context_token_size)
    _put(sized, api_type.max_new_tokens_property_name, max_tokens)
    return _normalised(sized)


def translate_samplers(
    samplers: Mapping[str, Any], api_type: ApiType, endpoint: str
) -> dict[str, Any]:
    """Canonical sampler names -> the names of ``api_type``; others are dropped with a warning."""
    fields: dict[str, Any] = {}
    for name, value in samplers.items():
        if name in ("thinkingMode", "chat_template_kwargs"):
            continue
        native = api_type.sampler_field_map.get(name)
        if native is not None:
            fields[native] = value
        else:
            logger.warning(
                "Endpoint %r: sampler %r was left out: %s",
                endpoint,
                name,
                _why_not(name, api_type),
            )
    thinking = _thinking(samplers.get("thinkingMode"), api_type, endpoint)
    fields = deep_merge(fields, thinking)
    template = samplers.get("chat_template_kwargs")
    if template is not None:
        if api_type.supports_chat_template_kwargs:
            fields = deep_merge(fields, {"chat_template_kwargs": template})
        else:
            logger.warning(
                "Endpoint %r: `chat_template_kwargs` was left out: API type %r does not take it.",
                endpoint,
                api_type.name,
            )
    return fields


def deep_merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Objects merge key by key; anything else of ``upper`` replaces what is below it."""
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = deep_merge(below, value)
        else:
            merged[key] = value
    return merged


def _put(fields: dict[str, Any], key: str | None, value: int | None) -> None:
    """Set a size, unless the preset says by an explicit null that it is not to be sent."""
    if key is None or value is None or (key in fields and fields[key] is None):
        return
    fields[key] = value


def _thinking(mode: Any, api_type: ApiType, endpoint: str) -> dict[str, Any]:
    """``thinkingMode`` as this API type spells it."""
    if mode is None:
        return {}
    rule, word = api_type.thinking, str(mode).strip().lower()
    nested = rule.location == "chat_template_kwargs"
    if (
        rule.mode == "unsupported"
        or not rule.field
        or (nested and not api_type.supports_chat_template_kwargs)
    ):
        logger.warning(
            "Endpoint %r: `thinkingMode` was left out: API type %r has no way to say it.",
            endpoint,
            api_type.name,
        )
        return {}
    value: Any = word not in _OFF
    if rule.mode == "effort":
        if not value:
            return {}
        value = word if word in _EFFORTS else "medium"
    if nested:
        return {"chat_template_kwargs": {rule.field: value}}
    # Dots nest, as they do for schemas: ``reasoning.effort``.
    for name in reversed(rule.field.split(".")):
        value = {name: value}
    thinking: dict[str, Any] = value
    return thinking


def _normalised(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Null leaves a field out, at any depth; an object that holds nothing is left out as well."""
    kept: dict[str, Any] = {}
    for key, value in fields.items():
        if value is None:
            continue
        if key in _KEPT_AS_WRITTEN:
            kept[key] = value
        elif isinstance(value, Mapping):
            inner = _normalised(value)
            if inner:
                kept[key] = inner
        elif value == REAL_NULL:
            kept[key] = None
        else:
            kept[key] = value
    return kept


def _why_not(name: str, api_type: ApiType) -> str:
    if name in CANONICAL_SAMPLERS:
        return f"API type {api_type.name!r} has no field for it."
    close = nearest(name, tuple(CANONICAL_SAMPLERS | {"thinkingMode", "chat_template_kwargs"}))
    hint = f" Did you mean {close!r}?" if close else ""
    return f"probably a typo.{hint}"
