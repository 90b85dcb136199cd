"""The official ``openai`` client against the whole server: tools that a node lets through."""

import json
from pathlib import Path
from typing import Any

from tests.fakes.upstream import DONE, Asked, Step, chat, delta, reply, stream, whole
from tests.scenarios.sdk import HI, MODEL, talking

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
PIECES = ("", '{"ci', 'ty": "Kö', 'ln"}')
ARGUMENTS = '{"city": "Köln"}'


def calls_weather(asked: Asked) -> list[Step]:
    """One tool call, in pieces or whole; an answer in words once there is a result."""
    if asked.json["messages"][-1]["role"] == "tool":
        return chat("It is ", "sunny.")(asked)
    first = {"index": 0, "id": "call_1", "type": "function"}
    function = {"name": "weather", "arguments": PIECES[0]}
    if not asked.json["stream"]:
        call = {**first, "function": {"name": "weather", "arguments": ARGUMENTS}}
        return whole(reply(None, "tool_calls", tool_calls=[call]))
    others = [{"index": 0, "function": {"arguments": piece}} for piece in PIECES[1:]]
    return stream(
        delta(tool_calls=[{**first, "function": function}]),
        *(delta(tool_calls=[piece]) for piece in others),
        delta(finish_reason="tool_calls"),
        DONE,
    )


def test_a_tool_call_comes_back_whole_and_its_result_is_understood(tmp_path: Path) -> None:
    with talking(tmp_path, calls_weather, node={"allowTools": True}) as (client, model, _):
        first = client.chat.completions.create(
            model=MODEL, messages=HI, tools=[TOOL], tool_choice="auto"
        )
        said = first.choices[0].message
        assert said.tool_calls is not None
        (call,) = said.tool_calls
        history = [*HI, said, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        second = client.chat.completions.create(model=MODEL, messages=history, tools=[TOOL])

    assert first.choices[0].finish_reason == "tool_calls"
    assert said.content is None
    assert call.type == "function"
    assert (call.id, call.function.name, call.function.arguments) == (
        "call_1",
        "weather",
        ARGUMENTS,
    )
    assert second.choices[0].message.content == "It is sunny."
    one, two = [asked.json for asked in model.asked]
    assert (one["tools"], one["tool_choice"]) == ([TOOL], "auto")
    assert "tool_choice" not in two
    assert two["messages"] == [
        *HI,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": ARGUMENTS},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]


def test_a_tool_call_comes_back_streamed(tmp_path: Path) -> None:
    with (
        talking(tmp_path, calls_weather, node={"allowTools": True}) as (client, _, _),
        client.chat.completions.stream(model=MODEL, messages=HI, tools=[TOOL]) as events,
    ):
        kinds = [event.type for event in events]
        completion = events.get_final_completion()

    assert "tool_calls.function.arguments.done" in kinds
    (choice,) = completion.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert (call.id, call.function.name) == ("call_1", "weather")
    assert json.loads(call.function.arguments) == {"city": "Köln"}


def test_a_tool_may_be_named_and_two_calls_stay_two(tmp_path: Path) -> None:
    calls = [
        {"index": 0, "id": f"a{number}", "function": {"name": "weather", "arguments": text}}
        for number, text in enumerate(('{"city":"A"}', '{"city":"B"}'))
    ]
    choice: Any = {"type": "function", "function": {"name": "weather"}}
    play = stream(*(delta(tool_calls=[call]) for call in calls), delta(finish_reason="stop"), DONE)
    with (
        talking(tmp_path, play, node={"allowTools": True}) as (client, model, _),
        client.chat.completions.stream(
            model=MODEL, messages=HI, tools=[TOOL], tool_choice=choice
        ) as events,
    ):
        completion = events.get_final_completion()

    assert model.asked[0].json["tool_choice"] == choice
    assert completion.choices[0].finish_reason == "tool_calls"
    made = completion.choices[0].message.tool_calls
    assert made is not None
    assert [(call.id, call.function.arguments) for call in made] == [
        ("a0", '{"city":"A"}'),
        ("a1", '{"city":"B"}'),
    ]


def test_a_node_without_allow_tools_keeps_them_from_its_model(tmp_path: Path) -> None:
    with talking(tmp_path, chat("ok")) as (client, model, _):
        client.chat.completions.create(
            model=MODEL, messages=HI, tools=[TOOL], tool_choice="required"
        )

    assert not {"tools", "tool_choice"} & model.asked[0].json.keys()
