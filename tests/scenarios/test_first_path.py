from pathlib import Path

from tests.fakes.headrace import Tree, answers
from tests.fakes.upstream import Upstream, chat


def test_a_whole_answer_goes_through_a_workflow(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers(systemPrompt="Be kind.")])
    with Upstream(chat("Hel", "lo")) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="assistant")

    assert received.status == 200
    assert received.json["choices"][0]["message"] == {"role": "assistant", "content": "Hello"}
    assert received.json["model"] == "tester:assistant"
    assert received.json["usage"]["total_tokens"] == 12
    assert model.asked[0].json["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hello there world"},
    ]


def test_the_same_answer_streamed(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with Upstream(chat("Hel", "lo")) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="assistant", stream=True)

    assert received.text == "Hello"
    assert received.frames[-1] == "data: [DONE]"
    assert live.runs[0]["status"] == "succeeded"


def test_tools_that_no_node_lets_through_are_named_as_ignored(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    tree = Tree(tmp_path).workflow("deaf", [answers()]).workflow("open", [answers(allowTools=True)])
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        deaf = live.chat(model="deaf", tools=tools, tool_choice="auto")
        heard = live.chat(model="open", tools=tools, tool_choice="auto")

    assert deaf.headers["x-headrace-ignored"] == "tools, tool_choice"
    assert "x-headrace-ignored" not in heard.headers
    assert ["tools" in asked.json for asked in model.asked] == [False, True]
