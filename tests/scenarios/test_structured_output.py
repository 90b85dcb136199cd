"""Answers in JSON: told to the model server in its own way, checked here, asked for once more."""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Upstream, chat
from tests.fakes.vendors import CHATS, TEXTS, VENDORS, Call, Said, Vendor
from tests.scenarios.modes import both_modes
from tests.scenarios.vendor_ways import Told, asked, tree_of, with_model

SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer"}},
    "required": ["age"],
    "additionalProperties": False,
}
GOOD, BAD = '{"age": 7}', '{"age": "seven"}'
PROBLEM = "age: 'seven' is not of type 'integer'"
FORMAT = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "person", "schema": SCHEMA, "strict": True},
    }
}
OURS = {"name": "wilmer_structured_output", "strict": True, "schema": SCHEMA}

SENT: Mapping[str, Callable[[Any], Any]] = {
    "Open-AI-API": lambda body: body["response_format"],
    "LlamaCppServer": lambda body: body["response_format"],
    "OllamaApiChat": lambda body: body["format"],
    "OpenAI-Responses": lambda body: body["text"]["format"],
}
EXPECTED: Mapping[str, Any] = {
    "Open-AI-API": {"type": "json_schema", "json_schema": {**OURS, "strict": False}},
    "LlamaCppServer": {"type": "json_schema", "json_schema": OURS},
    "OllamaApiChat": SCHEMA,
    "OpenAI-Responses": {"type": "json_schema", **OURS, "strict": False},
}


def answers_in(vendor: Vendor, root: Path, *texts: str, stream: bool, schema: Any = SCHEMA) -> Any:
    """A node with ``structuredOutputFile``."""
    tree = tree_of(vendor, root).workflow("w", [answers(structuredOutputFile="person")])
    tree.write("StructuredOutputs/person.json", schema)
    plays = [vendor.answer(Said((text,))) for text in texts]
    with (
        Upstream(*plays) as model,
        with_model(tree, vendor, "Main", model.url).serve() as live,
    ):
        return Told(hear(live.chat(model="w", stream=stream)), model, live)


@both_modes
@pytest.mark.parametrize("vendor", VENDORS, ids=str)
def test_a_server_is_told_the_schema_in_its_own_way(
    vendor: Vendor, stream: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    told = answers_in(vendor, tmp_path, GOOD, stream=stream)

    assert told.heard.said == (GOOD, "stop")
    if vendor.id in SENT:
        assert SENT[vendor.id](told.sent) == EXPECTED[vendor.id]
    else:
        assert "cannot be told a JSON Schema" in caplog.text
        assert "additionalProperties" not in json.dumps(told.sent)


@both_modes
@pytest.mark.parametrize("vendor", VENDORS, ids=str)
def test_what_does_not_fit_is_asked_for_once_more_with_the_mistakes(
    vendor: Vendor, stream: bool, tmp_path: Path
) -> None:
    told = answers_in(vendor, tmp_path, BAD, GOOD, stream=stream)

    assert told.heard.said == (GOOD, "stop")
    first, second = (json.dumps(one.json) for one in told.model.asked)
    assert PROBLEM not in first
    assert PROBLEM in second
    assert "seven" in second
    tokens = told.run["tokens"]
    if not tokens["estimated"]:
        assert (tokens["prompt"], tokens["completion"]) == (10, 14)


def test_a_text_server_gets_the_mistakes_as_a_turn_of_the_user(tmp_path: Path) -> None:
    told = answers_in(TEXTS[0], tmp_path, BAD, GOOD, stream=False)
    first, second = (one.json["prompt"] for one in told.model.asked)

    assert second.startswith(f"{first}{BAD}<|im_end|>\n<|im_start|>user\nThat does not fit")
    assert second.endswith("nothing else.<|im_end|>\n<|im_start|>assistant\n")


@both_modes
@pytest.mark.parametrize("vendor", VENDORS, ids=str)
def test_then_the_node_fails_and_says_why(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    told = answers_in(vendor, tmp_path, BAD, "no JSON at all", stream=stream)

    assert told.heard.status == 400
    assert told.heard.error is not None
    assert (
        "does not fit `structuredOutputFile` 'person': it is no JSON"
        in (told.heard.error["message"])
    )
    assert len(told.model.asked) == 2


@both_modes
@pytest.mark.parametrize("vendor", VENDORS, ids=str)
def test_the_clients_schema_is_kept_as_well(vendor: Vendor, stream: bool, tmp_path: Path) -> None:
    plays = [vendor.answer(Said((text,))) for text in (BAD, GOOD)]
    with asked(vendor, tmp_path, *plays, stream=stream, **FORMAT) as told:
        assert told.heard.said == (GOOD, "stop")
        assert "x-headrace-ignored" not in told.heard.headers


@both_modes
def test_json_in_a_block_of_markdown_is_taken_out_of_it(stream: bool, tmp_path: Path) -> None:
    told = answers_in(VENDORS[0], tmp_path, f"```json\n{GOOD}\n```", stream=stream)

    assert told.heard.said == (GOOD, "stop")
    assert len(told.model.asked) == 1


def test_thinking_in_front_of_it_is_no_part_of_it(tmp_path: Path) -> None:
    tags = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
    tree = Tree(tmp_path).workflow("w", [answers(structuredOutputFile="person")])
    tree.write("StructuredOutputs/person.json", SCHEMA)
    with (
        Upstream(chat(f"<think>7?</think>\n{GOOD}")) as model,
        tree.model("Main", model.url, **tags).serve() as live,
    ):
        assert hear(live.chat(model="w")).said == (GOOD, "stop")
        assert len(model.asked) == 1


def test_a_client_that_only_wants_an_object_gets_one(tmp_path: Path) -> None:
    plays = [VENDORS[0].answer(Said((text,))) for text in ("[1]", GOOD)]
    wish = {"response_format": {"type": "json_object"}}
    with asked(VENDORS[0], tmp_path, *plays, stream=False, **wish) as told:
        assert told.heard.said == (GOOD, "stop")
        assert told.sent["response_format"] == {"type": "json_object"}


def test_an_answer_that_was_cut_says_so_to_the_client_who_wanted_json(tmp_path: Path) -> None:
    play = VENDORS[0].answer(Said(('{"age": ',), reason="length"))
    with asked(VENDORS[0], tmp_path, play, stream=False, **FORMAT) as told:
        assert told.heard.said == ('{"age": ', "length")


def test_where_the_owner_lets_no_fields_through_nothing_is_checked(tmp_path: Path) -> None:
    user = {"honourRequestParameters": "none"}
    play = VENDORS[0].answer(Said(("hello",)))
    with asked(VENDORS[0], tmp_path, play, stream=False, user=user, **FORMAT) as told:
        assert told.heard.said == ("hello", "stop")
        assert told.heard.headers["x-headrace-ignored"] == "response_format"


@pytest.mark.parametrize(
    "schema",
    [{"type": "objekt"}, {"$ref": "http://127.0.0.1:1/schema"}, {"$ref": "#/$defs/none"}],
    ids=["no schema", "somewhere else", "nowhere"],
)
def test_a_schema_that_is_none_is_the_clients_mistake(schema: Any, tmp_path: Path) -> None:
    wish = {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}
    play = VENDORS[0].answer(Said((GOOD,)))
    with asked(VENDORS[0], tmp_path, play, stream=False, **wish) as told:
        assert told.heard.status == 400
        assert told.heard.error is not None
        assert told.heard.error["param"] == "response_format.json_schema.schema"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_a_form_without_a_schema_never_reaches_the_model(path: str, tmp_path: Path) -> None:
    tree = tree_of(VENDORS[0], tmp_path).workflow("w", [answers()])
    with (
        Upstream() as model,
        with_model(tree, VENDORS[0], "Main", model.url).serve() as live,
    ):
        said = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi"}
        wish = {"response_format": {"type": "json_schema"}}
        received = live.ask("POST", path, {"model": "w", **said, **wish})

    assert received.status == 400
    assert received.json["error"]["param"] == "response_format.json_schema"
    assert model.asked == []


@pytest.mark.parametrize("folder", ["", "tester/"])
@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"$ref": "#/$defs/none"}], ids=str)
def test_a_file_that_is_no_schema_is_named_whole(schema: Any, folder: str, tmp_path: Path) -> None:
    tree = tree_of(VENDORS[0], tmp_path).workflow("w", [answers(structuredOutputFile="person")])
    tree.write(f"StructuredOutputs/{folder}person.json", schema)
    with (
        Upstream(VENDORS[0].answer(Said((GOOD,)))) as model,
        with_model(tree, VENDORS[0], "Main", model.url).serve() as live,
    ):
        heard = hear(live.chat(model="w"))

    assert heard.status == 400
    assert heard.error is not None
    assert f"StructuredOutputs/{folder}person.json" in heard.error["message"]


@pytest.mark.parametrize("name", ["../Users/tester", "nowhere"])
def test_a_file_that_is_not_there_is_a_mistake_of_the_configuration(
    name: str, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("w", [answers(structuredOutputFile=name)])
    with Upstream() as model, tree.model("Main", model.url).serve() as live:
        heard = hear(live.chat(model="w"))

    assert (heard.status, model.asked) == (400, [])


# -------------------------------------------------------------------------- calls that must happen

TOOLS = [
    {
        "type": "function",
        "function": {"name": "add", "parameters": {"type": "object", "required": ["a"]}},
    },
    {"type": "function", "function": {"name": "mul", "description": "Multiplies."}},
]
ONE = {"type": "function", "function": {"name": "add"}}
CALL = '{"name": "add", "arguments": {"a": 2}}'
HELD = tuple(vendor for vendor in CHATS if vendor.id in SENT)
"""Types that can be held to a schema."""


@both_modes
@pytest.mark.parametrize("choice", ["required", ONE], ids=["required", "by name"])
@pytest.mark.parametrize("vendor", HELD, ids=str)
def test_a_call_that_must_happen_is_made_to_happen(
    vendor: Vendor, choice: Any, stream: bool, tmp_path: Path
) -> None:
    with asked(
        vendor,
        tmp_path,
        vendor.answer(Said((CALL[:9], CALL[9:]))),
        stream=stream,
        node={"allowTools": True, "systemPrompt": "Be brief."},
        tools=TOOLS,
        tool_choice=choice,
    ) as told:
        heard = told.heard
        assert (heard.text, heard.finish_reason) == ("", "tool_calls")
        (call,) = heard.tool_calls
        assert (call["name"], json.loads(call["arguments"])) == ("add", {"a": 2})
        assert call["id"].startswith("wilmer-")
        assert not {"tools", "tool_choice"} & told.sent.keys()
        sent = json.dumps(told.sent)
        assert "Be brief.\\n\\nThese tools can be called:" in sent
        assert ("Multiplies." in sent) is (choice == "required")
        schema = json.dumps(SENT[vendor.id](told.sent))
        assert ("anyOf" in schema) is (choice == "required")


@pytest.mark.parametrize("vendor", HELD, ids=str)
def test_one_more_round_then_what_was_said(vendor: Vendor, tmp_path: Path) -> None:
    with asked(
        vendor,
        tmp_path,
        vendor.answer(Said(("I'd rather not.",))),
        stream=True,
        node={"allowTools": True},
        tools=TOOLS,
        tool_choice="required",
    ) as told:
        assert told.heard.said == ("I'd rather not.", "stop")
        assert len(told.model.asked) == 2


def test_claude_is_told_by_its_own_field(tmp_path: Path) -> None:
    claude = next(vendor for vendor in CHATS if vendor.id == "Claude")
    with asked(
        claude,
        tmp_path,
        claude.answer(Said((), calls=(Call("add", {"a": 2}),))),
        stream=True,
        node={"allowTools": True},
        tools=TOOLS,
        tool_choice="required",
    ) as told:
        assert told.sent["tool_choice"] == {"type": "any"}
        assert told.heard.finish_reason == "tool_calls"


def test_a_call_and_a_schema_cannot_both_be_had(tmp_path: Path) -> None:
    node = answers(structuredOutputFile="person", allowTools=True)
    tree = tree_of(HELD[0], tmp_path).workflow("w", [node])
    tree.write("StructuredOutputs/person.json", SCHEMA)
    with Upstream() as model, with_model(tree, HELD[0], "Main", model.url).serve() as live:
        heard = hear(live.chat(model="w", tools=TOOLS, tool_choice="required"))

    assert heard.status == 400
    assert heard.error is not None
    assert "Only one of them can be had." in heard.error["message"]
    assert model.asked == []
