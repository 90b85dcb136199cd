"""One workflow from top to bottom: who answers, what runs behind the answer, what is recorded."""

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers, calls, static
from tests.fakes.upstream import (
    CUT,
    Pause,
    Upstream,
    chat,
    delta,
    nobody_listens,
    refuses,
    stream,
)
from tests.scenarios.modes import both_modes

THINKS: dict[str, Any] = {
    "removeThinking": True,
    "startThinkTag": "<think>",
    "endThinkTag": "</think>",
}


# The responder


@dataclass(frozen=True)
class Flags:
    id: str
    nodes: tuple[dict[str, Any], ...]
    answers: int
    """Position of the responder."""


FLAGS = [
    Flags("nobody says so: the last", ({}, {}, {}), 3),
    Flags("the first that says so", ({}, {"is_responder": True}, {"is_responder": True}), 2),
    Flags("the older name", ({"returnToUser": True}, {}, {}), 1),
    Flags(
        "false wins over the older name",
        ({"is_responder": False, "returnToUser": True}, {"returnToUser": True}, {}),
        2,
    ),
    Flags("both names count alike", ({}, {"returnToUser": True}, {"is_responder": True}), 2),
    Flags("everybody says no: the last", ({"is_responder": False}, {"returnToUser": False}), 2),
    Flags("no, as text", ({"is_responder": "false"}, {"is_responder": "true"}, {}), 2),
    Flags("null is nothing said", ({"is_responder": None, "returnToUser": True}, {}), 1),
]


@both_modes
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in FLAGS])
def test_one_node_answers(tmp_path: Path, case: Flags, stream: bool) -> None:
    tree = Tree(tmp_path)
    nodes = [static(f"node {place}", **flags) for place, flags in enumerate(case.nodes, start=1)]
    tree.workflow("assistant", nodes)
    with tree.serve() as live:
        said = live.says(stream=stream)
        outputs = live.outputs("_DefaultWorkflow")

    assert said == f"node {case.answers}"
    assert outputs == [f"node {place}" for place in range(1, len(nodes) + 1)]


@both_modes
def test_what_stands_behind_the_answer_runs_when_the_client_has_it(
    tmp_path: Path, stream: bool
) -> None:
    release = Pause()
    tree = Tree(tmp_path)
    behind = answers("Behind", prompt="{agent1Output} {agent2Output}")
    nodes = [static("one"), answers(is_responder=True), behind]
    tree.workflow("assistant", [*nodes, static("{agent1Output} {agent2Output} {agent3Output}")])
    with (
        Upstream(chat("Hel", "lo")) as model,
        Upstream(lambda asked: [release, *chat("three")(asked)]) as slow,
        tree.model("Main", model.url).model("Behind", slow.url).serve() as live,
    ):
        said = live.says(stream=stream)
        asked = slow.wait_for(1)
        during = live.runs[0]
        release.set()
        outputs = live.outputs("_DefaultWorkflow")

    assert said == "Hello"
    assert asked.json["messages"][-1]["content"] == "one Hello"
    assert (during["status"], len(during["context"]["steps"])) == ("running", 2)
    assert outputs == ["one", "Hello", "three", "one Hello three"]


@both_modes
def test_a_failure_behind_the_answer_is_only_recorded(
    tmp_path: Path, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tree = Tree(tmp_path)
    nodes = [answers(is_responder=True), answers("Broken", title="Remember"), static("never")]
    tree.workflow("assistant", nodes)
    with (
        Upstream(chat("Hello")) as model,
        Upstream(refuses(500, "no memory")) as broken,
        tree.model("Main", model.url).model("Broken", broken.url).serve() as live,
    ):
        said = [live.says(stream=stream) for _ in range(2)]
        runs = live.finished()

    told = "Workflow 'assistant', node 'Remember': Endpoint 'Broken' answered 500: no memory"
    assert said == ["Hello", "Hello"]
    assert [(run["status"], run["error"]) for run in runs] == [("failed", told)] * 2
    assert runs[0]["context"]["steps"][-1]["meta"]["error"] == told
    lines = [one.message for one in caplog.records if "behind the answer" in one.message]
    assert [told in line and "Traceback" not in line for line in lines] == [True, True]


# Early fields and node types


def test_an_endpoint_is_named_by_whatever_is_known_before_the_node_runs(tmp_path: Path) -> None:
    tree = Tree(tmp_path, userWideWorkflowVariables={"Model": "{Size}-One", "Size": "Big"})
    tree.own("Child", [answers("{agent1Input}", maxResponseSizeInTokens="{agent2Input}")])
    nodes = [
        answers("{Model}"),
        answers("{mine}"),
        static("Small-One"),
        answers("{agent3Output}"),
        calls("Child", scoped_variables=["Big-One", 77]),
        answers("Big-One", preset="{agent3Output}", maxResponseSizeInTokens="no number"),
    ]
    tree.workflow("assistant", nodes, mine="Small-One")
    with Upstream(chat("big")) as big, Upstream(chat("small")) as small:
        tree.model("Big-One", big.url)
        tree.model("Small-One", small.url, presetSamplers={"temperature": 0.1})
        with tree.serve() as live:
            live.says(stream=False)
            outputs = live.outputs("_DefaultWorkflow")

    assert outputs == ["big", "small", "Small-One", "small", "big", "big"]
    assert [asked.json["max_tokens"] for asked in big.asked] == [400, 77, 400]
    assert "temperature" not in big.asked[0].json
    assert big.asked[2].json["temperature"] == 0.1


def test_what_a_preset_cannot_have_is_told_once_and_not_with_every_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tree = Tree(tmp_path)
    tree.write(
        "ApiTypes/Bare.json", {"type": "openAIChatCompletion", "streamPropertyName": "stream"}
    )
    number_of_user = static("1{chat_user_prompt_last_one}")
    nodes = [number_of_user, answers(maxResponseSizeInTokens="{agent1Output}"), answers("Script")]
    tree.workflow("assistant", nodes).scripted("Script")
    bare = {"apiTypeConfigFileName": "Bare", "presetSamplers": {"temperature": 1}}
    with Upstream(chat("ok")) as model, tree.model("Main", model.url, **bare).serve() as live:
        for number in ("1", "2", "3"):
            live.says(stream=False, messages=[{"role": "user", "content": number}])

    told = [one.message for one in caplog.records if one.levelno >= logging.WARNING]
    assert ["maxNewTokensPropertyName" in line for line in told] == [False, True]
    assert "'temperature' was left out" in told[0]


def test_an_unknown_node_type_runs_as_standard_and_is_told(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers(type="Standrad")])
    with Upstream(chat("Hello")) as model, tree.model("Main", model.url).serve() as live:
        said = live.says(stream=False)
        health = live.health()

    (problem,) = health["problems"]
    assert said == "Hello"
    assert health["status"] == "ok"
    assert (problem["code"], problem["severity"]) == ("unknown_node_type", "warning")
    assert problem["file"] == "Workflows/_shared/assistant/_DefaultWorkflow.json"
    assert problem["place"] == "nodes[0].type"
    assert "'Standard'" in problem["remedy"]


# Failures


@dataclass(frozen=True)
class Fault:
    id: str
    nodes: Any
    status: int
    code: str
    parts: tuple[str, ...]
    endpoint: dict[str, Any] = field(default_factory=dict)


NODE = "Workflow 'assistant', node 'Answer'"
FAULTS = [
    Fault("no node", [], 400, "configuration_error", ("_DefaultWorkflow.json", "nodes")),
    Fault("no list", {"nodes": {}}, 400, "configuration_error", ("_DefaultWorkflow.json: nodes",)),
    Fault("no object", ["x"], 400, "configuration_error", ("_DefaultWorkflow.json: nodes[0]",)),
    Fault(
        "no endpoint",
        [{"type": "Standard", "title": "Answer"}],
        400,
        "workflow_error",
        (NODE, "endpointName"),
    ),
    Fault(
        "an endpoint that is not there",
        [answers("Mian")],
        400,
        "configuration_error",
        (NODE, "Endpoints/Mian.json", "'Main'"),
    ),
    Fault(
        "a preset that is not there",
        [answers(preset="Warm")],
        400,
        "configuration_error",
        (NODE, "Presets/Test/tester/Warm.json"),
    ),
    Fault("a refusal", [answers()], 422, "backend_rejected", (NODE, "'Main'", "too long")),
    Fault(
        "a template that fails",
        [answers(prompt="{{ 1 / 0 }}", jinja2=True)],
        400,
        "workflow_error",
        (NODE, "line 1"),
    ),
    Fault(
        "nobody listens",
        [answers()],
        503,
        "backend_unreachable",
        (NODE, "'Main'"),
        {"endpoint": nobody_listens()},
    ),
    Fault("text of the wrong kind", [static(7)], 400, "configuration_error", ("nodes[0].content",)),
]


@both_modes
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in FAULTS])
def test_an_error_names_the_place_before_the_first_byte(
    tmp_path: Path, case: Fault, stream: bool
) -> None:
    tree = Tree(tmp_path)
    tree.write("Workflows/_shared/assistant/_DefaultWorkflow.json", case.nodes)
    with Upstream(refuses(422, "too long")) as model:
        tree.model("Main", model.url, **case.endpoint)
        with tree.serve() as live:
            received = live.chat(model="assistant", stream=stream)

    error = received.json["error"]
    assert (received.status, error["code"]) == (case.status, case.code)
    assert [part for part in case.parts if part not in error["message"]] == []


def test_an_error_after_the_first_byte_is_a_frame_that_names_the_place(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    breaks_off = stream(delta("Hel"), delta("lo"), CUT)
    with Upstream(breaks_off) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="assistant", stream=True)
        (run,) = live.runs

    error = json.loads(received.frames[-2][6:])["error"]
    assert (received.status, received.text, received.frames[-1]) == (200, "Hello", "data: [DONE]")
    assert error["message"].startswith(f"{NODE}: Endpoint 'Main'")
    assert (run["status"], run["partialText"], run["error"]) == (
        "failed",
        "Hello",
        error["message"],
    )


# Text that is there at once


@pytest.mark.parametrize(
    "node",
    [
        static("one  two\nthree "),
        {"type": "StringConcatenator", "strings": ["one ", " two", "\nthree "]},
    ],
    ids=lambda node: str(node["type"]),
)
def test_text_of_a_file_is_streamed_word_by_word(tmp_path: Path, node: dict[str, Any]) -> None:
    tree = Tree(tmp_path).workflow("assistant", [node])
    with tree.serve() as live:
        received = live.chat(model="assistant", stream=True)

    chunks = [json.loads(frame[6:])["choices"][0] for frame in received.frames[:-1]]
    said = [chunk["delta"].get("content") for chunk in chunks]
    assert [text for text in said if text] == ["one", "  ", "two", "\n", "three", " "]
    assert chunks[0]["delta"]["role"] == "assistant"
    assert [chunk["finish_reason"] for chunk in chunks if chunk["finish_reason"]] == ["stop"]


# What is recorded


def test_the_output_of_every_node_is_cleaned_before_another_sees_it(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.workflow(
        "assistant",
        [
            answers(removeCustomTextFromResponseStart=True, responseStartTextToRemove="Sure:"),
            static("<{agent1Output}>"),
        ],
    )
    thoughts = chat(" <think>hm {", "agent1Input}</think>\n", "Sure: {yes}\n")
    rules = {**THINKS, "trimBeginningAndEndLineBreaks": True}
    with Upstream(thoughts) as model, tree.model("Main", model.url, **rules).serve() as live:
        said = live.says(stream=False)
        step = live.runs[0]["context"]["steps"][0]

    assert said == "<{yes}>"
    assert step["outputData"] == {"content": "{yes}", "data": []}


def test_the_context_of_a_run_shows_every_step(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    nodes = [answers(systemPrompt="Be kind.", id="greet"), static("{agent1Output}!")]
    tree.workflow("assistant", nodes)
    with Upstream(chat("Hel", "lo")) as model, tree.model("Main", model.url).serve() as live:
        answer = live.chat(model="assistant")
        (run,) = live.runs

    context = run["context"]
    assert answer.headers["x-request-id"] == run["requestId"]
    assert (run["workflow"], run["folder"]) == ("_DefaultWorkflow", "_shared/assistant")
    assert (run["user"], run["door"]) == ("tester", "openaichatcompletion")
    tokens = {"prompt": 5, "completion": 7, "estimated": False}
    assert tokens.items() <= run["tokens"].items()
    assert context["workflowRecord"].keys() == {"name", "folder", "hash"}
    assert len(context["workflowRecord"]["hash"]) == 64
    assert context["globalVariables"] == {"question": "hello there world"}
    assert context["clearConversation"] is False
    assert (context["currentStepNodeId"], context["error"]) == ("node_2", None)
    first, second = context["steps"]
    assert first["processingTimeMs"] > 0
    assert (first["nodeName"], second["nodeName"]) == ("greet", "node_2")
    assert first["outputData"] == {"content": "Hello", "data": []}
    assert (first["thinking"], first["cost"], first["confidenceScore"]) == (None, None, None)
    assert tokens.items() <= first["meta"].pop("tokens").items()
    assert {
        "module_type": "Standard",
        "next_route": None,
        "title": "Answer",
        "endpoint": "Main",
        "resolvedPrompt": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "hello there world"},
        ],
        "attempts": 1,
    }.items() <= first["meta"].items()
    assert second["meta"] == {"module_type": "StaticResponse", "next_route": None}
    assert second["outputData"]["content"] == "Hello!"


def test_a_failed_run_shows_the_steps_up_to_the_failure(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.workflow("assistant", [static("one"), answers(title="Two"), static("never")])
    no_model = refuses(404, "no such model")
    with Upstream(no_model) as model, tree.model("Main", model.url).serve() as live:
        live.chat(model="assistant")
        (run,) = live.runs

    steps = run["context"]["steps"]
    assert (run["status"], len(steps)) == ("failed", 2)
    assert run["context"]["error"] == run["error"] == steps[1]["meta"]["error"]
    assert "no such model" in run["error"]
    assert run["context"]["currentStepNodeId"] == "node_2"
    assert steps[1]["meta"]["resolvedPrompt"] == [{"role": "user", "content": "hello there world"}]


def test_tokens_of_a_run_are_its_own_and_the_clients_those_of_all(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.own("Child", [answers()])
    tree.workflow("assistant", [calls("Child"), answers(is_responder=True), answers()])
    with Upstream(chat("Hello")) as model, tree.model("Main", model.url).serve() as live:
        usage = live.chat(model="assistant").json["usage"]
        runs = live.finished()

    assert usage == {"prompt_tokens": 10, "completion_tokens": 14, "total_tokens": 24}
    assert [run["tokens"]["prompt"] for run in runs] == [5, 10]


def test_one_line_of_the_log_tells_the_whole_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tree = Tree(tmp_path).workflow("assistant", [static("one", title="First"), answers()])
    with Upstream(chat("Hello")) as model, tree.model("Main", model.url).serve() as live:
        live.says(stream=True)

    told = [
        one.getMessage() for one in caplog.records if "workflow 'assistant'" in one.getMessage()
    ]
    assert len(told) == 1
    assert "1. StaticResponse 'First'" in told[0]
    assert "2. Standard 'Answer', endpoint 'Main'" in told[0]
