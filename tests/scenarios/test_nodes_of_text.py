"""Nodes that work on texts, through the front door: each may be the one that answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree
from tests.fakes.strict_client import hear
from tests.scenarios.modes import both_modes


def static(text: str) -> dict[str, Any]:
    return {"type": "StaticResponse", "content": text}


@dataclass(frozen=True)
class Case:
    id: str
    nodes: list[dict[str, Any]]
    expected: str


CASES = [
    Case(
        "a calculation",
        [static("41"), {"type": "ArithmeticProcessor", "expression": "{agent1Output} + 1"}],
        "42",
    ),
    Case(
        "a condition",
        [
            static("hello world"),
            {"type": "Conditional", "condition": "{agent1Output} == 'hello world'"},
        ],
        "TRUE",
    ),
    Case(
        "a field of JSON",
        [
            static('{{"verdict": "yes"}}'),
            {
                "type": "JsonExtractor",
                "jsonToExtractFrom": "{agent1Output}",
                "fieldToExtract": "verdict",
            },
        ],
        "yes",
    ),
    Case(
        "the text of a tag",
        [
            static("<plan> go on </plan>"),
            {
                "type": "TagTextExtractor",
                "tagToExtractFrom": "{agent1Output}",
                "fieldToExtract": "plan",
            },
        ],
        "go on",
    ),
    Case(
        "parts of a text",
        [
            {
                "type": "DelimitedChunker",
                "content": "{rows}",
                "delimiter": ";",
                "mode": "tail",
                "count": 2,
            }
        ],
        "c;d",
    ),
    Case(
        "a mistake that is told as text",
        [{"type": "DelimitedChunker", "content": "{rows}", "delimiter": ";", "mode": "tail"}],
        "DelimitedChunker error: `count` is missing.",
    ),
    Case(
        "nodes that build on each other",
        [
            static("a;b;c"),
            {
                "type": "DelimitedChunker",
                "content": "{agent1Output}",
                "delimiter": ";",
                "mode": "head",
                "count": 1,
            },
            {"type": "Conditional", "condition": "'{agent2Output}' == 'a'"},
            {
                "type": "ConditionalCustomWorkflow",
                "conditionalKey": "{agent3Output}",
                "conditionalWorkflows": {"TRUE": "Yes", "FALSE": "No"},
            },
        ],
        "it is so",
    ),
]


@both_modes
@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES])
def test_a_node_answers(case: Case, stream: bool, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", case.nodes, rows="a;b;c;d")
    tree.own("Yes", [static("it is so")]).own("No", [static("it is not")])
    with tree.serve() as live:
        heard = hear(live.chat(model="w", stream=stream))

    assert heard.said == (case.expected, "stop")


@both_modes
def test_a_script_answers_with_what_it_returns(stream: bool, tmp_path: Path) -> None:
    script = tmp_path / "count.py"
    script.write_text(
        "def Invoke(text, unit):\n    return {'content': f'{len(text.split())} {unit}'}\n",
        encoding="utf-8",
    )
    node = {
        "type": "PythonModule",
        "module_path": "{scripts}/count.py",
        "args": ["{chat_user_prompt_last_one}"],
        "kwargs": {"unit": "words"},
    }
    tree = Tree(tmp_path).workflow("w", [node], scripts=str(tmp_path))
    with tree.serve() as live:
        heard = hear(live.chat(model="w", stream=stream))

    assert heard.said == ("3 words", "stop")


def test_a_script_that_is_missing_is_a_mistake_of_the_workflow(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow(
        "w", [{"title": "Count", "type": "PythonModule", "module_path": "/no/such.py"}]
    )
    with tree.serve() as live:
        received = live.chat(model="w")

    assert received.status == 400
    assert received.json["error"]["code"] == "workflow_error"
    assert "node 'Count'" in received.json["error"]["message"]


def test_a_file_is_kept_for_each_conversation(tmp_path: Path) -> None:
    path = "{notes}/{Discussion_Id}.md"
    nodes = [
        {
            "type": "SaveCustomFile",
            "filepath": path,
            "content": "{chat_user_prompt_last_one}\n",
            "mode": "append",
        },
        {
            "type": "GetCustomFile",
            "filepath": path,
            "delimiter": "\n",
            "customReturnDelimiter": "|",
        },
    ]
    tree = Tree(tmp_path).workflow("w", nodes, notes=str(tmp_path / "notes"))

    def says(text: str, talk: str) -> str:
        messages = [{"role": "user", "content": f"[DiscussionId]{talk}[/DiscussionId]{text}"}]
        return hear(live.chat(model="w", messages=messages)).said[0]

    with tree.serve() as live:
        said = [says("one", "a"), says("two", "a"), says("three", "b")]

    assert said == ["one|", "one|two|", "three|"]
