"""ImageProcessor through the front door: who sees the descriptions, and when."""

import base64
from pathlib import Path
from typing import Any

from tests.fakes.headrace import Tree, answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Upstream, chat
from tests.scenarios.modes import both_modes

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"x" * 100).decode()
IMAGE = f"data:image/png;base64,{PNG}"
SEES = {
    "title": "See",
    "type": "ImageProcessor",
    "endpointName": "Vision",
    "prompt": "What is it?",
    "addAsUserMessage": True,
    "message": "[Image: [IMAGE_BLOCK]]",
}


def picture(text: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": IMAGE}}]
    return {"role": "user", "content": parts}


def contents(model: Upstream, call: int = 0) -> list[Any]:
    return [message["content"] for message in model.asked[call].json["messages"]]


@both_modes
def test_nodes_that_follow_see_what_the_images_show(stream: bool, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [SEES, answers("Main")])
    with (
        Upstream(chat("a cat")) as vision,
        Upstream(chat("nice")) as main,
        tree.model("Vision", vision.url).model("Main", main.url).serve() as live,
    ):
        heard = hear(live.chat(model="w", stream=stream, messages=[picture("look")]))
        run = live.runs[0]

    assert heard.said == ("nice", "stop")
    ((asked,),) = [call.json["messages"] for call in vision.asked]
    assert [part["type"] for part in asked["content"]] == ["text", "image_url"]
    assert contents(main) == ["look", "[Image: a cat]"]
    steps = run["context"]["steps"]
    assert steps[0]["meta"]["insertedMessages"] == [{"role": "user", "content": "[Image: a cat]"}]
    # Two calls, each reported with 5 and 7 tokens.
    assert (run["tokens"]["prompt"], run["tokens"]["completion"]) == (10, 14)


def test_a_workflow_below_and_the_one_above_see_it_too(tmp_path: Path) -> None:
    tree = (
        Tree(tmp_path)
        .own("Below", [answers("Main", title="Below")])
        .own("Sees", [SEES])
        .workflow(
            "w",
            [
                {"type": "CustomWorkflow", "workflowName": "Sees"},
                {"type": "CustomWorkflow", "workflowName": "Below"},
                answers("Main"),
            ],
        )
    )
    with (
        Upstream(chat("a cat")) as vision,
        Upstream(chat("nice")) as main,
        tree.model("Vision", vision.url).model("Main", main.url).serve() as live,
    ):
        hear(live.chat(model="w", messages=[picture("look"), picture("and this")]))

    expected = ["look", "[Image: a cat\n-------------\na cat]", "and this"]
    assert [contents(main, 0), contents(main, 1)] == [expected, expected]


@both_modes
def test_it_may_be_the_node_that_answers(stream: bool, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [SEES])
    with (
        Upstream(chat("a cat")) as vision,
        tree.model("Vision", vision.url).serve() as live,
    ):
        heard = hear(live.chat(model="w", stream=stream, messages=[picture("look")]))

    assert heard.said == ("a cat", "stop")


def test_an_image_is_described_once_a_conversation(tmp_path: Path) -> None:
    node = {**SEES, "saveVisionResponsesToDiscussionId": True}
    tree = Tree(tmp_path).workflow("w", [node, answers("Main")])
    messages = [
        picture("look [DiscussionId]talk[/DiscussionId]"),
        {"role": "user", "content": "and?"},
    ]
    with (
        Upstream(chat("a cat")) as vision,
        Upstream(chat("nice")) as main,
        tree.model("Vision", vision.url).model("Main", main.url).serve() as live,
    ):
        for _ in range(3):
            hear(live.chat(model="w", messages=messages))

    assert len(vision.asked) == 1
    assert [contents(main, call) for call in range(3)] == [["look ", "[Image: a cat]", "and?"]] * 3
