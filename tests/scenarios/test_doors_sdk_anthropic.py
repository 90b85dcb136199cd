"""The official ``anthropic`` client against the whole server (clients §2.5, §6.1)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import pytest
from pydantic import BaseModel

from tests.fakes.headrace import Headrace, Tree, answers
from tests.fakes.upstream import (
    CUT,
    DONE,
    Answer,
    Upstream,
    chat,
    delta,
    refuses,
    stream,
    usage_chunk,
)

MODEL = "tester:assistant"
SYSTEM = {"systemPrompt": "{chat_system_prompt}"}
"""A node that gives its model the client's system prompt."""
HI: list[Any] = [{"role": "user", "content": "hi"}]
TOOL: Any = {
    "name": "weather",
    "description": "d",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@contextmanager
def talking(
    root: Path, *plays: Answer, node: dict[str, Any] | None = None, **user: Any
) -> Iterator[tuple[anthropic.Anthropic, Upstream, Headrace]]:
    tree = Tree(root, **user).workflow("assistant", [answers(**(node or {}))])
    with (
        Upstream(*plays) as model,
        tree.model("Main", model.url).serve() as live,
        anthropic.Anthropic(api_key="none", base_url=live.url) as client,
    ):
        yield client, model, live


def test_a_message(tmp_path: Path) -> None:
    with talking(tmp_path, chat("Hel", "lo"), node=SYSTEM) as (client, model, _):
        message = client.messages.create(
            model=MODEL,
            max_tokens=50,
            system="Be kind.",
            messages=HI,
            extra_body={"temperature": 0.5},
        )

    (block,) = message.content
    assert block.type == "text"
    assert block.text == "Hello"
    assert (message.stop_reason, message.model) == ("end_turn", MODEL)
    assert (message.usage.input_tokens, message.usage.output_tokens) == (5, 7)
    sent = model.asked[0].json
    assert [one["role"] for one in sent["messages"]] == ["system", "user"]
    assert (sent["temperature"], sent["max_tokens"]) == (0.5, 50)


def test_the_stream_helper(tmp_path: Path) -> None:
    with (
        talking(tmp_path, chat("Hel", "lo")) as (client, _, _),
        client.messages.stream(model=MODEL, max_tokens=50, messages=HI) as events,
    ):
        text = "".join(events.text_stream)
        message = events.get_final_message()

    assert text == "Hello"
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens == 7


def test_tools_go_round(tmp_path: Path) -> None:
    calls = [{"index": 0, "id": "c1", "function": {"name": "weather", "arguments": ""}}]
    more = [{"index": 0, "function": {"arguments": '{"city":"Rome"}'}}]
    play = stream(
        delta(tool_calls=calls),
        delta(tool_calls=more),
        delta(finish_reason="tool_calls"),
        usage_chunk(5, 7),
        DONE,
    )
    with talking(tmp_path, play, chat("It rains."), node={"allowTools": True}) as talk:
        client, model, _ = talk
        with client.messages.stream(
            model=MODEL, max_tokens=50, messages=HI, tools=[TOOL]
        ) as events:
            first = events.get_final_message()
        (call,) = first.content
        assert call.type == "tool_use"
        result = {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": [{"type": "text", "text": "Rain"}],
        }
        history: list[Any] = [
            *HI,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result]},
        ]
        second = client.messages.create(model=MODEL, max_tokens=50, messages=history, tools=[TOOL])

    assert (call.input, first.stop_reason) == ({"city": "Rome"}, "tool_use")
    assert second.content[0].type == "text"
    assert model.asked[1].json["messages"][-1]["role"] == "tool"


class Point(BaseModel):
    x: int


def test_parsed_answers(tmp_path: Path) -> None:
    with talking(tmp_path, chat('{"x": 4}')) as (client, model, _):
        message = client.messages.parse(
            model=MODEL, max_tokens=50, messages=HI, output_format=Point
        )

    assert message.parsed_output == Point(x=4)
    assert model.asked[0].json["response_format"]["type"] == "json_schema"


def test_tokens_are_counted_and_models_listed(tmp_path: Path) -> None:
    with talking(tmp_path) as (client, model, _):
        count = client.messages.count_tokens(model=MODEL, messages=HI, tools=[TOOL])
        listed = list(client.models.list())
        shown = client.models.retrieve(MODEL)

    assert count.input_tokens > 0
    assert [model.id for model in listed] == [MODEL]
    assert (shown.type, shown.display_name) == ("model", MODEL)
    assert model.asked == []


def test_errors_have_their_classes(tmp_path: Path) -> None:
    with talking(tmp_path, refuses(400, "too long"), refuses(500, "no")) as (client, model, _):
        with pytest.raises(anthropic.BadRequestError, match="too long"):
            client.messages.create(model=MODEL, max_tokens=50, messages=HI)
        with pytest.raises(anthropic.InternalServerError):
            client.messages.create(model=MODEL, max_tokens=50, messages=HI)
        with pytest.raises(anthropic.NotFoundError, match=MODEL):
            client.messages.create(model="asistant", max_tokens=50, messages=HI)
        with pytest.raises(anthropic.NotFoundError):
            client.models.retrieve("nope")

    # Nothing that would fail again was asked again.
    assert len(model.asked) == 2


def test_a_key_is_taken_as_the_client_sends_it(tmp_path: Path) -> None:
    with talking(tmp_path, apiKeys=["sk-1"]) as (_, _, live):
        with anthropic.Anthropic(api_key="sk-1", base_url=live.url) as right:
            assert right.messages.create(model=MODEL, max_tokens=9, messages=HI).content
        with (
            anthropic.Anthropic(api_key="sk-2", base_url=live.url) as wrong,
            pytest.raises(anthropic.AuthenticationError),
        ):
            wrong.models.list()


def test_a_stream_that_breaks_says_so(tmp_path: Path) -> None:
    with (
        talking(tmp_path, stream(delta("Hel"), CUT)) as (client, _, _),
        pytest.raises(anthropic.APIStatusError),
        client.messages.stream(model=MODEL, max_tokens=50, messages=HI) as events,
    ):
        events.get_final_message()


def test_what_claude_code_sends(tmp_path: Path) -> None:
    """A system message behind the newest user message, `cache_control`, and much more."""
    cached = {"type": "ephemeral"}
    body: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": 32000,
        "stream": True,
        "system": [{"type": "text", "text": "Be kind.", "cache_control": cached}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": cached}]},
            {"role": "system", "content": "Mind the time."},
        ],
        "tools": [{**TOOL, "cache_control": cached}],
        "metadata": {"user_id": '{"session_id":"s"}'},
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": []},
        "output_config": {"effort": "high"},
    }
    with talking(tmp_path, chat("Hello"), node=SYSTEM) as (_, model, live):
        with live.connect() as probe:
            probe.send("HEAD", "/")
            assert probe.receive(head_only=True).status == 200
        received = live.ask("POST", "/v1/messages?beta=true", body, anthropic_version="2023-06-01")

    assert received.status == 200
    assert b'"text":"Hello"' in received.body
    roles = [message["role"] for message in model.asked[0].json["messages"]]
    assert roles == ["system", "user", "system"]
