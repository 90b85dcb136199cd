"""Nodes that run at once (design §6)."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import CHECK_SECONDS, Tree, calls, static, wait_until
from tests.fakes.upstream import SILENCE, Asked, Pause, Step, Upstream, chat, refuses, reply, whole

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def draft(name: str, **options: Any) -> dict[str, Any]:
    return {"title": name, "type": "Standard", "endpointName": "Main", "prompt": name, **options}


JUDGE = {"title": "J", "type": "StaticResponse", "content": "{agent1Output}+{agent2Output}"}
PARALLEL = {"parallel": True}
BRANCHES = [
    draft("one", id="a"),
    draft("two", id="b"),
    {"type": "Parallel", "branches": [["a"], ["b"]]},
    JUDGE,
]


class Meeting:
    """A model that answers nobody before ``count`` have asked."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)

    def __call__(self, asked: Asked) -> list[Step]:
        self._barrier.wait(5)
        return whole(reply(asked.json["messages"][-1]["content"]))


@BOTH
@pytest.mark.parametrize(
    ("nodes", "variables"),
    [([draft("one"), draft("two"), JUDGE], PARALLEL), (BRANCHES, {})],
    ids=["parallel workflow", "Parallel node"],
)
def test_calls_that_do_not_need_each_other_are_made_at_once(
    tmp_path: Path, nodes: list[dict[str, Any]], variables: dict[str, Any], streamed: bool
) -> None:
    tree = Tree(tmp_path).workflow("w", nodes, **variables)
    with Upstream(Meeting(2)) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="w", stream=streamed)

    text = received.text if streamed else received.json["choices"][0]["message"]["content"]
    assert text == "one+two"
    names = [step["nodeName"] for step in live.runs[0]["context"]["steps"]]
    assert names == (
        ["a", "b", "node_3", "node_4"] if not variables else ["node_1", "node_2", "node_3"]
    )


def test_a_node_waits_for_the_outputs_it_names(tmp_path: Path) -> None:
    nodes = [draft("one"), draft("two {agent1Output}"), {**JUDGE, "content": "{agent2Output}"}]
    tree = Tree(tmp_path).workflow("w", nodes, parallel=True)
    with (
        Upstream(lambda asked: whole(reply(asked.json["messages"][-1]["content"]))) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        received = live.chat(model="w")

    assert received.json["choices"][0]["message"]["content"] == "two one"


def test_the_responder_waits_only_for_what_it_names(tmp_path: Path) -> None:
    slow = Pause()

    def answer(asked: Asked) -> list[Step]:
        text = asked.json["messages"][-1]["content"]
        return [slow, *whole(reply(text))] if text == "two" else whole(reply(text))

    nodes = [draft("one"), draft("two"), {**JUDGE, "content": "{agent1Output}"}]
    tree = Tree(tmp_path).workflow("w", nodes, parallel=True)
    with Upstream(answer) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="w", stream=True)
        assert received.text == "one"
        assert live.runs[0]["status"] == "running"
        slow.set()
        wait_until(lambda: live.runs[0]["status"] == "succeeded")


def test_the_first_failure_stops_the_others_and_is_what_the_client_is_told(tmp_path: Path) -> None:
    meeting = threading.Barrier(2)

    def answer(asked: Asked) -> list[Step]:
        # Both have asked before one of them fails.
        meeting.wait(5)
        bad = asked.json["messages"][-1]["content"] == "two"
        return refuses(500, "two is broken") if bad else [SILENCE]

    tree = Tree(tmp_path).workflow("w", [draft("one"), draft("two"), JUDGE], parallel=True)
    with Upstream(answer) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="w")
        assert model.left.wait(5)

    assert received.status == 502
    assert "two is broken" in received.json["error"]["message"]


@pytest.mark.parametrize("nodes", [[draft("one"), draft("two"), JUDGE], BRANCHES])
def test_a_client_that_leaves_cancels_all(tmp_path: Path, nodes: list[dict[str, Any]]) -> None:
    tree = Tree(tmp_path).workflow("w", nodes, parallel=True)
    with Upstream([SILENCE]) as model, tree.model("Main", model.url).serve() as live:
        with live.connect() as client:
            client.send_chat(model="w")
            model.wait_for(2)
        for asked in model.asked:
            assert asked.left.wait(5)
        wait_until(lambda: live.runs[0]["status"] == "cancelled")


def test_branches_run_their_nodes_in_order(tmp_path: Path) -> None:
    nodes = [
        draft("one", id="a"),
        draft("after {agent1Output}", id="b"),
        draft("two", id="c"),
        {"type": "Parallel", "branches": [["a", "b"], ["c"]]},
        {**JUDGE, "content": "{agent4Output}"},
    ]
    tree = Tree(tmp_path).workflow("w", nodes)
    with (
        Upstream(lambda asked: whole(reply(asked.json["messages"][-1]["content"]))) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        received = live.chat(model="w")

    assert received.json["choices"][0]["message"]["content"] == "after one\n\ntwo"


def test_a_branch_of_unknown_nodes_is_an_error_with_a_hint(tmp_path: Path) -> None:
    nodes = [draft("one", id="first"), {"type": "Parallel", "branches": [["frist"]]}, JUDGE]
    with Upstream(chat("x")) as model:
        tree = Tree(tmp_path).workflow("w", nodes).model("Main", model.url)
        with tree.serve() as live:
            received = live.chat(model="w")

    assert received.status == 400
    assert "Did you mean 'first'?" in received.json["error"]["message"]


def fetches(url: str) -> dict[str, Any]:
    return {"type": "WebFetch", "url": url}


def chooses(*names: str) -> dict[str, Any]:
    routes = {"default": names[0], **dict(zip(names, names, strict=True))}
    return {"type": "ConditionalCustomWorkflow", "conditionalWorkflows": routes}


PURE = [draft("x")]
SUB_WORKFLOWS = [
    pytest.param({"a": PURE}, [calls("a"), calls("a")], id="of pure nodes"),
    pytest.param({"a": [calls("b")], "b": PURE}, [calls("a"), calls("b")], id="two levels down"),
    pytest.param({"a": PURE, "b": PURE}, [chooses("a", "b"), chooses("b")], id="of all routes"),
    pytest.param(
        {"a": [draft("x"), fetches("http://127.0.0.1:1/"), static("y")]},
        [calls("a", sideEffects=False), calls("a", sideEffects=False)],
        id="because the file says so",
    ),
]


@pytest.mark.parametrize(("files", "nodes"), SUB_WORKFLOWS)
def test_sub_workflows_that_change_nothing_run_at_once(
    tmp_path: Path, files: dict[str, Any], nodes: list[dict[str, Any]]
) -> None:
    tree = Tree(tmp_path).workflow("w", [*nodes, JUDGE], parallel=True)
    for name, content in files.items():
        tree.own(name, [{**node, "onError": "continue"} for node in content])
    with Upstream(Meeting(2)) as model, tree.model("Main", model.url).serve() as live:
        live.says(stream=False, model="w")


def saves(path: Path, text: str, **options: Any) -> dict[str, Any]:
    given = {"filepath": str(path), "content": text, "mode": "append"}
    return {"type": "SaveCustomFile", **given, **options}


def test_sub_workflows_that_change_something_keep_their_order(tmp_path: Path) -> None:
    """The first one is held up, so that the others would come first if they could."""
    book = tmp_path / "book"
    held = Pause()
    tree = Tree(tmp_path).own("slow", [draft("slow"), saves(book, "1")])
    tree.own("below", [calls("quick")]).own("quick", [saves(book, "2")])
    three = {"default": "pure", "never": "third"}
    tree.own("pure", [static("x")]).own("third", [saves(book, "-")])
    routes = {"type": "ConditionalCustomWorkflow", "conditionalWorkflows": three}
    nodes = [calls("slow"), calls("below"), saves(book, "3"), routes, draft("free"), JUDGE]
    tree.workflow("w", nodes, parallel=True)

    def answer(asked: Asked) -> list[Step]:
        text = asked.json["messages"][-1]["content"]
        return [held, *whole(reply(text))] if text == "slow" else whole(reply(text))

    with Upstream(answer) as model, tree.model("Main", model.url).serve() as live:
        with live.connect() as client:
            client.send_chat(model="w")
            # A node without effects does not wait; nothing else has begun.
            model.wait_for(2)
            assert not book.exists()
            held.set()
            client.receive()
        live.finished()

    assert book.read_text(encoding="utf-8") == "123"


def test_a_sub_workflow_that_was_edited_counts_as_it_is_now(tmp_path: Path) -> None:
    book = tmp_path / "book"
    tree = Tree(tmp_path).own("a", [static("x")]).own("b", [static("y")])
    tree.workflow("w", [calls("a"), calls("b"), static("done")], parallel=True)
    held = Pause()
    with (
        Upstream([held, *whole(reply("z"))]) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        live.says(stream=False, model="w")
        tree.clock.advance(CHECK_SECONDS)
        tree.own("a", [draft("x"), saves(book, "1")]).own("b", [saves(book, "2")])
        tree.clock.advance(CHECK_SECONDS)
        with live.connect() as client:
            client.send_chat(model="w")
            model.wait_for(1)
            held.set()
            client.receive()
        live.finished()

    assert book.read_text(encoding="utf-8") == "12"


def test_what_a_sub_workflow_puts_into_the_conversation_is_there_for_all_behind_it(
    tmp_path: Path,
) -> None:
    seen: list[str] = []

    def answer(asked: Asked) -> list[Step]:
        last = asked.json["messages"][-1]["content"]
        seen.append(last if isinstance(last, str) else "an image")
        return whole(reply("a cat"))

    describes = {"type": "ImageProcessor", "endpointName": "Main", "prompt": "Describe."}
    tree = Tree(tmp_path).own("looks", [{**describes, "addAsUserMessage": True}])
    talk = draft("{chat_user_prompt_last_two}")
    tree.workflow("w", [calls("looks"), talk, JUDGE], parallel=True)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    content = [{"type": "text", "text": "what is it?"}, image]
    with Upstream(answer) as model, tree.model("Main", model.url).serve() as live:
        live.says(stream=False, model="w", messages=[{"role": "user", "content": content}])

    assert seen[0] == "an image"
    assert "a cat" in seen[1]


def test_nodes_of_branches_are_waited_for_by_name_and_wait_themselves(tmp_path: Path) -> None:
    nodes = [
        draft("one"),
        draft("two {agent1Output}", id="a"),
        draft("three", id="b"),
        {"type": "Parallel", "branches": [["a"], ["b"]]},
        {"type": "StaticResponse", "content": "{agent2Output}+{agent3Output}", "id": "end"},
    ]
    tree = Tree(tmp_path).workflow("w", nodes, parallel=True)
    with (
        Upstream(lambda asked: whole(reply(asked.json["messages"][-1]["content"]))) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        text = live.says(stream=False, model="w")

    assert text == "two one+three"


def test_a_script_works_on_the_step_before_it_and_others_see_what_it_sets(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    script = "def run(context, payload):\n"
    script += "    context.global_variables['n'] = str(payload) + '!'\n    return 'set'\n"
    folder = tree.public / "workflow_python_scripts"
    folder.mkdir()
    (folder / "mark.py").write_text(script, encoding="utf-8")
    first = Pause()

    def answer(asked: Asked) -> list[Step]:
        """The second draft is there before the first."""
        text = asked.json["messages"][-1]["content"]
        if text == "two":
            first.set()
        return [first, *whole(reply(text))] if text == "one" else whole(reply(text))

    nodes = [draft("one"), draft("two"), {"type": "PythonCode", "script": "mark.py"}]
    # This one names no node: without a place in the order it would be there first.
    nodes += [static("free", id="free"), static("{{n}} {agent3Output}")]
    tree.workflow("w", nodes, parallel=True, globalVariables={"n": "nothing"})
    with Upstream(answer) as model, tree.model("Main", model.url).serve() as live:
        texts = {live.says(stream=False, model="w") for _ in range(5)}

    assert texts == {"two! set"}
