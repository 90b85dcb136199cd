"""Configuration files as a client meets them: edits, mistakes, users, model names, ids."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import API_TYPE, Headrace, Tree, answers, calls, static
from tests.fakes.upstream import Pause, Upstream, chat
from tests.scenarios.modes import both_modes

SHARED = "Workflows/_shared/assistant/_DefaultWorkflow.json"


# Edits


@both_modes
def test_an_edit_is_seen_by_the_next_request_and_not_by_the_running_one(
    tmp_path: Path, stream: bool
) -> None:
    release = Pause()
    tree = Tree(tmp_path, userWideWorkflowVariables={"word": "old"})

    def write(state: str, url: str) -> None:
        tree.model("Later", url, modelNameToSendToAPI=f"{state}-model")
        tree.own("Child", [answers("Later", prompt=f"{state} child", preset="Warm")])
        tree.write("Presets/Test/Warm.json", {"temperature": len(state)})
        tree.user(userWideWorkflowVariables={"word": state})
        end = static(f"{state} end {{word}} {{agent2Output}}")
        tree.workflow("assistant", [answers("First"), calls("Child"), end])

    def sent(model: Upstream) -> list[Any]:
        body = model.asked[-1].json
        return [body["model"], body["messages"][-1]["content"], body["temperature"]]

    with (
        Upstream(chat("now"), lambda asked: [release, *chat("now")(asked)], chat("now")) as first,
        Upstream(chat("old server")) as old,
        Upstream(chat("new server")) as new,
        tree.model("First", first.url).serve() as live,
        live.connect() as running,
    ):
        write("old", old.url)
        before = live.says(stream=stream)
        tree.clock.advance(10)
        running.send_chat(model="assistant", stream=stream)
        first.wait_for(2)
        tree.clock.advance(1)
        write("newer", new.url)
        tree.clock.advance(1)
        after = live.says(stream=stream)
        assert (len(old.asked), sent(new)) == (1, ["newer-model", "newer child", 5])
        release.set()
        running.receive()
        outputs = {run["requestId"]: run for run in live.finished() if not run["parentId"]}

    assert (before, after) == ("old end old old server", "newer end newer new server")
    assert (len(new.asked), sent(old)) == (1, ["old-model", "old child", 3])
    ends = [run["context"]["steps"][-1]["outputData"]["content"] for run in outputs.values()]
    assert ends == [after, before, before]


@dataclass(frozen=True)
class Live:
    id: str
    file: str
    content: Any
    changed: Callable[[dict[str, Any]], Any]
    """What of the request to the model is different afterwards."""
    expected: Any


ASKS = {"type": "Standard", "endpointName": "Main", "preset": "Warm", "systemPrompt": "{word}"}
LIVE = [
    Live(
        "workflow",
        SHARED,
        [{**ASKS, "prompt": "new"}],
        lambda b: b["messages"][1],
        {"role": "user", "content": "new"},
    ),
    Live(
        "preset", "Presets/Test/Warm.json", {"temperature": 2}, lambda body: body["temperature"], 2
    ),
    Live(
        "user",
        "Users/tester.json",
        {
            "dialect": "headrace",
            "allowSharedWorkflows": True,
            "userWideWorkflowVariables": {"word": "new"},
        },
        lambda b: b["messages"][0]["content"],
        "new",
    ),
    Live(
        "API type",
        "ApiTypes/OpenAI.json",
        {**API_TYPE, "maxNewTokensPropertyName": "new"},
        lambda b: b["new"],
        400,
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in LIVE])
def test_an_edit_of_one_file_is_enough(tmp_path: Path, case: Live) -> None:
    tree = Tree(tmp_path, userWideWorkflowVariables={"word": "old"}).workflow("assistant", [ASKS])
    tree.write("Presets/Test/Warm.json", {"temperature": 1})
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        live.says(stream=False)
        tree.clock.advance(10)
        tree.write(case.file, case.content)
        tree.clock.advance(1)
        live.says(stream=False)

    before, after = (asked.json for asked in model.asked)
    assert before["messages"][0]["content"] == "old"
    assert (before["temperature"], before["max_tokens"]) == (1, 400)
    assert case.changed(after) == case.expected


@dataclass(frozen=True)
class Edit:
    id: str
    file: str
    broken: Any
    place: str


EDITS = [
    Edit("no JSON", SHARED, '{"nodes": [', "line 1"),
    Edit("no workflow", SHARED, {"nodes": [7]}, "nodes[0]"),
    Edit("a wrong type", SHARED, [{"type": "StaticResponse", "content": {}}], "nodes[0].content"),
    Edit("an endpoint", "Endpoints/Main.json", {"endpoint": 7}, ""),
    Edit("an API type", "ApiTypes/OpenAI.json", {"type": ""}, "type"),
    Edit("a user", "Users/tester.json", {"dialect": "klingon"}, "dialect"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in EDITS])
def test_a_broken_edit_keeps_the_last_good_version_until_it_is_mended(
    tmp_path: Path, case: Edit
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with Upstream(chat("good")) as model, tree.model("Main", model.url).serve() as live:
        said = [live.says(stream=False)]
        good = (tree.configs / case.file).read_text(encoding="utf-8")
        tree.clock.advance(10)
        tree.write(case.file, case.broken)
        tree.clock.advance(1)
        said += [live.says(stream=True), live.says(stream=False)]
        degraded = live.health()
        tree.write(case.file, good)
        tree.clock.advance(1)
        said.append(live.says(stream=False))
        mended = live.health()

    (problem, *_) = degraded["problems"]
    assert said == ["good"] * 4
    assert degraded["status"] == "degraded"
    assert (problem["file"], problem["severity"]) == (case.file, "error")
    assert problem["usingLastGood"] is True
    assert problem["place"].startswith(case.place)
    assert mended == {"status": "ok", "version": mended["version"], "problems": []}


def test_a_file_that_never_was_good_is_an_error_until_it_is_mended(tmp_path: Path) -> None:
    tree = Tree(tmp_path).write(SHARED, '{"nodes": [}')
    with tree.serve() as live:
        refused = live.chat(model="assistant")
        health = live.health()
        tree.clock.advance(10)
        tree.workflow("assistant", [static("good")])
        tree.clock.advance(1)
        said = live.says(stream=False)

    error = refused.json["error"]
    assert (refused.status, error["code"]) == (400, "configuration_error")
    assert f"{SHARED}: line 1, column 12" in error["message"]
    assert health["problems"][0]["usingLastGood"] is False
    assert said == "good"


def test_a_workflow_that_was_checked_when_the_server_started_survives_a_broken_edit(
    tmp_path: Path,
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [calls("Child")])
    tree.own("Child", [static("good")])
    with tree.serve() as live:
        live.problems()
        tree.clock.advance(10)
        tree.write("Workflows/tester/Child.json", "[")
        tree.clock.advance(1)
        assert live.says(stream=False) == "good"
        assert live.health()["status"] == "degraded"


# Forms and names of files


YAML = """
# Comments are allowed here.
word: kind
nodes:
  - type: Standard
    endpointName: Main
    systemPrompt: |
      Be {word}.
      Always.
"""


def test_a_workflow_and_an_endpoint_may_be_yaml(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("Workflows/_shared/assistant/_DefaultWorkflow.yaml", YAML)
    with Upstream(chat("Hello")) as model, tree.serve() as live:
        tree.write(
            "Endpoints/Main.yml",
            f"endpoint: {model.url}\napiTypeConfigFileName: OpenAI\nmaxContextTokenSize: 4096\n",
        )
        said = live.says(stream=False)

    assert said == "Hello"
    assert model.asked[0].json["messages"][0]["content"] == "Be kind.\nAlways.\n"


def test_two_files_of_one_name_are_an_error_that_names_both(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [calls("Child")])
    tree.own("Child", [static("json")])
    tree.write("Workflows/tester/Child.yaml", "- {type: StaticResponse, content: yaml}")
    with tree.serve() as live:
        refused = live.chat(model="assistant")
        (tree.configs / "Workflows/tester/Child.json").unlink()
        tree.clock.advance(10)
        said = live.says(stream=False)
        tree.clock.advance(1)
        tree.own("Child", [static("json")])
        tree.clock.advance(1)
        kept = live.says(stream=False)
        health = live.health()

    message = refused.json["error"]["message"]
    assert refused.status == 400
    assert "Workflows/tester/Child.json and Workflows/tester/Child.yaml" in message
    assert (said, kept) == ("yaml", "yaml")
    assert [(one["code"], one["usingLastGood"]) for one in health["problems"]] == [
        ("two_files_of_one_name", True)
    ]


def test_a_name_in_the_wrong_case_finds_its_file_and_is_told(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [calls("cHILD")])
    tree.own("Child", [answers("mAIN", preset="wARM")])
    tree.write("Presets/Test/Warm.json", {"temperature": 0.9})
    with Upstream(chat("Hello")) as model:
        tree.model("Main", model.url, apiTypeConfigFileName="openai")
        with tree.serve() as live:
            said = live.says(stream=False, model="ASSISTANT")
            health = live.health()

    assert said == "Hello"
    assert model.asked[0].json["temperature"] == 0.9
    assert health["status"] == "ok"
    assert {(one["code"], one["file"]) for one in health["problems"]} == {
        ("name_case", "Workflows/tester/Child.json"),
        ("name_case", "Endpoints/Main.json"),
        ("name_case", "ApiTypes/OpenAI.json"),
        ("name_case", "Presets/Test/Warm.json"),
    }


# Users and models


def two_users(root: Path, **bob: Any) -> Tree:
    """alice has a shared workflow and a routing of her own, bob only the latter."""
    tree = Tree(root).user("alice", sharedWorkflowsSubDirectoryOverride="_hers")
    tree.user("bob", **{"allowSharedWorkflows": False, **bob})
    tree.write("Workflows/_hers/general/_DefaultWorkflow.json", [static("shared of alice")])
    tree.write("Workflows/_shared/general/_DefaultWorkflow.json", [static("shared of all")])
    tree.write("Workflows/alice/_DefaultWorkflow.json", [static("alice")])
    return tree.write("Workflows/bob/_DefaultWorkflow.json", [static("bob")])


@dataclass(frozen=True)
class Model:
    id: str
    name: str
    said: str
    served: str


MODELS = [
    Model("a user", "alice", "alice", "alice"),
    Model("a workflow of one", "alice:general", "shared of alice", "alice:general"),
    Model("a workflow that is not listed", "bob:general", "shared of all", "bob:general"),
    Model("the suffix of Ollama", "bob:latest", "bob", "bob"),
    Model("nothing", "", "alice", "alice"),
]


@both_modes
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in MODELS])
def test_several_users_answer_under_their_names(tmp_path: Path, case: Model, stream: bool) -> None:
    with two_users(tmp_path).serve(users=("alice", "bob")) as live:
        said = live.says(stream=stream, model=case.name)
        served = live.chat(model=case.name).json["model"]
        listed = [one["id"] for one in live.ask("GET", "/v1/models").json["data"]]

    assert (said, served) == (case.said, case.served)
    assert listed == ["alice:general", "bob"]


@dataclass(frozen=True)
class Unknown:
    id: str
    model: str
    dialect: str
    said: str | None
    """None: a 404."""
    near: str = ""
    users: tuple[str, ...] = ("alice", "bob")


UNKNOWN = [
    Unknown("user", "alcie", "headrace", None, "alice"),
    Unknown("user, as the reference has it", "alcie", "reference", None, "alice"),
    Unknown("workflow", "bob:genrl", "headrace", None),
    Unknown("workflow, as the reference has it", "bob:genrl", "reference", "bob"),
    Unknown("one user", "genrl", "headrace", None, "alice:general", ("alice",)),
    Unknown("one user, as the reference has it", "gpt-4", "reference", "bob", "", ("bob",)),
    Unknown("a path", "bob:../general", "headrace", None),
    Unknown("a path, as the reference has it", "bob:../bob", "reference", "bob"),
]


@both_modes
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in UNKNOWN])
def test_an_unknown_model_is_refused_or_not_as_the_dialect_says(
    tmp_path: Path, case: Unknown, stream: bool
) -> None:
    tree = two_users(tmp_path, dialect=case.dialect)
    with tree.serve(users=case.users) as live:
        received = live.chat(model=case.model, stream=stream)
        said = live.says(stream=stream, model=case.model) if case.said else None

    assert said == case.said
    if case.said is None:
        error = received.json["error"]
        assert (received.status, error["code"]) == (404, "model_not_found")
        assert case.near in error["message"]


def test_a_model_may_have_other_names(tmp_path: Path) -> None:
    aliases = {"claude-*": "assistant", "gpt-4": "tester:assistant", "own": "tester"}
    tree = Tree(tmp_path, modelAliases=aliases).workflow("assistant", [static("assistant")])
    tree.own("_DefaultWorkflow", [static("own")])
    with tree.serve() as live:
        names = ("claude-opus-4", "gpt-4", "own", "gpt-5")
        received = [live.chat(model=name) for name in names]
        listed = [one["id"] for one in live.ask("GET", "/v1/models").json["data"]]

    said = [one.json["choices"][0]["message"]["content"] for one in received[:3]]
    assert said == ["assistant", "assistant", "own"]
    assert [one.json["model"] for one in received[:3]] == [*["tester:assistant"] * 2, "tester"]
    assert received[3].status == 404
    assert listed == ["tester:assistant"]


# Discussion ids


def show_id(root: Path) -> Tree:
    tree = Tree(root)
    return tree.workflow("assistant", [static("<{Discussion_Id}> {chat_user_prompt_last_one}")])


def tagged(discussion_id: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"[DiscussionId]{discussion_id}[/DiscussionId]hi"}]


@dataclass(frozen=True)
class Named:
    id: str
    fields: dict[str, Any]
    said: str
    headers: dict[str, str] = field(default_factory=dict)


HI = [{"role": "user", "content": "hi"}]
BY_HEADER = {"X_Conversation_Id": "by header"}
BY_METADATA = {"metadata": {"conversation_id": "by metadata"}}
NAMED = [
    Named("nowhere", {"messages": HI}, "<> hi"),
    Named("a tag", {"messages": tagged("by tag")}, "<by tag> hi"),
    Named("metadata before a tag", {"messages": tagged("x"), **BY_METADATA}, "<by metadata> hi"),
    Named("a header before metadata", {"messages": HI, **BY_METADATA}, "<by header> hi", BY_HEADER),
    Named("the first tag", {"messages": tagged("a") + tagged("b")}, "<a> hi"),
    Named("an empty tag", {"messages": tagged("")}, "<> hi"),
    Named("any alphabet", {"messages": tagged("Чат 1 🌊 é.")}, "<Чат 1 🌊 é.> hi"),
    Named(
        "any alphabet, in a header",
        {"messages": HI},
        "<Чат 🌊> hi",
        {"X_Conversation_Id": "Чат 🌊"},
    ),
    Named("a number in metadata", {"messages": HI, "metadata": {"conversation_id": 7}}, "<> hi"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in NAMED])
def test_where_a_discussion_gets_its_id_from(tmp_path: Path, case: Named) -> None:
    with show_id(tmp_path).serve() as live:
        body = {"model": "assistant", **case.fields}
        received = live.ask("POST", "/v1/chat/completions", body, **case.headers)

    assert received.status == 200, received.body
    assert received.json["choices"][0]["message"]["content"] == case.said


UNSAFE = {
    "parent folders": "../../etc/passwd",
    "encoded": "..%2f..%2fx",
    "a drive": "C:\\x",
    "a folder": "a/b",
    "here": ".",
    "up": "..",
    "far too long": "x" * 5000,
    "a device": "con",
    "a device with a suffix": "NUL.txt",
    "only dots": "...",
}
SENT_IN = {
    "header": lambda live, id: live.ask(
        "POST",
        "/v1/chat/completions",
        {"model": "assistant", "messages": HI},
        X_Conversation_Id=id,
    ),
    "metadata": lambda live, id: live.chat(
        model="assistant", metadata={"conversation_id": id}, messages=HI
    ),
}


@pytest.mark.parametrize("source", [pytest.param(way, id=name) for name, way in SENT_IN.items()])
@pytest.mark.parametrize("unsafe", [pytest.param(id, id=name) for name, id in UNSAFE.items()])
def test_an_unsafe_id_is_refused(
    tmp_path: Path, source: Callable[[Headrace, str], Any], unsafe: str
) -> None:
    with show_id(tmp_path).serve() as live:
        received = source(live, unsafe)
        assert live.runs == []

    assert received.status == 400
    assert "conversation_id" in received.json["error"]["message"]
    assert str(tmp_path) not in received.body.decode()


@pytest.mark.parametrize("unsafe", [pytest.param(id, id=name) for name, id in UNSAFE.items()])
def test_a_tag_with_an_unsafe_id_is_no_id_and_later_tags_are_not_tried(
    tmp_path: Path, unsafe: str
) -> None:
    with show_id(tmp_path).serve() as live:
        said = live.says(stream=False, messages=tagged(unsafe) + tagged("later"))

    assert said == "<> hi"


def test_a_zero_byte_in_an_id_is_refused(tmp_path: Path) -> None:
    with show_id(tmp_path).serve() as live:
        received = live.chat(model="assistant", metadata={"conversation_id": "x\0y"})

    assert received.status == 400


def test_a_user_without_a_workflow_of_its_own_is_told_which_key_is_empty(tmp_path: Path) -> None:
    with Tree(tmp_path, customWorkflowOverride=True).serve() as live:
        refused = live.chat(model="tester")

    assert (refused.status, refused.json["error"]["code"]) == (400, "configuration_error")
    assert refused.json["error"]["message"] == (
        "Users/tester.json: customWorkflow: This is empty although `customWorkflowOverride` is on. "
        "Name the workflow that is to answer."
    )
