"""Whole configuration trees: one of ours with everything that trees of the reference have, and
those of the reference where the machine has them.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.options import ServerOptions
from Middleware.app import build_store, check_everything, create_app
from Middleware.workflows.managers.workflow_parser import parse_workflow
from tests.fakes.live_site import serving
from tests.fakes.upstream import Asked, Step, Upstream, chat
from tests.scenarios.modes import both_modes

LIBRARY = Path(__file__).parent.parent / "cases" / "trees" / "library"
REFERENCE = os.environ.get("HEADRACE_REFERENCE_TREES", "")

# Code, severity, file, place.
Known = tuple[str, str, str, str]

KNOWN_OF_LIBRARY: set[Known] = {
    ("name_case", "warning", "Endpoints/_examples/Wrong-Case.json", "apiTypeConfigFileName"),
    ("missing_reference", "warning", "Endpoints/_library/Novelist.json", "appendPresetName"),
    ("missing_reference", "warning", "Users/front-ends.json", "routingConfig"),
    ("foreign_path", "warning", "Users/librarian.json", "userWideWorkflowVariables.notesDir"),
    ("missing_key", "warning", "Users/reception.json", "chatCompleteAddUserAssistant"),
    (
        "missing_key",
        "warning",
        "Users/reception.json",
        "chatCompletionAddMissingAssistantGenerator",
    ),
    ("name_case", "warning", "Workflows/_reception/Welcome.json", "nodes[1].endpointName"),
    ("unknown_variable", "warning", "Workflows/_reception/Welcome.json", "nodes[0].filepath"),
    ("missing_preset", "error", "Workflows/_library/Tell-Story.json", "nodes[0].preset"),
}
KNOWN_OF_REFERENCE: set[Known] = {
    (
        "name_case",
        "warning",
        "Endpoints/_example-endpoints/chatgpt-4o-example.json",
        "apiTypeConfigFileName",
    ),
    (
        "missing_reference",
        "warning",
        "Endpoints/_example_wikipedia/Vision-Endpoint.json",
        "appendPresetName",
    ),
    (
        "foreign_path",
        "warning",
        "Users/_example_assistant_with_vector_memory.json",
        "userWideWorkflowVariables.personaDir",
    ),
    ("missing_reference", "warning", "Users/chat-ui-cot.json", "routingConfig"),
    ("missing_reference", "warning", "Users/chat-ui.json", "routingConfig"),
    *(
        (
            "missing_preset",
            "error",
            f"Workflows/_offline_wikipedia_researcher/{name}.json",
            "nodes[0].preset",
        )
        for name in ("Wiki_Multi_Pass_With_Image_Workflow", "Wiki_With_Image_Workflow")
    ),
}
UNFINISHED = {"later_node_type"}
"""Says what this version cannot do, and nothing about the tree."""


@dataclass(frozen=True)
class Whole:
    id: str
    root: str
    known: set[Known]


TREES = [
    pytest.param(Whole("library", str(LIBRARY), KNOWN_OF_LIBRARY), id="ours"),
    pytest.param(
        Whole("reference", REFERENCE, KNOWN_OF_REFERENCE),
        id="the reference's",
        marks=pytest.mark.skipif(not REFERENCE, reason="HEADRACE_REFERENCE_TREES is not set"),
    ),
]


@pytest.mark.parametrize("tree", TREES)
def test_check_finds_the_known_faults_and_no_others(
    tree: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LIBRARY_EXAMPLE_KEY", raising=False)
    store = build_store(ServerOptions(config_directory=Path(tree.root)))

    problems = [one for one in check_everything(store) if one.code not in UNFINISHED]

    assert {(one.code, one.severity, one.file, one.place) for one in problems} == tree.known
    assert len(problems) == len(tree.known)


@pytest.mark.parametrize("tree", TREES)
def test_every_workflow_loads_whether_a_user_can_reach_it_or_not(tree: Whole) -> None:
    root = Path(tree.root)
    store = build_store(ServerOptions(config_directory=root))
    paths = sorted((root / "Workflows").rglob("*.json"))

    broken = {}
    for path in paths:
        raw = json.loads(path.read_text(encoding="utf-8-sig"))
        file = store.cache.file(path, parse_workflow)
        file.refresh()
        if file.failure and (isinstance(raw, list) or "nodes" in raw):
            broken[path.name] = [str(problem) for problem in file.failure]

    assert broken == {}
    assert len(paths) >= 10


@pytest.mark.parametrize("tree", TREES)
def test_a_server_starts_for_every_user(tree: Whole) -> None:
    users = sorted(path.stem for path in (Path(tree.root) / "Users").glob("*.json"))
    names = tuple(name for name in users if name != "_current-user")

    app = create_app(ServerOptions(config_directory=Path(tree.root), users=names))
    try:
        assert app.users == names
    finally:
        app.close()


# One conversation with ours


def librarian(asked: Asked) -> list[Step]:
    """A model that knows what each node of the tree wants of it."""
    messages = asked.json["messages"]
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    last = messages[-1]["content"]
    reply = "Yes"
    if "Which category" in system:
        reply = "opening hours." if "open" in last else "BOOK"
    elif "Only titles" in system:
        reply = "Moby-Dick"
    elif "You work in" in system:
        reply = f"<think>Hm.</think>\n{last}"
    return chat(reply)(asked)


def ask(
    root: Path, text: str, *, user: str, stream: bool, model: str = ""
) -> tuple[str, list[Any]]:
    """The answer, and what the model server was asked."""
    shutil.copytree(LIBRARY, root / "Configs")
    with Upstream(librarian) as server:
        for path in (root / "Configs" / "Endpoints").rglob("*.json"):
            text_of_file = path.read_text(encoding="utf-8")
            path.write_text(text_of_file.replace("http://127.0.0.1:5001", server.url))
        app = create_app(ServerOptions(config_directory=root / "Configs", users=(user,)))
        try:
            with serving(app.site) as live:
                messages = [{"role": "user", "content": text}]
                received = live.chat(model=model, messages=messages, stream=stream)
        finally:
            app.close()
    assert received.status == 200, received.body
    said = received.text if stream else received.json["choices"][0]["message"]["content"]
    return said, [asked.json for asked in server.asked]


@both_modes
def test_a_question_goes_through_routing_folders_and_overrides(
    tmp_path: Path, stream: bool
) -> None:
    said, asked = ask(tmp_path, "Have you Moby-Dick?", user="librarian", stream=stream)

    sort, titles, novel, answer = asked
    assert said == "Novels: Moby-Dick"
    assert "\n- BOOK: Wants to find" in sort["messages"][0]["content"]
    assert "BOOK or OPENING HOURS or OTHER" in sort["messages"][0]["content"]
    assert sort["max_tokens"] == 20
    assert (sort["temperature"], sort["top_k"], sort["model"]) == (0.2, 40, "small")
    assert sort["chat_template_kwargs"] == {"enable_thinking": False}
    assert titles["messages"][0]["content"] == "Only titles. brisk, as the town library likes it"
    assert titles["messages"][1]["content"] == "In this text: User: Have you Moby-Dick?"
    assert (
        'Is Moby-Dick a novel? Answer yes or no, as JSON {"novel": true}.'
        in (novel["messages"][-1]["content"])
    )
    assert (novel["model"], novel["stop"], novel["temperature"]) == ("large", None, 0.1)
    assert answer["messages"] == [
        {"role": "system", "content": "Think first.\nYou work in the town library. {literal}"},
        {"role": "user", "content": "Novels: Moby-Dick"},
    ]
    assert answer["chat_template_kwargs"] == {"style": "dry"}
    assert answer["stream"] is stream


@both_modes
def test_a_category_of_two_words_leads_to_a_file_with_a_byte_order_mark(
    tmp_path: Path, stream: bool
) -> None:
    said, asked = ask(tmp_path, "When are you open?", user="librarian", stream=stream)

    assert said == "Offen von 9 bis 17 Uhr."
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("model", "calls"),
    [("quick", 1), ("front-ends:careful", 2), ("anything:careful:latest", 2)],
)
def test_front_ends_choose_a_shared_workflow(tmp_path: Path, model: str, calls: int) -> None:
    said, asked = ask(tmp_path, "hi", user="front-ends", stream=False, model=model)

    assert said == "Yes"
    assert len(asked) == calls
