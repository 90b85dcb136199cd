import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

from Middleware.config.files import ChosenPreset
from Middleware.llm.presets import CANONICAL_SAMPLERS, generation_parameters, preset_fields
from Middleware.wire.openai_parameters import OPENAI_FIELDS, SAMPLER_FIELDS
from tests.llm.setups import api_type, endpoint

LLAMA = {
    "maxNewTokensPropertyName": "n_predict",
    "truncateLengthPropertyName": "truncation_length",
    "samplerFieldMap": {"temperature": "temperature", "repeat_penalty": "rep_pen"},
    "supportsChatTemplateKwargs": True,
    "thinking": {"mode": "bool", "field": "enable_thinking", "location": "chat_template_kwargs"},
}
OPENAI = {
    "samplerFieldMap": {"temperature": "temperature"},
    "thinking": {"mode": "effort", "field": "reasoning_effort", "location": "top"},
}


NOTHING = ChosenPreset()


@dataclass(frozen=True)
class Assembled:
    id: str
    type_keys: dict[str, Any]
    expected: dict[str, Any]
    chosen: ChosenPreset = NOTHING
    window: int | None = None
    max_tokens: int | None = 400
    warnings: int = field(default=0)


def samplers(**values: Any) -> ChosenPreset:
    return ChosenPreset(samplers=values)


ASSEMBLED = [
    Assembled("nothing chosen", LLAMA, {"n_predict": 400}),
    Assembled(
        "the window is sent where both names exist",
        LLAMA,
        {"truncation_length": 8192, "n_predict": 400},
        window=8192,
    ),
    Assembled("the window has no name here", OPENAI, {"max_tokens": 400}, window=8192),
    Assembled(
        "no name for the length: not sent, with a warning",
        {**OPENAI, "maxNewTokensPropertyName": None},
        {},
        warnings=1,
    ),
    Assembled(
        "a script has no length",
        {"type": "scripted", "maxNewTokensPropertyName": None},
        {},
    ),
    Assembled(
        "samplers are renamed; unmapped and unknown ones are dropped",
        LLAMA,
        {"temperature": 0.5, "rep_pen": 1.1, "n_predict": 400},
        samplers(temperature=0.5, repeat_penalty=1.1, top_k=4, temprature=1),
        warnings=2,
    ),
    Assembled(
        "thinking off, as a boolean in the template's fields",
        LLAMA,
        {"chat_template_kwargs": {"enable_thinking": False}, "n_predict": 400},
        samplers(thinkingMode="OFF"),
    ),
    *[
        Assembled(
            f"thinking on: {word!r}",
            LLAMA,
            {"chat_template_kwargs": {"enable_thinking": True}, "n_predict": 400},
            samplers(thinkingMode=word),
        )
        for word in (True, "high", "whatever")
    ],
    *[
        Assembled(
            f"thinking as an effort: {word!r}",
            OPENAI,
            {"max_tokens": 400, **({"reasoning_effort": effort} if effort else {})},
            samplers(thinkingMode=word),
        )
        for word, effort in (
            *((word, word) for word in ("low", "medium", "high")),
            *((word, "medium") for word in ("on", True)),
            *((word, None) for word in (False, "none", "0", None)),
        )
    ],
    Assembled(
        "a field of thinking may lie inside of another",
        {**OPENAI, "thinking": {"mode": "effort", "field": "reasoning.effort"}},
        {"max_tokens": 400, "reasoning": {"effort": "low"}},
        samplers(thinkingMode="low"),
    ),
    Assembled(
        "thinking is dropped where it is not supported",
        {**OPENAI, "thinking": {"mode": "unsupported"}},
        {"max_tokens": 400},
        samplers(thinkingMode="high"),
        warnings=1,
    ),
    Assembled(
        "thinking is dropped where the template takes no fields",
        {**LLAMA, "supportsChatTemplateKwargs": False},
        {"n_predict": 400},
        samplers(thinkingMode="high", chat_template_kwargs={"a": 1}),
        warnings=2,
    ),
    Assembled(
        "template fields win over thinking and merge with it",
        LLAMA,
        {"chat_template_kwargs": {"enable_thinking": False, "a": 1}, "n_predict": 400},
        samplers(thinkingMode="on", chat_template_kwargs={"enable_thinking": False, "a": 1}),
    ),
    Assembled(
        "a native preset goes through as it is",
        OPENAI,
        {"anything": [None, {}], "model": "x", "max_tokens": 400},
        ChosenPreset(native={"anything": [None, {}], "model": "x"}),
    ),
    Assembled(
        "the node's length wins over the preset's",
        OPENAI,
        {"max_tokens": 400},
        ChosenPreset(native={"max_tokens": 9}),
    ),
    Assembled(
        "null in a preset keeps sizes from being sent",
        LLAMA,
        {},
        ChosenPreset(native={"n_predict": None, "truncation_length": None}),
        window=8192,
    ),
    Assembled(
        "the appended preset is merged over the other, untranslated",
        LLAMA,
        {
            "temperature": 1,
            "native_name": 2,
            "chat_template_kwargs": {"enable_thinking": True, "b": 2},
            "n_predict": 400,
        },
        ChosenPreset(
            samplers={"temperature": 0.5, "thinkingMode": "on"},
            appended={"temperature": 1, "native_name": 2, "chat_template_kwargs": {"b": 2}},
        ),
    ),
    Assembled(
        "nulls are left out at any depth, and objects that hold nothing",
        OPENAI,
        {
            "a": {"b": {"real": None}},
            "json_schema": {"x": None},
            "grammar": {},
            "list": [{"x": None}],
            "max_tokens": 400,
        },
        ChosenPreset(
            native={
                "gone": None,
                "a": {"b": {"real": "__wilmer_null__", "c": None}, "empty": {"x": None}},
                "json_schema": {"x": None},
                "grammar": {},
                "list": [{"x": None}],
                "empty": {"x": {"y": None}},
            }
        ),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in ASSEMBLED])
def test_parameters_are_assembled(case: Assembled, caplog: pytest.LogCaptureFixture) -> None:
    keys: dict[str, Any] = {"maxContextTokenSize": case.window} if case.window else {}

    with caplog.at_level(logging.WARNING):
        where = endpoint(**keys), api_type(**case.type_keys)
        chosen = preset_fields(*where, case.chosen)
        fields = generation_parameters(*where, chosen, case.max_tokens)

    assert fields == case.expected
    assert len(caplog.records) == case.warnings


def test_a_typo_is_told_with_the_right_name(caplog: pytest.LogCaptureFixture) -> None:
    preset_fields(endpoint(), api_type(**LLAMA), samplers(temprature=1))

    assert "probably a typo. Did you mean 'temperature'?" in caplog.text


def test_the_preset_itself_is_not_changed() -> None:
    native = {"a": {"b": None}}
    where = endpoint(), api_type()
    generation_parameters(*where, preset_fields(*where, ChosenPreset(native=native)), 1)

    assert native == {"a": {"b": None}}


def test_clients_may_send_every_canonical_sampler() -> None:
    assert len(CANONICAL_SAMPLERS) == 31
    assert set(OPENAI_FIELDS) | set(SAMPLER_FIELDS) >= CANONICAL_SAMPLERS
