"""retry, onError, fallbackEndpoints and timeoutSeconds on any node (design §6)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers
from tests.fakes.upstream import CUT, RESET, SILENCE, Upstream, chat, delta, refuses, stream

BOTH = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def said(received: Any, streamed: bool) -> str:
    if streamed:
        return str(received.text)
    return str(received.json["choices"][0]["message"]["content"])


def worker(**options: Any) -> dict[str, Any]:
    """A node whose words the client does not see."""
    return {
        "title": "Worker",
        "type": "Standard",
        "endpointName": "Main",
        "prompt": "go",
        **options,
    }


def tells(**options: Any) -> dict[str, Any]:
    return {"title": "Tell", "type": "StaticResponse", "content": "<{agent1Output}>", **options}


@BOTH
def test_a_node_is_tried_again_as_often_as_it_says(tmp_path: Path, streamed: bool) -> None:
    tree = Tree(tmp_path).workflow("w", [worker(retry={"times": 2, "delaySeconds": 0.01}), tells()])
    with (
        Upstream(refuses(500), refuses(503), chat("ok")) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        received = live.chat(model="w", stream=streamed)

    assert said(received, streamed) == "<ok>"
    assert len(model.asked) == 3
    assert live.runs[0]["context"]["steps"][0]["meta"]["attempts"] == 3


def test_what_would_fail_again_is_not_tried_again(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [worker(retry={"times": 5})])
    with Upstream(refuses(400, "too long")) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="w")

    assert received.status == 400
    assert len(model.asked) == 1


@dataclass(frozen=True)
class Forgiven:
    id: str
    options: dict[str, Any]
    expected: str


FORGIVEN = [
    Forgiven("continue gives empty text", {"onError": "continue"}, "<>"),
    Forgiven("value", {"onError": "value", "onErrorValue": "instead"}, "<instead>"),
    Forgiven("an object as value", {"onError": "value", "onErrorValue": {"a": 1}}, "<{'a': 1}>"),
]


@BOTH
@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in FORGIVEN])
def test_a_run_goes_on_without_a_node_that_may_fail(
    tmp_path: Path, case: Forgiven, streamed: bool
) -> None:
    tree = Tree(tmp_path).workflow("w", [worker(**case.options), tells()])
    with Upstream(refuses(500, "broken")) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="w", stream=streamed)

    assert said(received, streamed) == case.expected
    run = live.runs[0]
    assert run["status"] == "succeeded"
    assert "broken" in run["context"]["steps"][0]["meta"]["error"]


@BOTH
def test_a_failing_node_may_name_the_node_to_go_on_with(tmp_path: Path, streamed: bool) -> None:
    nodes = [
        worker(onError="route", onErrorRoute="sorry"),
        tells(id="fine", is_responder=True),
        tells(id="sorry", content="Sorry."),
    ]
    tree = Tree(tmp_path).workflow("w", nodes)
    with Upstream(refuses(500)) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="w", stream=streamed)

    assert said(received, streamed) == "Sorry."
    assert [step["nodeName"] for step in live.runs[0]["context"]["steps"]] == ["node_1", "sorry"]


@BOTH
def test_other_endpoints_stand_in_for_one_that_fails(tmp_path: Path, streamed: bool) -> None:
    tree = Tree(tmp_path).workflow("w", [answers("Main", fallbackEndpoints=["Gone", "Second"])])
    with (
        Upstream(refuses(500)) as first,
        Upstream(chat("from ", "two")) as second,
        tree.model("Main", first.url).model("Second", second.url).serve() as live,
    ):
        received = live.chat(model="w", stream=streamed)

    assert said(received, streamed) == "from two"
    step = live.runs[0]["context"]["steps"][0]
    assert step["meta"]["endpoint"] == "Second"


def test_c21_nothing_is_started_again_once_the_client_has_seen_something(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow(
        "w", [answers("Main", retry={"times": 3}, fallbackEndpoints=["Second"])]
    )
    with (
        Upstream(stream(delta("The answer"), RESET)) as first,
        Upstream(chat("The answer is 4.")) as second,
        tree.model("Main", first.url).model("Second", second.url).serve() as live,
    ):
        received = live.chat(model="w", stream=True)

    assert received.text == "The answer"
    assert '"error"' in received.frames[-2]
    assert received.frames[-1] == "data: [DONE]"
    assert (len(first.asked), len(second.asked)) == (1, 0)


def test_c21_a_collected_answer_that_was_cut_may_be_asked_for_again(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [worker(retry={"times": 1}), tells()])
    with (
        Upstream([b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{", CUT], chat("4")) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        received = live.chat(model="w", stream=True)

    assert received.text == "<4>"
    asked = [request.json["messages"] for request in model.asked]
    assert asked[0] == asked[1]


@BOTH
def test_a_node_has_to_finish_within_its_time(tmp_path: Path, streamed: bool) -> None:
    tree = Tree(tmp_path).workflow("w", [answers(timeoutSeconds=0.2)])
    with Upstream([SILENCE]) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="w", stream=streamed)
        assert model.left.wait(5)

    assert received.status == 504
    assert "0.2 s" in received.json["error"]["message"]


def test_the_default_is_to_fail_and_to_say_where(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("w", [worker(), tells()])
    with (
        Upstream(refuses(500, "no disk")) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        received = live.chat(model="w")

    assert received.status == 502
    message = received.json["error"]["message"]
    assert all(part in message for part in ("'w'", "'Worker'", "'Main'", "no disk"))
    assert received.headers["x-should-retry"] == "false"
