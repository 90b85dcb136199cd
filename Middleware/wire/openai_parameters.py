"""The sampling fields that a client may send, with what each may hold.

Being exact here keeps nonsense away from backends, whose own messages are harder to read; null
always means "not given" (case C-51).
"""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

from Middleware.core.errors import MalformedRequest


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _whole(value: Any) -> bool:
    return _number(value) and value == int(value)


def _texts(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(item, str) for item in value)
    )


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _typed_object(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _anything(value: Any) -> bool:
    return True


_Check = tuple[Callable[[Any], bool], str]
_NUMBER: Final[_Check] = (_number, "must be a number")
_WHOLE: Final[_Check] = (_whole, "must be a whole number")
_TEXT: Final[_Check] = (_text, "must be a text")
_BOOLEAN: Final[_Check] = (_boolean, "must be true or false")
_OBJECT: Final[_Check] = (_object, "must be an object")
_ANYTHING: Final[_Check] = (_anything, "")

OPENAI_FIELDS: Final[Mapping[str, _Check]] = {
    "temperature": _NUMBER,
    "top_p": _NUMBER,
    "n": _WHOLE,
    "stop": (_texts, "must be a text or a list of texts"),
    "seed": _WHOLE,
    "max_tokens": _WHOLE,
    "max_completion_tokens": _WHOLE,
    "presence_penalty": _NUMBER,
    "frequency_penalty": _NUMBER,
    "logit_bias": _OBJECT,
    "logprobs": _BOOLEAN,
    "top_logprobs": _WHOLE,
    "response_format": (_typed_object, "must be an object with a `type`"),
    "reasoning_effort": _TEXT,
    "verbosity": _TEXT,
    "parallel_tool_calls": _BOOLEAN,
    "user": _TEXT,
}
"""Fields of OpenAI's own interface."""

SAMPLER_FIELDS: Final[Mapping[str, _Check]] = {
    **dict.fromkeys(
        ("min_p", "typical_p", "top_n_sigma", "repeat_penalty", "dynatemp_range"), _NUMBER
    ),
    **dict.fromkeys(("dynatemp_exponent", "dry_multiplier", "dry_base"), _NUMBER),
    **dict.fromkeys(("xtc_probability", "xtc_threshold", "mirostat_tau", "mirostat_eta"), _NUMBER),
    **dict.fromkeys(("top_k", "repeat_last_n", "mirostat", "dry_allowed_length"), _WHOLE),
    **dict.fromkeys(("dry_penalty_last_n", "n_probs", "min_keep"), _WHOLE),
    **dict.fromkeys(
        ("dry_sequence_breakers", "grammar", "samplers", "ignore_eos", "json_schema"), _ANYTHING
    ),
    "chat_template_kwargs": _OBJECT,
}
"""Further samplers that local servers know (config-files §7.2); front ends for them send these."""

_CHECKS: Final[Mapping[str, _Check]] = {**OPENAI_FIELDS, **SAMPLER_FIELDS}

# Values that say nothing: they are what the field means when it is left out.
_NOTHING: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1,),
    "user": ("",),
    "logit_bias": ({},),
    "stop": ([], ""),
    "logprobs": (False,),
    "top_logprobs": (0,),
    # Some front ends ask for "no limit" in this way.
    "max_tokens": (0, -1),
    "max_completion_tokens": (0, -1),
}


def parse_parameters(body: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling fields of a request, without those that say nothing.

    Raises MalformedRequest naming the first field that holds a wrong type.
    """
    found: dict[str, Any] = {}
    for name, value in body.items():
        check = _CHECKS.get(name)
        if check is None or value is None:
            continue
        fits, problem = check
        if not fits(value):
            raise MalformedRequest(name, problem)
        if name == "response_format":
            _require_schema(value)
        if value not in _NOTHING.get(name, ()):
            found[name] = int(value) if check is _WHOLE else value
    return found


def _require_schema(response_format: Mapping[str, Any]) -> None:
    """A form without a schema would be asked for in vain: no server knows what is meant."""
    if response_format["type"] != "json_schema":
        return
    place = "response_format.json_schema"
    holder = response_format.get("json_schema")
    if not isinstance(holder, dict):
        raise MalformedRequest(place, "must be an object with a JSON Schema in `schema`")
    if not isinstance(holder.get("schema"), dict):
        raise MalformedRequest(f"{place}.schema", "must be a JSON Schema")


def is_parameter(name: str) -> bool:
    return name in _CHECKS
