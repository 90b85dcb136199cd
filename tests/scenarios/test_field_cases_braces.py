"""Field cases C-35 and C-36: braces that people, users and models write."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.cli.dispatch import main
from tests.fakes.headrace import Tree, answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Upstream, chat
from tests.scenarios.ways import STREAMED, WAYS, WHOLE, Way, answered


@dataclass(frozen=True)
class Literal:
    id: str
    written: str
    sent: str


JSON_PROMPT = 'Reply like {"label": "…", "items": [{"n": 1}]} for {user_input}'

LITERALS = [
    Literal("json", JSON_PROMPT, 'Reply like {"label": "…", "items": [{"n": 1}]} for red bottle'),
    Literal(
        "nested-json", '{"a": {"b": {"c": "{user_input}"}}}', '{"a": {"b": {"c": "red bottle"}}}'
    ),
    Literal("css", "CSS: a{color:red}", "CSS: a{color:red}"),
    Literal("empty", "{}", "{}"),
    Literal("words", "{not a variable}", "{not a variable}"),
    Literal("number", "{0} and {1:>3} and {x!r}", "{0} and {1:>3} and {x!r}"),
    Literal("unknown", "{nobody_knows_this}", "{nobody_knows_this}"),
    Literal("open", "an open { brace for {user_input}", "an open { brace for red bottle"),
    Literal("close", "a closing } brace for {user_input}", "a closing } brace for red bottle"),
    Literal("escape", "{{user_input}} is {user_input}", "{user_input} is red bottle"),
    Literal("escaped-json", '{{"a": 1}}', '{"a": 1}'),
    Literal("regex", r"\d{3} {user_input}", r"\d{3} red bottle"),
    Literal("python", "def f(): return {1, 2} | {}", "def f(): return {1, 2} | {}"),
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("case", LITERALS, ids=lambda case: case.id)
def test_c35_a_literal_brace_in_a_prompt_stays(case: Literal, way: Way, tmp_path: Path) -> None:
    node = {"prompt": case.written, "systemPrompt": case.written}
    user = {"userWideWorkflowVariables": {"user_input": "red bottle"}}
    with answered(way, tmp_path, chat("ok"), node=node, user=user) as told:
        assert told.heard.said == ("ok", "stop")
        assert told.sent["messages"] == [
            {"role": "system", "content": case.sent},
            {"role": "user", "content": case.sent},
        ]


@pytest.mark.parametrize("case", LITERALS, ids=lambda case: case.id)
def test_c35_in_texts_that_no_model_sees_too(case: Literal, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow(
        "assistant",
        [
            {"type": "StaticResponse", "content": case.written},
            {"type": "StringConcatenator", "strings": [case.written, "{agent1Output}"]},
        ],
        user_input="red bottle",
    )
    with tree.serve() as live:
        heard = hear(live.chat(model="assistant"))

    assert heard.text == case.sent * 2


@pytest.mark.parametrize("case", LITERALS, ids=lambda case: case.id)
def test_c35_in_what_a_sub_workflow_is_given_too(case: Literal, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow(
        "assistant",
        [
            {
                "type": "CustomWorkflow",
                "workflowName": "child",
                "scoped_variables": [case.written],
                "firstNodeSystemPromptOverride": case.written,
                "firstNodePromptOverride": case.written,
            }
        ],
        user_input="red bottle",
    )
    tree.own("child", [answers(prompt="x", systemPrompt="y"), answers(prompt="{agent1Input}")])
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        heard = hear(live.chat(model="assistant"))

    overridden, given = [asked.json["messages"] for asked in model.asked]
    assert heard.said == ("ok", "stop")
    assert [message["content"] for message in overridden] == [case.sent, case.sent]
    assert given == [{"role": "user", "content": case.sent}]


@pytest.mark.parametrize("case", LITERALS, ids=lambda case: case.id)
def test_c35_in_a_file_with_live_placeholders_too(case: Literal, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow(
        "assistant",
        [{"type": "StaticResponse", "content": case.written}],
        globalVariables={},
        user_input="red bottle",
    )
    with tree.serve() as live:
        heard = hear(live.chat(model="assistant"))

    assert heard.text == case.sent


def test_c35_check_says_where_a_lone_brace_is_and_how_to_write_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = Tree(tmp_path).scripted("Main")
    tree.workflow("assistant", [answers(), answers(prompt="one { brace, {nobody_knows_this}")])

    code = main(["check", str(tree.configs), "--json"])

    problems = {
        problem["code"]: problem
        for problem in json.loads(capsys.readouterr().out)
        if problem["file"].startswith("Workflows/")
    }
    assert code == 0
    assert {(code, one["severity"]) for code, one in problems.items()} == {
        ("lone_brace", "warning"),
        ("unknown_variable", "warning"),
    }
    assert {one["place"] for one in problems.values()} == {"nodes[1].prompt"}
    assert "{{" in problems["lone_brace"]["remedy"]
    assert "'nobody_knows_this'" in problems["unknown_variable"]["message"]


USER_TEXT = 'fix: def f(): return {"a": {1,2}} % {x!r} {0} {{y}} {'
MODEL_TEXT = '{"k": "}"}'
TOOL_TEXT = "{'rows': [{1}, {{2}}], 'last': {chat_user_prompt_last_one} }{"
HISTORY = [
    {"role": "user", "content": "run it {now}"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "t1",
                "type": "function",
                "function": {"name": "run", "arguments": '{"code":"{x} {{y}}"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "t1", "content": TOOL_TEXT},
    {"role": "user", "content": USER_TEXT},
]


@dataclass(frozen=True)
class Inserting:
    id: str
    node: dict[str, Any]
    sent: str
    variables: dict[str, Any]


INSERTING = [
    Inserting(
        "plain",
        {"prompt": "1: {chat_user_prompt_last_one} 2: {agent1Output}"},
        f"1: {USER_TEXT} 2: {MODEL_TEXT}",
        {},
    ),
    Inserting(
        "beside-literal-braces",
        {"prompt": '{"said": {"user": "{chat_user_prompt_last_one}"}} {{}} {agent1Output}'},
        f'{{"said": {{"user": "{USER_TEXT}"}}}} {{}} {MODEL_TEXT}',
        {},
    ),
    Inserting(
        "through-a-variable-of-the-workflow",
        {"prompt": "{both}"},
        f"{USER_TEXT} / {MODEL_TEXT}",
        {"both": "{chat_user_prompt_last_one} / {agent1Output}"},
    ),
    Inserting(
        "with-tool-results",
        {
            "prompt": "{chat_user_prompt_last_two}|{agent1Output}",
            "includeToolCallsInConversation": True,
        },
        f"[Tool Result: run {{x}} {{{{y}}}}] {TOOL_TEXT}\n{USER_TEXT}|{MODEL_TEXT}",
        {},
    ),
    Inserting(
        "jinja",
        {"prompt": "{{ chat_user_prompt_last_one }} / {{ agent1Output }}", "jinja2": True},
        f"{USER_TEXT} / {MODEL_TEXT}",
        {},
    ),
    Inserting(
        "live-file",
        {"prompt": "{chat_user_prompt_last_one} / {agent1Output}"},
        f"{USER_TEXT} / {MODEL_TEXT}",
        {"globalVariables": {"y": "expanded", "now": "expanded"}},
    ),
]


@pytest.mark.parametrize("way", [STREAMED, WHOLE], ids=str)
@pytest.mark.parametrize("case", INSERTING, ids=lambda case: case.id)
def test_c36_what_users_models_and_tools_wrote_arrives_unchanged(
    case: Inserting, way: Way, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers(), answers(**case.node)], **case.variables)
    with (
        Upstream(chat(MODEL_TEXT)) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        heard = hear(live.chat(model="assistant", messages=HISTORY, stream=way.stream))

    conversation, inserted = [asked.json["messages"] for asked in model.asked]
    assert heard.said == (MODEL_TEXT, "stop")
    assert conversation == HISTORY
    assert inserted == [{"role": "user", "content": case.sent}]


def test_c36_across_a_sub_workflow_too(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow(
        "assistant",
        [
            answers(),
            {
                "type": "CustomWorkflow",
                "workflowName": "child",
                "scoped_variables": ["{chat_user_prompt_last_one}", "{agent1Output}"],
                "promptOverride": "{chat_user_prompt_last_one}+{agent1Output}+{agent2Input}",
            },
        ],
    )
    tree.own(
        "child",
        [answers(prompt="x"), answers(prompt="{agent1Input}+{agent2Input}+{agent1Output}")],
    )
    with Upstream(chat(MODEL_TEXT)) as model, tree.model("Main", model.url).serve() as live:
        hear(live.chat(model="assistant", messages=HISTORY))

    _, overridden, own = [asked.json["messages"][0]["content"] for asked in model.asked]
    assert overridden == f"{USER_TEXT}+{MODEL_TEXT}+{MODEL_TEXT}"
    assert own == f"{USER_TEXT}+{MODEL_TEXT}+{MODEL_TEXT}"
