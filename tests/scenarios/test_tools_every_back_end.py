"""Tools through every API type that has them: offered, chosen, called, answered."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import answers
from tests.fakes.upstream import Upstream, whole
from tests.fakes.vendors import (
    CHATS,
    CLAUDE,
    DONE,
    LLAMA_CPP,
    MLX,
    OPENAI_CHAT,
    RESPONSES,
    WEB_UI,
    Call,
    Said,
    Vendor,
    data,
)
from tests.scenarios.modes import both_modes
from tests.scenarios.vendor_ways import asked, tree_of, with_model

OPENAI_TYPES = (OPENAI_CHAT, LLAMA_CPP, WEB_UI, MLX)
CANNOT_BE_HELD = tuple(vendor for vendor in CHATS if not vendor.file.get("structuredOutput"))
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("add", "mul")
]
BY_NAME = {"type": "function", "function": {"name": "mul"}}
NODE: Mapping[str, Any] = {"allowTools": True}

every_chat = pytest.mark.parametrize("vendor", CHATS, ids=str)


def names_sent(body: Any) -> list[str]:
    """The tools that a model server was offered."""
    return [tool.get("name") or tool["function"]["name"] for tool in body.get("tools", ())]


# ------------------------------------------------------------------------- offered and chosen

_AUTO = {"Claude": {"type": "auto"}, "OllamaApiChat": None}
_NONE: Mapping[str, Any] = {"Claude": None, "OllamaApiChat": None}
_REQUIRED = {"Claude": {"type": "any"}}
_NAMED = {"Claude": {"type": "tool", "name": "mul"}}


@every_chat
def test_tools_are_offered_without_a_choice(vendor: Vendor, tmp_path: Path) -> None:
    with asked(
        vendor, tmp_path, vendor.answer(Said()), stream=True, node=NODE, tools=TOOLS
    ) as told:
        assert names_sent(told.sent) == ["add", "mul"]
        assert "tool_choice" not in told.sent


@every_chat
def test_a_choice_of_auto(vendor: Vendor, tmp_path: Path) -> None:
    with asked(
        vendor,
        tmp_path,
        vendor.answer(Said()),
        stream=True,
        node=NODE,
        tools=TOOLS,
        tool_choice="auto",
    ) as told:
        assert names_sent(told.sent) == ["add", "mul"]
        assert told.sent.get("tool_choice") == _AUTO.get(vendor.id, "auto")


@every_chat
def test_a_choice_of_none_lets_the_model_call_nothing(vendor: Vendor, tmp_path: Path) -> None:
    """Servers without such a choice are offered no tools."""
    with asked(
        vendor,
        tmp_path,
        vendor.answer(Said()),
        stream=True,
        node=NODE,
        tools=TOOLS,
        tool_choice="none",
    ) as told:
        assert told.heard.said == ("Hello", "stop")
        assert told.sent.get("tool_choice") == _NONE.get(vendor.id, "none")
        assert (names_sent(told.sent) == []) is (vendor.id in _NONE)


@pytest.mark.parametrize("choice", ["required", BY_NAME], ids=["required", "by name"])
@pytest.mark.parametrize("vendor", CANNOT_BE_HELD, ids=str)
def test_a_call_that_must_happen_is_asked_for_in_the_servers_own_way(
    vendor: Vendor, choice: Any, tmp_path: Path
) -> None:
    said = Said((), calls=(Call("mul", {"a": 2}),))
    with asked(
        vendor,
        tmp_path,
        vendor.answer(said),
        stream=True,
        node=NODE,
        tools=TOOLS,
        tool_choice=choice,
    ) as told:
        own = _REQUIRED if choice == "required" else _NAMED
        assert told.sent["tool_choice"] == own.get(vendor.id, choice)
        assert [call["name"] for call in told.heard.tool_calls] == ["mul"]


@every_chat
def test_a_node_without_the_clients_tools_offers_none(vendor: Vendor, tmp_path: Path) -> None:
    with asked(
        vendor,
        tmp_path,
        vendor.answer(Said()),
        stream=True,
        tools=TOOLS,
        tool_choice="required",
    ) as told:
        assert told.heard.said == ("Hello", "stop")
        assert not {"tools", "tool_choice", "format", "response_format", "text"} & told.sent.keys()


# ------------------------------------------------------------------------------------- called


@both_modes
@every_chat
def test_what_is_said_before_a_call_is_kept(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    said = Said(("Let me ", "see."), calls=(Call("add", {"a": 2}), Call("add", {"a": 3}, "call_2")))
    with asked(
        vendor, tmp_path, vendor.answer(said), stream=stream, node=NODE, tools=TOOLS
    ) as told:
        heard = told.heard
        assert (heard.text, heard.finish_reason) == ("Let me see.", "tool_calls")
        assert [json.loads(call["arguments"]) for call in heard.tool_calls] == [{"a": 2}, {"a": 3}]
        assert len({call["id"] for call in heard.tool_calls}) == 2
        assert all(call["id"] for call in heard.tool_calls)


@both_modes
@every_chat
def test_c12_a_call_without_arguments_is_an_empty_object(
    vendor: Vendor, stream: bool, tmp_path: Path
) -> None:
    said = Said((), calls=(Call("add", {}),))
    with asked(
        vendor, tmp_path, vendor.answer(said), stream=stream, node=NODE, tools=TOOLS
    ) as told:
        assert [call["arguments"] for call in told.heard.tool_calls] == ["{}"]


def _openai(arguments: str, stream: bool, **whose: Any) -> Any:
    call = {**whose, "function": {"name": "add", "arguments": arguments}}
    if not stream:
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return whole({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    frames = (
        data({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}),
        data({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    )
    return OPENAI_CHAT.stream(*frames, DONE)


@both_modes
@pytest.mark.parametrize("vendor", OPENAI_TYPES, ids=str)
def test_a_call_without_an_id_is_given_one(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    play = _openai('{"a": 2}', stream or vendor.always_streams)
    with asked(vendor, tmp_path, play, stream=stream, node=NODE, tools=TOOLS) as told:
        (call,) = told.heard.tool_calls
        assert call["id"]
        assert (call["name"], call["arguments"]) == ("add", '{"a": 2}')


BROKEN = [(vendor, stream) for vendor in (*OPENAI_TYPES, RESPONSES) for stream in (True, False)]
BROKEN.append((CLAUDE, True))
"""A whole answer of Claude's, and any of Ollama's, holds arguments as an object."""


@pytest.mark.parametrize(("vendor", "stream"), BROKEN)
def test_arguments_that_are_no_json_are_passed_on_as_they_came(
    vendor: Vendor, stream: bool, tmp_path: Path
) -> None:
    """The client can tell its model; nobody here can know what was meant."""
    said = Said((), calls=(Call("add", id="c1", raw='{"a": '),))
    tree = tree_of(vendor, tmp_path).workflow("w", [answers(**NODE)])
    with (
        Upstream(vendor.answer(said)) as model,
        with_model(tree, vendor, "Main", model.url).serve() as live,
    ):
        received = live.chat(model="w", stream=stream, tools=TOOLS)

    assert received.status == 200
    payloads = (
        [json.loads(frame[6:]) for frame in received.frames if frame.startswith("data: {")]
        if stream
        else [received.json]
    )
    pieces = [
        piece["function"].get("arguments", "")
        for payload in payloads
        for choice in payload["choices"]
        for piece in choice.get("delta", choice.get("message")).get("tool_calls", ())
    ]
    assert "".join(pieces) == '{"a": '
    assert payloads[-1]["choices"][0]["finish_reason"] == "tool_calls"


# ----------------------------------------------------------------------------------- answered

Turn = tuple[str, Any]


def _openai_turns(body: Any) -> list[Turn]:
    turns: list[Turn] = []
    for message in body["messages"]:
        calls = message.get("tool_calls") or ()
        if message["role"] == "tool":
            turns.append(("result", (message["tool_call_id"], message["content"])))
        elif message["content"] or not calls:
            turns.append((message["role"], message["content"]))
        for call in calls:
            arguments = call["function"]["arguments"]
            read = json.loads(arguments) if isinstance(arguments, str) else arguments
            turns.append(("call", (call.get("id"), call["function"]["name"], read)))
    return turns


def _ollama_turns(body: Any) -> list[Turn]:
    """Ollama's calls have no ids; results are told by the name of their tool."""
    names = [message.get("tool_name") for message in body["messages"] if message["role"] == "tool"]
    assert names == ["add", "mul"]
    ids = iter(("t1", "t2"))
    return [
        ("call", (next(ids), *value[1:])) if kind == "call" else (kind, value)
        for kind, value in _openai_turns(body)
    ]


def _claude_turns(body: Any) -> list[Turn]:
    turns: list[Turn] = [("system", body["system"])] if "system" in body else []
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                turns.append((message["role"], block["text"]))
            elif block["type"] == "tool_use":
                turns.append(("call", (block["id"], block["name"], block["input"])))
            else:
                turns.append(("result", (block["tool_use_id"], block["content"])))
    return turns


def _responses_turns(body: Any) -> list[Turn]:
    turns: list[Turn] = []
    for item in body["input"]:
        if item["type"] == "message":
            turns.append((item["role"], item["content"]))
        elif item["type"] == "function_call":
            arguments = json.loads(item["arguments"])
            turns.append(("call", (item["call_id"], item["name"], arguments)))
        else:
            turns.append(("result", (item["call_id"], item["output"])))
    return turns


TURNS: Mapping[str, Callable[[Any], list[Turn]]] = {
    "/v1/chat/completions": _openai_turns,
    "/api/chat": _ollama_turns,
    "/v1/messages": _claude_turns,
    "/v1/responses": _responses_turns,
}
EXCHANGE: Sequence[Mapping[str, Any]] = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}},
            {"id": "t2", "type": "function", "function": {"name": "mul", "arguments": ""}},
        ],
    },
    {"role": "tool", "tool_call_id": "t1", "content": "5"},
    {"role": "tool", "tool_call_id": "t2", "content": "6"},
]
HISTORY = [{"role": "user", "content": "2+3?"}, *EXCHANGE]
AS_TURNS: list[Turn] = [
    ("call", ("t1", "add", {"a": 2})),
    ("call", ("t2", "mul", {})),
    ("result", ("t1", "5")),
    ("result", ("t2", "6")),
]


@every_chat
def test_calls_and_their_results_are_sent_as_such(vendor: Vendor, tmp_path: Path) -> None:
    with asked(vendor, tmp_path, vendor.answer(Said()), stream=False, messages=HISTORY) as told:
        assert told.heard.said == ("Hello", "stop")
        assert TURNS[vendor.path](told.sent) == [("user", "2+3?"), *AS_TURNS]


PROMPT_NODE = {
    "systemPrompt": "Be brief.",
    "prompt": "Go on with: {chat_user_prompt_last_one}",
    "lastMessagesToSendInsteadOfPrompt": None,
    "appendNativeToolExchange": True,
}
PROMPTED: list[Turn] = [("system", "Be brief."), ("user", "Go on with: 2+3?")]


@pytest.mark.parametrize("filler", [False, True], ids=["alone", "with filler behind it"])
@every_chat
def test_an_exchange_follows_a_nodes_own_prompt(
    vendor: Vendor, filler: bool, tmp_path: Path
) -> None:
    behind = [{"role": "assistant", "content": "Assistant:"}] if filler else []
    with asked(
        vendor,
        tmp_path,
        vendor.answer(Said()),
        stream=True,
        node=PROMPT_NODE,
        messages=[*HISTORY, *behind],
    ) as told:
        assert told.heard.said == ("Hello", "stop")
        assert TURNS[vendor.path](told.sent) == [*PROMPTED, *AS_TURNS]


OFF: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "the node says no": ({"appendNativeToolExchange": False}, {}),
    "the node says no as a text": ({"appendNativeToolExchange": "false"}, {}),
    "the endpoint has no such turns": ({}, {"backendSupportsToolTurns": False}),
}


@pytest.mark.parametrize("off", OFF)
@every_chat
def test_otherwise_a_nodes_own_prompt_is_all(vendor: Vendor, off: str, tmp_path: Path) -> None:
    node, endpoint = OFF[off]
    with asked(
        vendor,
        tmp_path,
        vendor.answer(Said()),
        stream=True,
        node={**PROMPT_NODE, **node},
        endpoint=endpoint,
        messages=HISTORY,
    ) as told:
        assert told.heard.said == ("Hello", "stop")
        sent = json.dumps(told.sent)
        assert '"add"' not in sent
        assert "tool" not in sent
