"""One table of workflows, each answered streamed and whole: the texts must be equal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers, calls, static
from tests.fakes.upstream import Upstream, chat

Options = dict[str, Any]
Nodes = list[Options]

THINKS: Options = {"removeThinking": True, "startThinkTag": "<think>", "endThinkTag": "</think>"}
TRIMS: Options = {"trimBeginningAndEndLineBreaks": True}
STRIPS: Options = {
    "removeCustomTextFromResponseStart": True,
    "responseStartTextToRemove": ["Sure:", "Well,"],
}
STRIPS_ALL: Options = {
    "removeCustomTextFromResponseStartEndpointWide": True,
    "responseStartTextToRemoveEndpointWide": "Answer:",
}
FILLS: Options = {
    "chatCompleteAddUserAssistant": True,
    "chatCompletionAddMissingAssistantGenerator": True,
}


@dataclass(frozen=True)
class Case:
    id: str
    nodes: Nodes
    text: str
    says: tuple[str, ...] = ()
    """Tokens of the model."""
    children: Mapping[str, Nodes] = field(default_factory=dict)
    endpoint: Mapping[str, Any] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict)


CASES = [
    Case("one model", [answers()], "Hello, you.", ("Hel", "lo", ", you.")),
    Case("white space in front, which always goes", [answers()], "Hi ", ("\n ", "Hi", " ")),
    Case("a model that says nothing", [answers()], ""),
    Case(
        "characters of all kinds", [answers()], "Grüße 使用 👩‍👩‍👧", ("Grü", "ße 使", "用 👩‍👩‍👧")
    ),
    Case("trimmed on both sides", [answers()], "a  b", ("\n ", " a", "  b ", "\n"), endpoint=TRIMS),
    Case(
        "thinking removed",
        [answers()],
        "b",
        ("<th", "ink>a</th", "ink>", "\n", "b"),
        endpoint={**THINKS, **TRIMS},
    ),
    Case("no thinking to be removed", [answers()], "b < c", ("b ", "<", " c"), endpoint=THINKS),
    Case("a beginning removed", [answers(**STRIPS)], "yes.", ("Su", "re: ", "yes.")),
    Case("another beginning kept", [answers(**STRIPS)], "Sure, yes.", ("Su", "re, yes.")),
    Case(
        "both lists of beginnings",
        [answers(**STRIPS)],
        "42",
        ("Well, ", "Answer", ": 42"),
        endpoint=STRIPS_ALL,
    ),
    Case("the filler's label removed", [answers()], "Hi", ("Assis", "tant: Hi"), user=FILLS),
    Case("text of a file", [static("a  b\n\n c\t{{d}} ")], "a  b\n\n c\t{d} "),
    Case("no text at all", [static("")], ""),
    Case("Jinja", [static("{{ 6 * 7 }}{% if x %}no{% endif %} ", jinja2=True)], "42 "),
    Case(
        "texts put together",
        [
            static("one"),
            {
                "type": "StringConcatenator",
                "strings": ["<{agent1Output}>", 2, None, {"a": 1}],
                "delimiter": " | ",
            },
        ],
        "<one> | 2 | None | {'a': 1}",
    ),
    Case("no list to put together", [{"type": "StringConcatenator", "strings": "abc"}], ""),
    Case(
        "a child, cleaned by its own rules alone",
        [calls("Child", is_responder=True, **STRIPS), static("never")],
        "Well, well.",
        (" Sure: Well,", " well. "),
        children={"Child": [answers(is_responder=True, **STRIPS), static("never either")]},
        endpoint=TRIMS,
    ),
    Case(
        "a child that puts together what silent ones have said",
        [calls("Middle")],
        "Hello! Hello!",
        ("Hel", "lo"),
        children={
            "Silent": [answers(is_responder=True), static("never")],
            "Middle": [
                calls("Silent"),
                calls("Silent"),
                calls("Last", scoped_variables=["{agent1Output}", "{agent2Output}"]),
            ],
            "Last": [static("{agent1Input}! {agent2Input}!")],
        },
    ),
    Case(
        "what was said first, said again behind the answer",
        [answers(is_responder=True), answers(prompt="{agent1Output}")],
        "Hello",
        ("Hel", "lo"),
    ),
]


def ask(root: Path, case: Case, *, stream: bool) -> tuple[str, list[Any], list[Any]]:
    """The answer, what the model was sent, and what every node of every run has put out."""
    tree = Tree(root, **case.user)
    tree.workflow("assistant", case.nodes)
    for name, nodes in case.children.items():
        tree.own(name, nodes)
    with Upstream(chat(*case.says)) as model:
        tree.model("Main", model.url, **case.endpoint)
        with tree.serve() as live:
            said = live.says(stream=stream)
            outputs = [
                (run["workflow"], step["nodeName"], step["outputData"]["content"])
                for run in live.finished()
                for step in run["context"]["steps"]
            ]
    return said, [asked.json["messages"] for asked in model.asked], outputs


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_streamed_and_whole_are_the_same(tmp_path: Path, case: Case) -> None:
    streamed = ask(tmp_path / "streamed", case, stream=True)
    whole = ask(tmp_path / "whole", case, stream=False)

    assert streamed[0] == case.text
    assert streamed == whole
