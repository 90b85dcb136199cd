"""Graph workflows: nodes with ids, edges with routes (design §5)."""

from pathlib import Path
from typing import Any

import pytest

from Middleware.workflows.check import check_workflows
from tests.fakes.headrace import Headrace, Tree, wait_until

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def static(id: str, content: str, **options: Any) -> dict[str, Any]:
    return {"id": id, "type": "StaticResponse", "content": content, **options}


def edge(start: str, end: str, route: str | None = None) -> dict[str, str]:
    return {"from": start, "to": end, **({"route": route} if route else {})}


def answer_of(live: Headrace, *, streamed: bool = False) -> str:
    received = live.chat(model="g", stream=streamed)
    assert received.status == 200, received.body
    if streamed:
        return received.text
    return str(received.json["choices"][0]["message"]["content"])


@BOTH
def test_a_run_follows_the_edges_and_the_node_that_no_edge_leaves_answers(
    tmp_path: Path, streamed: bool
) -> None:
    nodes = [static("end", "{{start}} {{question}}"), static("middle", "M"), static("start", "S")]
    edges = [edge("start", "middle"), edge("middle", "end")]
    nodes = [nodes[2], nodes[0], nodes[1]]
    with Tree(tmp_path).workflow("g", nodes, edges=edges).serve() as live:
        assert answer_of(live, streamed=streamed) == "S hello there world"

    names = [step["nodeName"] for step in live.runs[0]["context"]["steps"]]
    assert names == ["start", "middle", "end"]


YAML = """
globalVariables: {{n: {n}}}
nodes:
  - {{id: small, type: IfElse, condition: "{{{{n}}}} < 3"}}
  - {{id: left, type: StaticResponse, content: left}}
  - {{id: right, type: StaticResponse, content: right}}
edges:
  - {{from: small, route: true, to: left}}
  - {{from: small, route: false, to: right}}
"""


@pytest.mark.parametrize(("n", "way"), [(1, "left"), (5, "right")])
def test_yaml_needs_no_quotes_around_true_and_false(tmp_path: Path, n: int, way: str) -> None:
    tree = Tree(tmp_path)
    path = tree.configs / "Workflows" / "_shared" / "g" / "_DefaultWorkflow.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(YAML.format(n=n), encoding="utf-8")
    with tree.serve() as live:
        assert answer_of(live) == way
        assert live.ask("GET", "/health").json["problems"] == []


def test_a_failing_node_takes_its_error_edge(tmp_path: Path) -> None:
    nodes = [
        {
            "id": "ask",
            "type": "Standard",
            "endpointName": "None",
            "prompt": "x",
            "onError": "route",
        },
        static("fine", "fine"),
        static("sorry", "sorry"),
    ]
    edges = [edge("ask", "fine"), edge("ask", "sorry", "error")]
    with Tree(tmp_path).workflow("g", nodes, edges=edges).serve() as live:
        assert answer_of(live) == "sorry"


def test_a_loop_is_bounded(tmp_path: Path) -> None:
    nodes = [static("a", "A"), static("b", "B")]
    tree = Tree(tmp_path, maxSteps=7).workflow("g", nodes, edges=[edge("a", "b"), edge("b", "a")])
    with tree.serve() as live:
        received = live.chat(model="g", stream=True)

    assert received.status == 400
    assert received.json["error"]["code"] == "too_many_steps"
    assert "a -> b" in received.json["error"]["message"]
    assert len(live.runs[0]["context"]["steps"]) == 7


def test_a_node_that_says_so_answers_and_the_others_go_on(tmp_path: Path) -> None:
    nodes = [static("a", "A", is_responder=True), static("b", "{{a}}b")]
    with Tree(tmp_path).workflow("g", nodes, edges=[edge("a", "b")]).serve() as live:
        assert answer_of(live) == "A"
        wait_until(lambda: live.runs[0]["status"] == "succeeded")

    steps = live.runs[0]["context"]["steps"]
    assert [step["outputData"]["content"] for step in steps] == ["A", "Ab"]


BROKEN = [
    ([edge("a", "nowhere")], "edges[0].to"),
    ([edge("nowhere", "b")], "edges[0].from"),
    ([edge("a", "b"), edge("a", "a")], "edges[1]"),
    (["a"], "edges[0]"),
    ({"a": "b"}, "edges"),
]


@pytest.mark.parametrize(("edges", "place"), BROKEN, ids=[place for _, place in BROKEN])
def test_broken_edges_are_named(tmp_path: Path, edges: Any, place: str) -> None:
    tree = Tree(tmp_path).workflow("g", [static("a", "A"), static("b", "B")], edges=edges)
    with tree.serve() as live:
        received = live.chat(model="g")

    assert received.status == 400
    assert place in received.json["error"]["message"]


def test_check_finds_nodes_that_cannot_be_reached(tmp_path: Path) -> None:
    nodes = [static("a", "A"), static("b", "B"), static("lost", "L")]
    tree = Tree(tmp_path).workflow("g", nodes, edges=[edge("a", "b")])
    with tree.serve() as live:
        found = check_workflows(live.parts.store)

    assert [(p.code, p.place, p.severity) for p in found] == [
        ("unreachable_node", "nodes[2]", "warning")
    ]


def test_global_variables_come_from_the_file_the_metadata_and_the_question(tmp_path: Path) -> None:
    nodes = [static("a", "{{customer}} {{city}} {{question}} {{unknown}} {{{{a}}}}")]
    tree = Tree(tmp_path).workflow(
        "g", nodes, globalVariables={"customer": "nobody", "city": "Oslo"}
    )
    with tree.serve() as live:
        received = live.chat(model="g", metadata={"customer": "Jane", "question": "mine"})

    text = received.json["choices"][0]["message"]["content"]
    assert text == "Jane Oslo hello there world {unknown} {{a}}"
    assert live.runs[0]["context"]["globalVariables"] == {
        "customer": "Jane",
        "city": "Oslo",
        "question": "hello there world",
    }
