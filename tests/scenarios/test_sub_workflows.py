"""CustomWorkflow and ConditionalCustomWorkflow, from a client's request to its answer."""

import json
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.clock import ShiftedClock
from tests.fakes.headrace import Tree, answers, calls, static
from tests.fakes.upstream import (
    DONE,
    Asked,
    Pause,
    Step,
    Upstream,
    chat,
    delta,
    reply,
    stream,
    whole,
)
from tests.scenarios.modes import both_modes

LAST = delta(finish_reason="stop")


def chooses(key: str, workflows: dict[str, str], **options: Any) -> dict[str, Any]:
    """A node that runs the workflow that a key names."""
    return {
        "type": "ConditionalCustomWorkflow",
        "conditionalKey": key,
        "conditionalWorkflows": workflows,
        **options,
    }


# What a child knows


@both_modes
def test_a_child_sees_its_inputs_and_what_is_everybodys_and_nothing_else_of_its_parent(
    tmp_path: Path, stream: bool
) -> None:
    asked_for = (
        "{agent1Input} {agent2Input} {agent3Input} {agent4Input} {agent1Output} {secret} {own} "
        "{shared} {todays_date_iso} {chat_user_prompt_last_one} {Discussion_Id}"
    )
    tree = Tree(tmp_path, userWideWorkflowVariables={"shared": "everybody's"})
    tree.clock = ShiftedClock(datetime(2025, 9, 1))
    tree.own("Child", [static(asked_for)], own="child's")
    inputs = ["{agent1Output}", 7, None]
    tree.workflow(
        "assistant",
        [static("private"), calls("Child", scoped_variables=inputs)],
        secret="parent's",
        own="parent's",
    )
    with tree.serve() as live:
        said = live.says(stream=stream, metadata={"conversation_id": "talk"})

    assert said == (
        "private 7 None {agent4Input} {agent1Output} {secret} child's "
        "everybody's 2025-09-01 hello there world talk"
    )


@both_modes
def test_inputs_go_one_level_down_and_no_further(tmp_path: Path, stream: bool) -> None:
    tree = Tree(tmp_path)
    tree.own("Grandchild", [static("{agent1Input} and {agent2Input}")])
    tree.own("Child", [calls("Grandchild", scoped_variables=["{agent2Input}"])])
    tree.workflow("assistant", [calls("Child", scopedVariables=["one", "two"])])
    with tree.serve() as live:
        assert live.says(stream=stream) == "two and {agent2Input}"


def test_data_of_the_parent_is_not_read_as_a_template_by_the_child(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.own("Child", [static("{agent1Input}", title="Show")], hidden="child's own")
    tree.workflow("assistant", [calls("Child", scoped_variables=["{chat_user_prompt_last_one}"])])
    spiteful = "{hidden} {agent1Input} {{x}} {"
    with tree.serve() as live:
        said = live.says(stream=False, messages=[{"role": "user", "content": spiteful}])

    assert said == spiteful


def test_the_folder_of_a_call_is_not_passed_on_to_deeper_calls(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.own("Place", [static("the user's own folder")])
    tree.write("Workflows/_common/tools/Place.json", [static("another folder")])
    tree.write("Workflows/_common/tools/Child.json", [calls("Place")])
    tree.workflow("assistant", [calls("Child", workflowUserFolderOverride="_common/tools")])
    tree.workflow("direct", [calls("tools/Place", workflowUserFolderOverride="_common")])
    with tree.serve() as live:
        said = [live.says(stream=False, model=model) for model in ("assistant", "direct")]

    assert said == ["the user's own folder", "another folder"]


# Prompts for the first node


@dataclass(frozen=True)
class Override:
    id: str
    options: dict[str, Any]
    system: str = "own system"
    prompt: str = "own prompt"


OVERRIDES = [
    Override("none", {}),
    Override(
        "the long names",
        {"firstNodeSystemPromptOverride": "be brief", "firstNodePromptOverride": "go"},
        "be brief",
        "go",
    ),
    Override(
        "the short names",
        {"systemPromptOverride": "be brief", "promptOverride": "go"},
        "be brief",
        "go",
    ),
    Override(
        "an empty one is none", {"systemPromptOverride": "", "promptOverride": "go"}, prompt="go"
    ),
    Override(
        "the parent fills in its names",
        {"promptOverride": "{agent1Output}, {secret}, {shared}"},
        prompt="it {hidden} {agent1Input} {braced}, parent's, everybody's",
    ),
    Override(
        "the child fills in what the parent does not know",
        {"systemPromptOverride": "{hidden}: {agent1Input}", "promptOverride": "{nobody's}"},
        "child's: in",
        "{nobody's}",
    ),
]


@both_modes
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in OVERRIDES])
def test_overrides_reach_the_first_node_that_has_a_prompt(
    tmp_path: Path, case: Override, stream: bool
) -> None:
    tree = Tree(tmp_path, userWideWorkflowVariables={"shared": "everybody's"})
    prompts = {"systemPrompt": "own system", "prompt": "own prompt"}
    nodes = [static("no prompt here"), answers(**prompts), answers(**prompts)]
    tree.own("Child", nodes, hidden="child's")
    parent = calls("Child", scoped_variables=["in"], **case.options)
    data = static("it {hidden} {agent1Input} {{braced}}")
    tree.workflow("assistant", [data, parent], secret="parent's")
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        live.says(stream=stream)
        sent = [[message["content"] for message in one.json["messages"]] for one in model.asked]

    assert sent == [[case.system, case.prompt], ["own system", "own prompt"]]


@dataclass(frozen=True)
class Routed:
    id: str
    key: str
    prompt: str
    user: dict[str, Any] = field(default_factory=dict)


ANY_CASE = {"routeOverridesLookup": "caseInsensitive"}
ROUTED = [
    Routed("capitalised", " PYTHON ", "snake"),
    Routed("no other spelling is found", "javascript", "own"),
    Routed("the default, with its override", "cobol", "any"),
    Routed("the unmatched key comes first", "rust", "crab"),
    Routed("any spelling, if the user says so", "javascript", "web", ANY_CASE),
    Routed("any spelling of the default", "cobol", "any", ANY_CASE),
]


@both_modes
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in ROUTED])
def test_a_route_has_prompts_of_its_own(tmp_path: Path, case: Routed, stream: bool) -> None:
    tree = Tree(tmp_path, **case.user)
    tree.own("Child", [answers(prompt="own")])
    node = chooses(
        "{chat_user_prompt_last_one}",
        {"python": "Child", "JavaScript": "Child", "default": "Child"},
        routeOverrides={
            "Python": {"promptOverride": "snake"},
            "JavaScript": {"firstNodePromptOverride": "web"},
            "Rust": {"promptOverride": "crab"},
            "Default": {"promptOverride": "any"},
        },
        promptOverride="never: it stands outside of routeOverrides",
    )
    tree.workflow("assistant", [node])
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        live.says(stream=stream, messages=[{"role": "user", "content": case.key}])

    assert model.asked[0].json["messages"][-1]["content"] == case.prompt


# Streams


def nested(tree: Tree, *innermost: dict[str, Any]) -> Tree:
    """Three levels of both kinds of sub-workflow node, and ``innermost`` in the last one."""
    tree.own("Third", list(innermost))
    tree.own("Second", [chooses("go", {"Go": "Third"})])
    tree.own("First", [static("first"), calls("Second", is_responder=True)])
    return tree.workflow("assistant", [calls("First", title="Outermost")])


def test_a_token_of_a_great_grandchild_is_out_before_the_next_one_is_made(tmp_path: Path) -> None:
    second, third = Pause(), Pause()
    said = stream(delta("one "), second, delta("two "), third, delta("three"), LAST, DONE)
    with (
        Upstream(said) as model,
        nested(Tree(tmp_path), answers()).model("Main", model.url).serve() as live,
        live.connect() as client,
    ):
        client.send_chat(model="assistant")
        client.read_until(b'"one "')
        second.set()
        client.read_until(b'"two "')
        third.set()
        client.read_until(b'"three"')
        client.read_until(b"data: [DONE]\n\n")

        assert [run["status"] for run in live.runs] == ["succeeded"] * 4


def every(seconds: float, *texts: str) -> Callable[[Asked], list[Step]]:
    """A model that says one text each so many seconds."""

    def answer(asked: Asked) -> list[Step]:
        ticks = [Pause() for _ in texts]

        def tick() -> None:
            begun = time.monotonic()
            for number, pause in enumerate(ticks):
                time.sleep(max(0.0, begun + number * seconds - time.monotonic()))
                pause.set()

        threading.Thread(target=tick, daemon=True).start()
        parts = [part for pair in zip(ticks, map(delta, texts), strict=True) for part in pair]
        return stream(*parts, LAST, DONE)

    return answer


def test_tokens_keep_their_distance_through_three_levels(tmp_path: Path) -> None:
    texts = [f"token{number}" for number in range(20)]
    seen: list[float] = []
    with (
        Upstream(every(0.05, *texts)) as model,
        nested(Tree(tmp_path), answers()).model("Main", model.url).serve() as live,
        live.connect() as client,
    ):
        client.send_chat(model="assistant")
        for text in texts:
            client.read_until(f'"{text}"'.encode())
            seen.append(time.monotonic())

    # Held back and sent together, most gaps would be close to nothing.
    assert 0.035 < statistics.median(later - one for one, later in pairwise(seen)) < 0.065


@both_modes
def test_the_answer_of_a_silent_child_never_reaches_the_client(
    tmp_path: Path, stream: bool
) -> None:
    tree = Tree(tmp_path)
    tree.own("Child", [answers(is_responder=True), static("behind its responder")])
    nodes = [calls("Child"), static("I heard: {agent1Output}", is_responder=True)]
    tree.workflow("assistant", nodes)
    with Upstream(chat("secret")) as model, tree.model("Main", model.url).serve() as live:
        said = live.says(stream=stream)

    assert said == "I heard: secret"
    assert model.asked[0].json["stream"] is False


@both_modes
def test_a_silent_child_is_over_before_its_parent_goes_on(tmp_path: Path, stream: bool) -> None:
    tree = Tree(tmp_path)
    tree.own("Child", [static("answer", is_responder=True), answers()])
    tree.workflow("assistant", [calls("Child"), static("{agent1Output}")])
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        assert live.says(stream=stream) == "answer"
        assert len(model.asked) == 1


@both_modes
def test_nodes_behind_a_childs_responder_run_behind_the_answer_and_before_the_parents_next(
    tmp_path: Path, stream: bool
) -> None:
    release = Pause()
    tree = Tree(tmp_path)
    tree.own("Child", [answers(is_responder=True), answers("Behind", prompt="{agent1Output}!")])
    outer = [calls("Child", is_responder=True), answers("Next", prompt="{agent1Output}?")]
    tree.workflow("assistant", outer)
    with (
        Upstream(chat("Hel", "lo")) as model,
        Upstream(lambda asked: [release, *chat("a secret")(asked)]) as behind,
        Upstream(chat("done")) as following,
    ):
        tree.model("Main", model.url).model("Behind", behind.url).model("Next", following.url)
        with tree.serve() as live:
            assert live.says(stream=stream) == "Hello"
            asked = behind.wait_for(1)
            assert following.asked == []
            release.set()
            later = following.wait_for(1)
            outputs = live.outputs("_DefaultWorkflow")

    assert asked.json["messages"][-1]["content"] == "Hello!"
    assert later.json["messages"][-1]["content"] == "Hello?"
    assert outputs == ["Hello", "done"]


def test_a_childs_run_is_found_from_its_parents_step(tmp_path: Path) -> None:
    with nested(Tree(tmp_path), static("ok")).serve() as live:
        live.says(stream=True)
        third, second, first, outermost = live.runs

    children = [run["context"]["steps"][-1]["meta"].get("childRunId") for run in live.runs]
    assert children == [None, third["id"], second["id"], first["id"]]
    assert [run["parentId"] for run in (first, second, third)] == [
        outermost["id"],
        first["id"],
        second["id"],
    ]


# Content in place of a workflow


@dataclass(frozen=True)
class Content:
    id: str
    content: Any
    said: str


CONTENTS = [
    Content("text with variables", "Sorry, {agent1Output}.\n\nBye.", "Sorry, friend.\n\nBye."),
    Content("nothing at all", "", ""),
    Content("a number", 42, "42"),
]


@both_modes
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CONTENTS])
def test_default_content_is_said_in_place_of_the_default_workflow(
    tmp_path: Path, case: Content, stream: bool
) -> None:
    tree = Tree(tmp_path)
    tree.own("Child", [static("never")])
    default = {"UseDefaultContentInsteadOfWorkflow": case.content}
    tree.workflow("assistant", [static("friend"), chooses("x", {"default": "Child"}, **default)])
    with tree.serve() as live:
        said = live.says(stream=stream)

    assert said == case.said
    assert len(live.runs) == 1


@both_modes
def test_a_key_that_matches_wins_over_the_default_content(tmp_path: Path, stream: bool) -> None:
    tree = Tree(tmp_path)
    tree.own("Child", [static("chosen")])
    default = {"UseDefaultContentInsteadOfWorkflow": "never"}
    tree.workflow("assistant", [chooses("X", {"x": "Child"}, **default)])
    with tree.serve() as live:
        assert live.says(stream=stream) == "chosen"


# Mistakes


@dataclass(frozen=True)
class Mistake:
    id: str
    nodes: list[dict[str, Any]]
    parts: tuple[str, ...]
    """Of the message."""
    code: str = "configuration_error"


MISTAKES = [
    Mistake(
        "no such workflow",
        [calls("Chidl", title="Ask the child")],
        ("Workflow 'assistant'", "'Ask the child'", "Workflows/tester/Chidl.json", "'Child'"),
    ),
    Mistake(
        "no name",
        [{"type": "CustomWorkflow"}],
        ("Workflows/_shared/assistant/_DefaultWorkflow.json: nodes[0].workflowName",),
    ),
    Mistake(
        "no route",
        [chooses("rust", {"Python": "Child"}, title="Choose")],
        ("'Choose'", "'rust'", "'python'"),
        "workflow_error",
    ),
    Mistake(
        "a name that leads out of the folder",
        [calls("../../Users/tester", title="Out")],
        ("'Out'", "../../Users/tester'"),
    ),
    Mistake(
        "inside the child",
        [calls("Broken", title="Outer")],
        ("'Broken'", "'Inner'", "Endpoints/Nowhere.json"),
    ),
]


@both_modes
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in MISTAKES])
def test_a_mistake_is_a_400_that_names_the_place(
    tmp_path: Path, case: Mistake, stream: bool
) -> None:
    tree = Tree(tmp_path)
    tree.own("Child", [static("ok")])
    tree.own("Broken", [answers("Nowhere", title="Inner")])
    tree.workflow("assistant", case.nodes)
    with tree.serve() as live:
        received = live.chat(model="assistant", stream=stream)

    error = received.json["error"]
    assert (received.status, error["code"]) == (400, case.code)
    assert received.headers["x-should-retry"] == "false"
    assert [part for part in case.parts if part not in error["message"]] == []


@both_modes
def test_a_workflow_that_calls_itself_ends_with_the_chain_of_names(
    tmp_path: Path, stream: bool
) -> None:
    tree = Tree(tmp_path, maxWorkflowDepth=4)
    tree.own("Ping", [calls("Pong")])
    tree.own("Pong", [static("again"), calls("Ping", is_responder=False), static("never")])
    tree.workflow("assistant", [calls("Ping")])
    with tree.serve() as live:
        received = live.chat(model="assistant", stream=stream)

    error = received.json["error"]
    assert (received.status, error["code"]) == (400, "workflow_too_deep")
    assert "assistant -> Ping -> Pong -> Ping -> Pong" in error["message"]
    assert [run["status"] for run in live.runs] == ["failed"] * 4


def test_sixteen_levels_are_enough_for_everybody_who_says_nothing(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    for level in range(1, 17):
        tree.own(f"L{level}", [calls(f"L{level + 1}")])
    tree.own("L17", [static("the bottom")])
    tree.own("L15b", [calls("L16")])
    tree.workflow("allowed", [calls("L3")])
    tree.workflow("deeper", [calls("L2")])
    with tree.serve() as live:
        said = live.says(stream=True, model="allowed")
        refused = live.chat(model="deeper")

    assert said == "the bottom"
    assert refused.json["error"]["code"] == "workflow_too_deep"


# Tools


TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
CALL = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "look_up", "arguments": '{"word": "weir"}'},
}


def wants_a_tool(asked: Asked) -> list[Step]:
    if not asked.json["stream"]:
        return whole(reply("Wait.", "tool_calls", tool_calls=[CALL]))
    finish = delta(finish_reason="tool_calls")
    return stream(delta("Wait."), delta(tool_calls=[CALL]), finish, DONE)


@both_modes
def test_a_tool_call_of_a_grandchild_reaches_the_client_and_is_text_for_later_nodes(
    tmp_path: Path, stream: bool
) -> None:
    tree = Tree(tmp_path)
    tree.own("Grandchild", [answers(allowTools=True)])
    tree.own("Child", [calls("Grandchild", is_responder=True), static("<{agent1Output}>")])
    tree.workflow("assistant", [calls("Child", is_responder=True), static("[{agent1Output}]")])
    with Upstream(wants_a_tool) as model, tree.model("Main", model.url).serve() as live:
        received = live.chat(model="assistant", stream=stream, tools=[TOOL])
        outputs = [live.outputs(name)[-1] for name in ("Child", "_DefaultWorkflow")]

    choices = (
        [json.loads(frame[6:])["choices"][0] for frame in received.frames[:-1]]
        if stream
        else received.json["choices"]
    )
    parts = [choice["delta" if stream else "message"] for choice in choices]
    (called,) = [call for part in parts for call in part.get("tool_calls") or ()]
    assert model.asked[0].json["tools"] == [TOOL]
    assert called["function"] == CALL["function"]
    assert "".join(part.get("content") or "" for part in parts) == "Wait."
    assert choices[-1]["finish_reason"] == "tool_calls"
    assert outputs == ["<Wait.>", "[Wait.]"]


WORKS = {"type": "StringConcatenator", "strings": ["x"]}


@pytest.mark.parametrize(
    ("user", "file", "told"),
    [
        pytest.param(True, {}, "First…\nnode_2…\nBelow…\n", id="the user's"),
        pytest.param(False, {"showProgress": True}, "First…\nnode_2…\n", id="of the file"),
        pytest.param(True, {"showProgress": "false"}, "Below…\n", id="not of this file"),
        pytest.param(False, {}, "", id="of nobody"),
    ],
)
def test_a_streamed_answer_begins_with_the_names_of_the_nodes_before_it(
    tmp_path: Path, user: bool, file: dict[str, Any], told: str
) -> None:
    tree = Tree(tmp_path, showProgress=user)
    tree.own("aside", [{**WORKS, "title": "Hidden"}, static("aside")])
    tree.own("below", [{**WORKS, "title": "Below"}, static("the answer", is_responder=True), WORKS])
    nodes = [{**WORKS, "title": "First"}, calls("aside"), calls("below", is_responder=True), WORKS]
    tree.workflow("w", nodes, **file)
    with tree.serve() as live:
        streamed = live.chat(model="w", stream=True)
        whole = live.chat(model="w").json["choices"][0]["message"]

    frames = [json.loads(frame.removeprefix("data: ")) for frame in streamed.frames[:-1]]
    deltas = [frame["choices"][0]["delta"] for frame in frames]
    reasoning = "".join(delta.get("reasoning_content") or "" for delta in deltas)
    assert (streamed.text, reasoning) == ("the answer", told)
    assert whole == {"role": "assistant", "content": "the answer"}
