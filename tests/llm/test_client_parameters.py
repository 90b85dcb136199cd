from dataclasses import dataclass, field
from typing import Any

import pytest

from Middleware.core.messages import Message
from Middleware.llm.backend import ModelRequest
from Middleware.llm.client_parameters import ClientParameters
from tests.llm.setups import api_type, endpoint

TOOL = {"type": "function", "function": {"name": "f"}}
WORDS_1000 = "word " * 1000
"""1571 tokens by the estimate."""


@dataclass(frozen=True)
class Applied:
    id: str
    wanted: dict[str, Any]
    expected: dict[str, Any]
    payload: dict[str, Any] = field(default_factory=dict)
    type_keys: dict[str, Any] = field(default_factory=dict)
    window: int | None = None
    text: str = "hi"
    tools: tuple[dict[str, Any], ...] = ()


APPLIED = [
    Applied(
        "OpenAI's fields pass under their own names, over what is there",
        {"temperature": 0.1, "stop": ["x"], "seed": 7, "user": "u", "reasoning_effort": "low"},
        {"temperature": 0.1, "stop": ["x"], "seed": 7, "user": "u", "reasoning_effort": "low"},
        {"temperature": 1},
    ),
    Applied(
        "where the API type has another name, under that",
        {"stop": "x", "repeat_penalty": 1.1},
        {"stop_sequence": "x", "rep_pen": 1.1},
        type_keys={"samplerFieldMap": {"stop": "stop_sequence", "repeat_penalty": "rep_pen"}},
    ),
    Applied("names that are not OpenAI's need a name", {"top_k": 4, "min_p": 0.1}, {}),
    Applied(
        "what our answer cannot hold is not asked for",
        {"n": 2, "logprobs": True, "top_logprobs": 3},
        {},
    ),
    Applied(
        "parallel_tool_calls only with tools: OpenAI refuses it otherwise",
        {"parallel_tool_calls": False},
        {},
    ),
    Applied(
        "parallel_tool_calls with tools",
        {"parallel_tool_calls": False},
        {"parallel_tool_calls": False},
        tools=(TOOL,),
    ),
    Applied(
        "fields of the chat template merge",
        {"chat_template_kwargs": {"a": 2}},
        {"chat_template_kwargs": {"a": 2, "b": 1}},
        {"chat_template_kwargs": {"a": 1, "b": 1}},
        type_keys={"supportsChatTemplateKwargs": True},
    ),
    Applied("fields of the chat template, not supported", {"chat_template_kwargs": {"a": 2}}, {}),
    *[
        Applied(
            f"the length as {name}",
            {name: 100},
            {"n_predict": 100},
            {"n_predict": 400},
            {"maxNewTokensPropertyName": "n_predict"},
        )
        for name in ("max_tokens", "max_completion_tokens")
    ],
    Applied(
        "both names of the length", {"max_tokens": 1, "max_completion_tokens": 2}, {"max_tokens": 2}
    ),
    Applied(
        "no name for the length",
        {"max_tokens": 1},
        {},
        type_keys={"maxNewTokensPropertyName": None},
    ),
    Applied("no window: any length", {"max_tokens": 128000}, {"max_tokens": 128000}),
    Applied(
        "C-31: no longer than what the window leaves",
        {"max_tokens": 15821},
        {"max_tokens": 4096 - 1571},
        window=4096,
        text=WORDS_1000,
    ),
    Applied(
        "but never shorter than the author's own length",
        {"max_tokens": 15821},
        {"max_tokens": 3000},
        {"max_tokens": 3000},
        window=4096,
        text=WORDS_1000,
    ),
    Applied(
        "nor next to nothing",
        {"max_tokens": 900},
        {"max_tokens": 256},
        window=1500,
        text=WORDS_1000,
    ),
    Applied("a short length is left alone", {"max_tokens": 5}, {"max_tokens": 5}, window=100),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in APPLIED])
def test_the_fields_of_the_client_reach_the_payload(case: Applied) -> None:
    keys: dict[str, Any] = {"maxContextTokenSize": case.window} if case.window else {}
    client = ClientParameters(endpoint(**keys), api_type(**case.type_keys))
    request = ModelRequest(
        messages=(Message("user", case.text),), client_parameters=case.wanted, tools=case.tools
    )
    payload = dict(case.payload)

    client.apply(payload, request)

    assert payload == case.expected


def test_accepts_names_what_can_reach_the_backend() -> None:
    plain = ClientParameters(endpoint(), api_type()).accepts
    mapped = ClientParameters(
        endpoint(),
        api_type(
            samplerFieldMap={"top_k": "top_k"},
            supportsChatTemplateKwargs=True,
            maxNewTokensPropertyName=None,
        ),
    ).accepts

    assert {"temperature", "stop", "seed", "max_tokens", "max_completion_tokens"} <= plain
    assert not {"n", "logprobs", "top_k", "chat_template_kwargs"} & plain
    assert {"top_k", "chat_template_kwargs"} <= mapped
    assert "max_tokens" not in mapped
