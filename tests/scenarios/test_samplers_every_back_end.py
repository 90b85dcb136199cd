"""Sampling parameters under their common names, as every shipped API type sends them: the table of
config-files §7.2, and the ways in which a preset is chosen (§7.1, §7.3)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Upstream
from tests.fakes.vendors import OPENAI_CHAT, VENDORS, Said, Vendor
from tests.scenarios.vendor_ways import asked, tree_of, with_model

DRY = ("dry_multiplier", "dry_base", "dry_allowed_length", "dry_sequence_breakers")
TYPES = ("LlamaCppServer", "Ollama", "KoboldCpp", "OpenAI", "mlx-lm", "WebUI", "Claude")
TABLE: Mapping[str, tuple[str, ...]] = {
    "temperature": ("=",) * 7,
    "top_p": ("=",) * 7,
    "top_k": ("=", "=", "=", "-", "=", "=", "="),
    "min_p": ("=", "=", "=", "-", "=", "=", "-"),
    "typical_p": ("=", "=", "typical", "-", "-", "=", "-"),
    "top_n_sigma": ("=", "-", "nsigma", "-", "-", "=", "-"),
    "repeat_penalty": ("=", "=", "rep_pen", "-", *("repetition_penalty",) * 2, "-"),
    "repeat_last_n": (
        *("=", "=", "rep_pen_range", "-"),
        *("repetition_context_size", "repetition_penalty_range", "-"),
    ),
    "presence_penalty": ("=", "=", "=", "=", "=", "=", "-"),
    "frequency_penalty": ("=", "=", "=", "=", "=", "=", "-"),
    "dynatemp_range": ("=", "-", "=", "-", "-", "-", "-"),
    "dynatemp_exponent": ("=", "-", "=", "-", "-", "-", "-"),
    **dict.fromkeys(DRY, ("=", "-", "=", "-", "-", "=", "-")),
    "dry_penalty_last_n": ("=", "-", "=", "-", "-", "-", "-"),
    "xtc_probability": ("=", "-", "=", "-", "-", "=", "-"),
    "xtc_threshold": ("=", "-", "=", "-", "-", "=", "-"),
    "mirostat": ("=", "=", "=", "-", "-", "mirostat_mode", "-"),
    "mirostat_tau": ("=", "=", "=", "-", "-", "=", "-"),
    "mirostat_eta": ("=", "=", "=", "-", "-", "=", "-"),
    "seed": ("=", "=", "sampler_seed", "=", "-", "=", "-"),
    "stop": ("=", "=", "stop_sequence", "=", "=", "=", "stop_sequences"),
    "logit_bias": ("=", "-", "-", "=", "=", "-", "-"),
    "grammar": ("=", "-", "-", "-", "-", "grammar_string", "-"),
    **dict.fromkeys(
        ("samplers", "ignore_eos", "n_probs", "min_keep", "json_schema"), ("=", *"------")
    ),
}
COLUMN = {
    "LlamaCppServer": "LlamaCppServer",
    "OllamaApiChat": "Ollama",
    "OllamaApiGenerate": "Ollama",
    "KoboldCpp": "KoboldCpp",
    "Open-AI-API": "OpenAI",
    "OpenAI-Compatible-Completions": "OpenAI",
    "mlx-lm": "mlx-lm",
    "Text-Generation-WebUI": "WebUI",
    "Claude": "Claude",
}
SAMPLERS = {name: f"<{name}>" for name in TABLE}
"""Whatever a value is, it is sent as it stands."""

OTHERS = frozenset(
    (
        *("model", "messages", "prompt", "input", "stream", "stream_options", "raw", "store"),
        *("max_tokens", "n_predict", "num_predict", "max_length", "max_output_tokens", "genkey"),
    )
)
"""Fields that are no samplers."""

every = pytest.mark.parametrize("vendor", VENDORS, ids=str)


def samplers_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a request holds besides what every request does."""
    fields = {**body, **body.get("options", {})}
    fields.pop("options", None)
    return {name: value for name, value in fields.items() if name not in OTHERS}


def native(vendor: Vendor, names: Mapping[str, Any]) -> dict[str, Any]:
    """The table's answer."""
    if vendor.id not in COLUMN:
        # OpenAI's Responses know the two alone.
        return {name: names[name] for name in ("temperature", "top_p") if name in names}
    place = TYPES.index(COLUMN[vendor.id])
    said = {name: TABLE[name][place] for name in names}
    return {name if to == "=" else to: names[name] for name, to in said.items() if to != "-"}


@every
def test_all_common_names(vendor: Vendor, tmp_path: Path) -> None:
    endpoint = {"presetSamplers": SAMPLERS}
    with asked(vendor, tmp_path, vendor.answer(Said()), stream=False, endpoint=endpoint) as told:
        assert told.heard.said == ("Hello", "stop")
        assert samplers_in(told.sent) == native(vendor, SAMPLERS)


THINKING: Mapping[str, Mapping[Any, Mapping[str, Any]]] = {
    "Open-AI-API": {
        "off": {},
        "on": {"reasoning_effort": "medium"},
        "HIGH": {"reasoning_effort": "high"},
        True: {"reasoning_effort": "medium"},
    },
    "LlamaCppServer": {
        "off": {"chat_template_kwargs": {"enable_thinking": False}},
        "high": {"chat_template_kwargs": {"enable_thinking": True}},
    },
    "OllamaApiChat": {"no": {"think": False}, "on": {"think": True}},
    "OllamaApiGenerate": {"0": {"think": False}, "on": {"think": True}},
    "OpenAI-Responses": {"off": {}, "low": {"reasoning": {"effort": "low"}}},
}
"""Of the others, nothing is said whatever is wanted."""

MODES = [
    (vendor, mode, expected)
    for vendor in VENDORS
    for mode, expected in THINKING.get(vendor.id, {"on": {}, "off": {}}).items()
]


@pytest.mark.parametrize(("vendor", "mode", "expected"), MODES)
def test_how_a_server_is_told_to_think(
    vendor: Vendor, mode: Any, expected: Mapping[str, Any], tmp_path: Path
) -> None:
    endpoint = {"presetSamplers": {"thinkingMode": mode}}
    with asked(vendor, tmp_path, vendor.answer(Said()), stream=False, endpoint=endpoint) as told:
        assert samplers_in(told.sent) == expected
        # Beside the options, where there are such.
        assert "think" not in told.sent.get("options", {})


@every
def test_another_endpoint_lends_its_samplers_whatever_its_type(
    vendor: Vendor, tmp_path: Path
) -> None:
    lent = {"temperature": 0.1, "repeat_penalty": 1.1, "top_p": None}
    tree = tree_of(vendor, tmp_path).workflow("w", [answers(preset="Donor")])
    tree.write(f"ApiTypes/{OPENAI_CHAT.id}.json", OPENAI_CHAT.file)
    with Upstream(vendor.answer(Said())) as model:
        with_model(tree, OPENAI_CHAT, "Donor", "http://127.0.0.1:1", presetSamplers=lent)
        with_model(tree, vendor, "Main", model.url, presetSamplers={"temperature": 0.9})
        with tree.serve() as live:
            assert hear(live.chat(model="w")).said == ("Hello", "stop")

    # Null leaves a field out.
    wanted = {name: value for name, value in lent.items() if value is not None}
    assert samplers_in(model.asked[0].json) == native(vendor, wanted)


@every
def test_a_preset_file_is_sent_as_it_is_and_another_may_be_laid_over_it(
    vendor: Vendor, tmp_path: Path
) -> None:
    """Claude's interface refuses fields that it does not know, so these are left out there."""
    folder = f"Presets/{vendor.file['presetType']}"
    tree = tree_of(vendor, tmp_path).workflow("w", [answers(preset="Own")])
    tree.write(f"{folder}/tester/Own.json", {"temperature": 0.3, "odd": {"a": 1, "b": None}})
    tree.write(f"{folder}/Own.json", {"temperature": 0.4})
    tree.write(f"{folder}/More.json", {"odd": {"c": "__wilmer_null__"}, "temperature": 0.5})
    with (
        Upstream(vendor.answer(Said())) as model,
        with_model(tree, vendor, "Main", model.url, appendPresetName="More").serve() as live,
    ):
        assert hear(live.chat(model="w")).said == ("Hello", "stop")

    odd = {} if vendor.id == "Claude" else {"odd": {"a": 1, "c": None}}
    assert samplers_in(model.asked[0].json) == {"temperature": 0.5, **odd}


@every
def test_an_explicit_null_keeps_the_sizes_out(vendor: Vendor, tmp_path: Path) -> None:
    length = vendor.file["maxNewTokensPropertyName"]
    window = vendor.file.get("truncateLengthPropertyName") or "no_such_field"
    folder = f"Presets/{vendor.file['presetType']}"
    tree = tree_of(vendor, tmp_path).workflow("w", [answers(preset="Own")])
    tree.write(f"{folder}/Own.json", {length: None, window: None})
    with (
        Upstream(vendor.answer(Said())) as model,
        with_model(tree, vendor, "Main", model.url, maxContextTokenSize=4096).serve() as live,
    ):
        assert hear(live.chat(model="w")).said == ("Hello", "stop")

    sent = {**model.asked[0].json, **model.asked[0].json.get("options", {})}
    assert window not in sent
    # Claude's interface answers nobody who names no length.
    assert sent.get(length) == (4096 if vendor.id == "Claude" else None)
