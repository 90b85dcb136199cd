"""The same scripted conversation through every API type, as it ships: what a model server is asked,
byte for byte, and what a client hears of its answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.upstream import byte_by_byte
from tests.fakes.vendors import CHATS, KOBOLD, TEXTS, VENDORS, Call, Said, Vendor
from tests.scenarios.modes import both_modes
from tests.scenarios.vendor_ways import asked

PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS},
}
ARGUMENTS = '{"a": 2, "b": 3}'
CALLS = [{"id": "t1", "type": "function", "function": {"name": "add", "arguments": ARGUMENTS}}]
QUESTION = {"role": "user", "content": "2+3?"}
WITH_RESULT = [
    {"role": "system", "content": "of the client"},
    QUESTION,
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "t1", "content": "5"},
    {"role": "user", "content": "And?"},
]
TALK = [
    {"role": "user", "content": "Hi."},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "And?"},
]
CHATML = (
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi.<|im_end|>\n"
    "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n"
    "<|im_start|>assistant\n"
)
NODE = {
    "systemPrompt": "Be brief.",
    "allowTools": True,
    "forceGenerationPromptIfEndpointAllows": True,
    "maxResponseSizeInTokens": 100,
}
ENDPOINT = {
    "apiKey": "sk-1",
    "maxContextTokenSize": 4096,
    "presetSamplers": {"temperature": 0.5, "top_p": 0.9},
}


USAGE: Mapping[str, Any] = {"stream_options": {"include_usage": True}}

USAGE = {"stream_options": {"include_usage": True}}


@dataclass(frozen=True)
class Asked:
    """The body of a request: what is the same in both modes, and what streaming adds."""

    body: Mapping[str, Any]
    streamed: Mapping[str, Any] = field(default_factory=lambda: {"stream": True, **USAGE})
    whole: Mapping[str, Any] = field(default_factory=lambda: {"stream": False})
    headers: Mapping[str, str | None] | None = None


SAMPLERS = {"temperature": 0.5, "top_p": 0.9}
OPENAI_MESSAGES = [
    {"role": "system", "content": "Be brief."},
    QUESTION,
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "tool", "content": "5", "tool_call_id": "t1"},
    {"role": "user", "content": "And?"},
]

ASKED: Mapping[str, Asked] = {
    "Open-AI-API": Asked(
        {
            "model": "test-model",
            "messages": OPENAI_MESSAGES,
            **SAMPLERS,
            "max_tokens": 100,
            "tools": [TOOL],
        },
    ),
    "LlamaCppServer": Asked(
        {
            "model": "test-model",
            "messages": OPENAI_MESSAGES,
            **SAMPLERS,
            "truncation_length": 4096,
            "n_predict": 100,
            "tools": [TOOL],
        },
    ),
    "Text-Generation-WebUI": Asked(
        {
            "model": "test-model",
            "messages": OPENAI_MESSAGES,
            **SAMPLERS,
            "truncation_length": 4096,
            "max_tokens": 100,
            "tools": [TOOL],
        },
    ),
    "mlx-lm": Asked(
        {
            "model": "test-model",
            "messages": OPENAI_MESSAGES,
            **SAMPLERS,
            "max_tokens": 100,
            "tools": [TOOL],
        },
    ),
    "OllamaApiChat": Asked(
        {
            "model": "test-model",
            "messages": [
                {"role": "system", "content": "Be brief."},
                QUESTION,
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "add", "arguments": {"a": 2, "b": 3}}}],
                },
                {"role": "tool", "content": "5", "tool_call_id": "t1", "tool_name": "add"},
                {"role": "user", "content": "And?"},
            ],
            "options": {**SAMPLERS, "num_ctx": 4096, "num_predict": 100},
            "tools": [TOOL],
        },
        {},
        {"stream": False},
    ),
    "Claude": Asked(
        {
            "model": "test-model",
            "system": "Be brief.",
            "messages": [
                QUESTION,
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 2, "b": 3}}
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": "5"},
                        {"type": "text", "text": "And?"},
                    ],
                },
            ],
            **SAMPLERS,
            "max_tokens": 100,
            "tools": [{"name": "add", "description": "Adds.", "input_schema": PARAMETERS}],
        },
        {"stream": True},
        {"stream": False},
        headers={"x-api-key": "sk-1", "anthropic-version": "2023-06-01", "authorization": None},
    ),
    "OpenAI-Responses": Asked(
        {
            "model": "test-model",
            "input": [
                {"type": "message", "role": "system", "content": "Be brief."},
                {"type": "message", **QUESTION},
                {
                    "type": "function_call",
                    "call_id": "t1",
                    "name": "add",
                    "arguments": ARGUMENTS,
                },
                {"type": "function_call_output", "call_id": "t1", "output": "5"},
                {"type": "message", "role": "user", "content": "And?"},
            ],
            "store": False,
            **SAMPLERS,
            "max_output_tokens": 100,
            "tools": [
                {
                    "type": "function",
                    "name": "add",
                    "description": "Adds.",
                    "parameters": PARAMETERS,
                    "strict": False,
                }
            ],
        },
        {"stream": True},
        {"stream": False},
    ),
    "OpenAI-Compatible-Completions": Asked(
        {"model": "test-model", "prompt": CHATML, **SAMPLERS, "max_tokens": 100},
    ),
    "OllamaApiGenerate": Asked(
        {
            "model": "test-model",
            "prompt": CHATML,
            "raw": True,
            "options": {**SAMPLERS, "num_ctx": 4096, "num_predict": 100},
        },
        {"stream": True},
        {"stream": False},
    ),
    "KoboldCpp": Asked(
        {"prompt": CHATML, **SAMPLERS, "max_context_length": 4096, "max_length": 100},
        {"stream": True},
        {"stream": False},
    ),
}

every = pytest.mark.parametrize("vendor", VENDORS, ids=str)
every_chat = pytest.mark.parametrize("vendor", CHATS, ids=str)


@both_modes
@every
def test_what_a_model_server_is_asked(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    expected = ASKED[vendor.id]
    history = WITH_RESULT if vendor.is_chat else TALK
    with asked(
        vendor,
        tmp_path,
        vendor.answer(Said()),
        stream=stream,
        node=NODE,
        endpoint=ENDPOINT,
        messages=history,
        tools=[TOOL],
    ) as told:
        (request,) = told.model.asked

    streams = stream or vendor.always_streams
    sent = dict(request.json)
    if vendor is KOBOLD:
        # By which it is told to stop, and another one each time.
        assert re.fullmatch("KCPP[0-9a-f]{16}", sent.pop("genkey"))
    assert sent == {**expected.body, **(expected.streamed if streams else expected.whole)}
    assert request.path == ((vendor.stream_path if streams else "") or vendor.path)
    headers = expected.headers or {"authorization": "Bearer sk-1", "x-api-key": None}
    assert {name: request.headers.get(name) for name in headers} == headers


def usage_of(vendor: Vendor, said: Said, stream: bool) -> dict[str, int] | None:
    """What the server counted; None where it does not say."""
    told = "usage" in vendor.tells or ("whole usage" in vendor.tells and not stream)
    total = said.prompt_tokens + said.completion_tokens
    return (
        {
            "prompt_tokens": said.prompt_tokens,
            "completion_tokens": said.completion_tokens,
            "total_tokens": total,
        }
        if told
        else None
    )


@both_modes
@every
def test_what_a_client_hears(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    thought = "I add." if "reasoning" in vendor.tells else ""
    said = Said(("It ", "is 5", "."), reasoning=thought)
    fields = {"stream_options": {"include_usage": True}} if stream else {}
    with asked(vendor, tmp_path, vendor.answer(said), stream=stream, **fields) as told:
        heard = told.heard
        assert (heard.text, heard.reasoning, heard.finish_reason) == ("It is 5.", thought, "stop")
        counted = usage_of(vendor, said, stream)
        if counted is not None:
            assert heard.usage == counted
        assert told.run["tokens"]["estimated"] is (counted is None)
        assert told.step["thinking"] == (thought or None)


@both_modes
@every
def test_an_answer_that_was_cut_by_its_length_says_so(
    vendor: Vendor, stream: bool, tmp_path: Path
) -> None:
    with asked(vendor, tmp_path, vendor.answer(Said(reason="length")), stream=stream) as told:
        assert told.heard.said == ("Hello", "length")


@both_modes
@every_chat
def test_tools_are_called_and_their_calls_are_whole(
    vendor: Vendor, stream: bool, tmp_path: Path
) -> None:
    said = Said((), calls=(Call("add", {"a": 2}, "c1"), Call("mul", {}, "c2")))
    with asked(
        vendor,
        tmp_path,
        vendor.answer(said),
        stream=stream,
        node={"allowTools": True},
        tools=[TOOL],
    ) as told:
        heard = told.heard
        assert heard.finish_reason == "tool_calls"
        assert [call["name"] for call in heard.tool_calls] == ["add", "mul"]
        assert [call["arguments"].replace(" ", "") for call in heard.tool_calls] == [
            '{"a":2}',
            "{}",
        ]
        assert len({call["id"] for call in heard.tool_calls}) == 2


@pytest.mark.parametrize("vendor", TEXTS, ids=str)
def test_an_agent_of_a_text_server_gets_its_template(vendor: Vendor, tmp_path: Path) -> None:
    node = {"type": "Agent", "systemPrompt": "Be brief.", "prompt": "And?"}
    with asked(vendor, tmp_path, vendor.answer(Said()), stream=True, node=node) as told:
        assert told.heard.said == ("Hello", "stop")
        assert told.sent["prompt"] == (
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n"
            "<|im_start|>assistant\n"
        )


@both_modes
@every
def test_what_a_node_collects_is_the_same(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    with asked(vendor, tmp_path, vendor.answer(Said()), stream=stream, collects=True) as told:
        assert told.heard.said == ("Hello", "stop")


@every
def test_a_key_is_sent_only_where_there_is_one(vendor: Vendor, tmp_path: Path) -> None:
    with asked(vendor, tmp_path, vendor.answer(Said()), stream=True) as told:
        headers = told.model.asked[0].headers

    assert "authorization" not in headers
    assert "x-api-key" not in headers


@every
def test_no_model_is_named_where_the_endpoint_says_so(vendor: Vendor, tmp_path: Path) -> None:
    endpoint = {"dontIncludeModel": True}
    with asked(vendor, tmp_path, vendor.answer(Said()), stream=False, endpoint=endpoint) as told:
        assert "model" not in told.sent


@pytest.mark.parametrize("vendor", TEXTS, ids=str)
def test_text_servers_get_no_tools(vendor: Vendor, tmp_path: Path) -> None:
    with asked(
        vendor,
        tmp_path,
        vendor.answer(Said()),
        stream=False,
        node={"allowTools": True},
        tools=[TOOL],
        tool_choice="required",
    ) as told:
        assert told.heard.said == ("Hello", "stop")
        assert not {"tools", "tool_choice", "format"} & told.sent.keys()


SAMPLING: dict[str, Any] = {
    "temperature": 0.25,
    "top_p": 0.5,
    "max_tokens": 9,
    "stop": "X",
    "seed": 3,
}
NATIVE: Mapping[str, Any] = {
    "Open-AI-API": SAMPLING,
    "LlamaCppServer": {
        **{name: value for name, value in SAMPLING.items() if name != "max_tokens"},
        "n_predict": 9,
    },
    "Text-Generation-WebUI": SAMPLING,
    "mlx-lm": SAMPLING,
    "OllamaApiChat": {
        "options": {"temperature": 0.25, "top_p": 0.5, "num_predict": 9, "stop": ["X"], "seed": 3}
    },
    "Claude": {"temperature": 0.25, "top_p": 0.5, "max_tokens": 9, "stop_sequences": ["X"]},
    "OpenAI-Responses": {"temperature": 0.25, "top_p": 0.5, "max_output_tokens": 9},
    "OpenAI-Compatible-Completions": SAMPLING,
    "OllamaApiGenerate": {
        "options": {"temperature": 0.25, "top_p": 0.5, "num_predict": 9, "stop": ["X"], "seed": 3}
    },
    "KoboldCpp": {
        "temperature": 0.25,
        "top_p": 0.5,
        "max_length": 9,
        "stop_sequence": ["X"],
        "sampler_seed": 3,
    },
}
UNKNOWN = {"Claude": "seed", "OpenAI-Responses": "stop, seed"}


@every
def test_the_clients_sampling_fields_reach_the_model_by_its_own_names(
    vendor: Vendor, tmp_path: Path
) -> None:
    with asked(vendor, tmp_path, vendor.answer(Said()), stream=False, **SAMPLING) as told:
        sent = told.sent
        assert {name: sent.get(name) for name in NATIVE[vendor.id]} == NATIVE[vendor.id]
        assert told.heard.headers.get("x-headrace-ignored") == UNKNOWN.get(vendor.id)


@both_modes
@every
def test_c16_bytes_may_come_one_by_one(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    text = "Grüße 使用 👩‍👩‍👧 🌍"
    play = byte_by_byte(vendor.answer(Said((text[:4], text[4:]))))
    with asked(vendor, tmp_path, play, stream=stream) as told:
        assert told.heard.said == (text, "stop")
