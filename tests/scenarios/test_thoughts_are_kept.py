"""What a model thinks is in the record of its step, however the answer is used, and no part of it.

Every API type, thinking between tags and in a field of its own.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import CUT, Upstream, chat
from tests.fakes.vendors import CHATS, OPENAI_CHAT, VENDORS, Call, Said, Vendor
from tests.scenarios.modes import both_modes
from tests.scenarios.test_agent_tools import agent, calls
from tests.scenarios.vendor_ways import Told, tree_of, with_model
from tests.scenarios.ways import SAYS_WHAT_WAS_COLLECTED

TAGS = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
JSON = '{"age": 7}'
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
AGENT = {"type": "Agent", "prompt": "How old?"}

WAYS: Mapping[str, list[dict[str, Any]]] = {
    "answers": [answers()],
    "is collected": [answers(), SAYS_WHAT_WAS_COLLECTED],
    "in JSON": [answers(structuredOutputFile="person")],
    "in JSON, collected": [answers(structuredOutputFile="person"), SAYS_WHAT_WAS_COLLECTED],
    "an agent": [answers(**AGENT)],
    "an agent, collected": [answers(**AGENT), SAYS_WHAT_WAS_COLLECTED],
    "an agent in JSON": [answers(**AGENT, outputSchema=SCHEMA)],
    "an agent in JSON, collected": [
        answers(**AGENT, outputSchema=SCHEMA),
        SAYS_WHAT_WAS_COLLECTED,
    ],
}
IN_JSON = ("in JSON", "in JSON, collected", "an agent in JSON", "an agent in JSON, collected")

every_way = pytest.mark.parametrize("way", WAYS)


def thought(
    vendor: Vendor, root: Path, said: Said, way: str, *, stream: bool, tags: Mapping[str, Any]
) -> Told:
    tree = tree_of(vendor, root).workflow("w", WAYS[way])
    tree.write("StructuredOutputs/person.json", SCHEMA)
    with (
        Upstream(vendor.answer(said)) as model,
        with_model(tree, vendor, "Main", model.url, **tags).serve() as live,
    ):
        return Told(hear(live.chat(model="w", stream=stream)), model, live)


@both_modes
@every_way
@pytest.mark.parametrize("vendor", VENDORS, ids=str)
def test_between_tags(vendor: Vendor, way: str, stream: bool, tmp_path: Path) -> None:
    said = Said(("<thi", "nk>Seven, I th", "ink.</think>\n```json\n", JSON, "\n```"))
    told = thought(vendor, tmp_path, said, way, stream=stream, tags=TAGS)

    assert told.step["thinking"] == "Seven, I think."
    content = told.step["outputData"]["content"]
    if way in IN_JSON:
        assert json.loads(content) == json.loads(JSON)
    else:
        assert content == f"```json\n{JSON}\n```"
    assert "think" not in told.heard.text
    assert len(told.model.asked) == 1


@both_modes
@every_way
@pytest.mark.parametrize("vendor", [one for one in VENDORS if "reasoning" in one.tells], ids=str)
def test_in_a_field_of_its_own(vendor: Vendor, way: str, stream: bool, tmp_path: Path) -> None:
    said = Said((JSON,), reasoning="Seven, I think.")
    told = thought(vendor, tmp_path, said, way, stream=stream, tags={})

    assert told.step["thinking"] == "Seven, I think."
    assert json.loads(told.step["outputData"]["content"]) == json.loads(JSON)


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "hidden"])
@pytest.mark.parametrize("vendor", VENDORS, ids=str)
def test_of_an_answer_that_broke_off(vendor: Vendor, shown: bool, tmp_path: Path) -> None:
    body = vendor.frames(Said(("<think>I ad", "d.</think>", "Hel"))).body
    tree = tree_of(vendor, tmp_path, showThinking=shown).workflow("w", [answers()])
    with (
        Upstream(vendor.stream(*body, CUT)) as model,
        with_model(tree, vendor, "Main", model.url, **TAGS).serve() as live,
    ):
        told = Told(hear(live.chat(model="w", stream=True)), model, live)

    assert (told.run["status"], told.run["partialText"]) == ("failed", "Hel")
    assert told.step["thinking"] == "I add."
    assert told.heard.reasoning == ("I add." if shown else "")


@both_modes
@pytest.mark.parametrize("vendor", CHATS, ids=str)
def test_before_a_tool_is_called(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    said = Said(("<think>I'd add.</think>",), calls=(Call("add", {"a": 2}),))
    tree = tree_of(vendor, tmp_path).workflow("w", [answers(allowTools=True)])
    with (
        Upstream(vendor.answer(said)) as model,
        with_model(tree, vendor, "Main", model.url, **TAGS).serve() as live,
    ):
        heard = hear(live.chat(model="w", stream=stream, tools=[TOOL]))
        told = Told(heard, model, live)

    assert (heard.text, heard.finish_reason) == ("", "tool_calls")
    assert told.step["thinking"] == "I'd add."


@both_modes
@pytest.mark.parametrize(
    "vendor", [one for one in CHATS if one.file.get("structuredOutput")], ids=str
)
def test_before_a_call_that_must_happen(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    said = Said(("<think>I'd add.</think>", '{"name": "add", "arguments": {"a": 2}}'))
    tree = tree_of(vendor, tmp_path).workflow("w", [answers(allowTools=True)])
    with (
        Upstream(vendor.answer(said)) as model,
        with_model(tree, vendor, "Main", model.url, **TAGS).serve() as live,
    ):
        wish = {"tools": [TOOL], "tool_choice": "required"}
        told = Told(hear(live.chat(model="w", stream=stream, **wish)), model, live)

    assert told.heard.finish_reason == "tool_calls"
    assert told.step["thinking"] == "I'd add."


@both_modes
def test_an_agents_thoughts_before_it_called_tools(stream: bool, tmp_path: Path) -> None:
    first = calls(("two_texts", "{}"), text="<think>I need texts.</think>Wait.")
    with Upstream(first, chat("<think>Two came.</think>Two.")) as model:
        tree = agent(tmp_path, model).model("Main", model.url, **TAGS)
        with tree.serve() as live:
            heard = hear(live.chat(model="w", stream=stream))
            step = live.runs[-1]["context"]["steps"][-1]

    assert heard.said == ("Two.", "stop")
    assert step["thinking"] == "I need texts.\n\nTwo came."
    assert heard.reasoning == step["thinking"]


def test_of_a_node_that_asks_several_times(tmp_path: Path) -> None:
    node = {
        "type": "SlowButQualityRAG",
        "endpointName": "Main",
        "systemPrompt": "Find.",
        "prompt": "[TextChunk]",
        "ragTarget": "one--ChunkBreak--two",
        "ragType": "CurrentConversation",
    }
    tree = tree_of(OPENAI_CHAT, tmp_path).workflow("w", [node])
    with (
        Upstream(chat("<think>First.</think>a"), chat("<think>Next.</think>b")) as model,
        with_model(tree, OPENAI_CHAT, "Main", model.url, **TAGS).serve() as live,
    ):
        heard = hear(live.chat(model="w", metadata={"conversation_id": "talk"}))
        step = live.runs[-1]["context"]["steps"][0]

    assert heard.text == "ab"
    assert step["thinking"] == "First.\n\nNext."
