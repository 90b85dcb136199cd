"""Edits while the server runs: what a request sees, and what is told about it."""

import logging
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.config.store import ConfigStore
from Middleware.config.watched_file import Source
from Middleware.core.errors import ConfigError
from tests.config.tree import ENDPOINT, USER, Tree

HALF_A_SECOND = 0.5


def model(store: ConfigStore) -> str:
    return store.snapshot().endpoint("Fast").model_name_to_send_to_api


def endpoint(model: str) -> dict[str, Any]:
    return {**ENDPOINT, "modelNameToSendToAPI": model}


def test_an_edit_is_seen_within_a_second(tree: Tree) -> None:
    tree.write("Endpoints/Fast.json", endpoint("old"))
    tree.clock.advance(10)
    store = tree.store()
    seen = [model(store)]

    tree.clock.advance(0.1)
    tree.write("Endpoints/Fast.json", endpoint("new"))
    for _ in range(9):
        tree.clock.advance(0.1)
        seen.append(model(store))

    assert seen[0] == "old"
    assert seen[-1] == "new"


def test_an_unchanged_tree_is_looked_at_twice_a_second_at_most_and_never_opened(
    tree: Tree,
) -> None:
    tree.write("Endpoints/Fast.json", endpoint("old"))
    tree.clock.advance(10)
    store = tree.store()
    touched: list[str] = []

    def listen(event: str, arguments: tuple[Any, ...]) -> None:
        if listening and event in ("open", "os.scandir", "os.listdir"):
            touched.append(str(arguments[0]))

    listening = False
    sys.addaudithook(listen)
    model(store)
    listening = True
    for _ in range(50):
        model(store)
        tree.clock.advance(0.3)
    listening = False
    assert touched == []

    # Nobody looks before half a second is over, so that an edit cannot be seen.
    model(store)
    tree.write("Endpoints/Fast.json", endpoint("new"))
    assert model(store) == "old"


def test_a_request_keeps_what_it_has_seen(tree: Tree) -> None:
    tree.write("Endpoints/Fast.json", endpoint("old"))
    tree.clock.advance(10)
    store = tree.store()
    running = store.snapshot()
    first = running.endpoint("Fast")

    tree.clock.advance(0.1)
    tree.write("Endpoints/Fast.json", endpoint("new"))
    tree.clock.advance(1)

    assert model(store) == "new"
    assert running.endpoint("Fast") is first


def test_a_request_keeps_the_version_of_its_beginning_of_a_file_it_looks_at_later(
    tree: Tree,
) -> None:
    tree.write("Endpoints/Fast.json", endpoint("first"))
    tree.clock.advance(10)
    store = tree.store()
    seen = [model(store)]
    running = []
    for edit in ("second", "third"):
        tree.clock.advance(1)
        running.append(store.snapshot())
        tree.clock.advance(1)
        tree.write("Endpoints/Fast.json", endpoint(edit))
    tree.clock.advance(1)
    running.append(store.snapshot())

    seen += [config.endpoint("Fast").model_name_to_send_to_api for config in reversed(running)]

    assert seen == ["first", "third", "second", "first"]


def test_an_edit_before_the_request_is_seen_even_if_nobody_looked_for_an_hour(tree: Tree) -> None:
    tree.write("Endpoints/Fast.json", endpoint("old"))
    tree.clock.advance(10)
    store = tree.store()
    model(store)

    tree.clock.advance(1800)
    tree.write("Endpoints/Fast.json", endpoint("new"))
    tree.clock.advance(1800)

    assert model(store) == "new"


@pytest.fixture
def two_users(tree: Tree) -> ConfigStore:
    """``anna`` has looked at the endpoint, ``bob`` has not."""
    tree.write("Users/anna.json", USER)
    tree.write("Endpoints/Fast.json", endpoint("old"))
    tree.clock.advance(10)
    store = tree.store(("anna", "bob"))
    store.snapshot("anna").endpoint("Fast")
    tree.clock.advance(1)
    return store


def test_an_edit_before_the_request_is_seen_though_the_request_looks_only_later(
    tree: Tree, two_users: ConfigStore
) -> None:
    tree.write("Endpoints/Fast.json", endpoint("new"))
    tree.clock.advance(1)

    running = two_users.snapshot("bob")
    tree.clock.advance(0.3)

    assert running.endpoint("Fast").model_name_to_send_to_api == "new"


def test_what_an_earlier_request_saw_late_is_not_handed_to_the_next(
    tree: Tree, two_users: ConfigStore
) -> None:
    running = two_users.snapshot("bob")
    tree.clock.advance(0.1)
    tree.write("Endpoints/Fast.json", endpoint("new"))
    tree.clock.advance(0.1)
    seen = [running.endpoint("Fast").model_name_to_send_to_api]

    tree.clock.advance(0.6)
    seen.append(two_users.snapshot("bob").endpoint("Fast").model_name_to_send_to_api)

    assert seen == ["old", "new"]


def test_after_many_edits_a_long_request_gets_the_oldest_version_that_is_kept(
    tree: Tree, two_users: ConfigStore
) -> None:
    running = two_users.snapshot("bob")
    for number in range(20):
        tree.clock.advance(1)
        tree.write("Endpoints/Fast.json", endpoint(f"edit {number}"))
        tree.clock.advance(1)
        two_users.snapshot("anna").endpoint("Fast")

    assert running.endpoint("Fast").model_name_to_send_to_api == "edit 12"


def test_a_file_of_an_old_date_put_in_place_is_seen(tree: Tree) -> None:
    store = tree.store()
    model(store)
    tree.clock.advance(5)
    old = tree.clock.seconds - 1000
    path = tree.write("Endpoints/Fast.json", endpoint("restored"))

    os.utime(path, (old, old))
    tree.clock.advance(1)

    assert model(store) == "restored"


def test_a_half_written_yaml_file_is_not_kept(tree: Tree) -> None:
    text = "apiTypeConfigFileName: Chat\nmodelNameToSendToAPI: whole\n"
    tree.write("Endpoints/Half.yaml", text[:28])
    store = tree.store()
    assert store.snapshot().endpoint("Half").model_name_to_send_to_api == ""

    tree.write("Endpoints/Half.yaml", text)
    tree.clock.advance(0.6)

    assert store.snapshot().endpoint("Half").model_name_to_send_to_api == "whole"


def test_a_new_file_is_found_within_a_second(tree: Tree) -> None:
    store = tree.store()
    with pytest.raises(ConfigError):
        store.snapshot().endpoint("New")

    tree.clock.advance(0.1)
    tree.write("Endpoints/New.json", endpoint("m"))
    tree.clock.advance(0.9)

    assert store.snapshot().endpoint("New").name == "New"


def test_the_user_file_is_live_too(tree: Tree) -> None:
    store = tree.store()
    running = store.snapshot()

    tree.clock.advance(1)
    tree.write("Users/bob.json", {"maxSteps": 7, "endpointConfigsSubDirectory": "x"})
    tree.write("Endpoints/x/Fast.json", endpoint("x"))
    tree.clock.advance(1)

    assert (running.user.max_steps, store.snapshot().user.max_steps) == (200, 7)
    assert model(store) == "x"


@dataclass(frozen=True)
class Edit:
    id: str
    content: bytes | None
    """None: the file is deleted."""
    code: str
    message: str


WRONG_KEY = "The value is an object {…} that is not shown here."
FOLDER = b"a folder"
EDITS = [
    Edit("syntax", b'{"a": ', "bad_syntax", "The file ends too early."),
    Edit("nothing in it", b"", "bad_syntax", "The file is empty."),
    Edit("wrong type", b'{"apiKey": {}}', "invalid_value", WRONG_KEY),
    Edit("needed key gone", b"{}", "missing_key", "This key is missing."),
    Edit("encoding", b'{"a": "\xe9"}', "bad_encoding", "This line is not UTF-8."),
    Edit("deleted", None, "missing_file", "The file is gone."),
    Edit("a folder in its place", FOLDER, "unreadable_file", "This is no ordinary file."),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in EDITS])
def test_a_broken_edit_keeps_the_last_good_version_until_it_is_mended(
    tree: Tree, case: Edit, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "Middleware.config")
    tree.write("Endpoints/Fast.json", endpoint("good"))
    tree.clock.advance(10)
    store = tree.store()
    assert (model(store), store.problems()) == ("good", ())

    path = tree.path("Endpoints/Fast.json")
    if case.content in (None, FOLDER):
        path.unlink()
    if case.content == FOLDER:
        path.mkdir()
    elif case.content is not None:
        tree.write("Endpoints/Fast.json", case.content)
    told = []
    for _ in range(5):
        tree.clock.advance(1)
        assert model(store) == "good"
        told.append([(p.code, p.file, p.message, p.using_last_good) for p in store.problems()])

    assert told == [[(case.code, "Endpoints/Fast.json", case.message, True)]] * 5
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "Endpoints/Fast.json" in errors[0].getMessage()

    if path.is_dir():
        path.rmdir()
    tree.write("Endpoints/Fast.json", endpoint("mended"))
    tree.clock.advance(1)
    assert (model(store), store.problems()) == ("mended", ())


def test_an_edit_that_is_taken_back_is_no_problem_any_more(tree: Tree) -> None:
    store = tree.store()
    before = store.snapshot().endpoint("Fast")
    tree.write("Endpoints/Fast.json", "{")
    tree.clock.advance(1)
    store.snapshot().endpoint("Fast")
    assert store.problems()

    tree.clock.advance(5)
    tree.write("Endpoints/Fast.json", ENDPOINT)
    tree.clock.advance(1)

    assert store.snapshot().endpoint("Fast") is before
    assert store.problems() == ()


def test_what_never_was_good_is_forgotten_when_nobody_asks_for_it(tree: Tree) -> None:
    tree.write("Endpoints/Fast.json", "{")
    tree.clock.advance(10)
    store = tree.store()
    for _ in range(2):
        with pytest.raises(ConfigError):
            model(store)
        tree.clock.advance(3500)
        assert [one.code for one in store.problems()] == ["bad_syntax"]

    tree.clock.advance(200)
    assert store.problems() == ()


def test_a_broken_user_file_keeps_its_keys(tree: Tree) -> None:
    tree.write("Users/bob.json", {"apiKeys": ["k"]})
    store = tree.store()
    store.snapshot()

    tree.clock.advance(5)
    tree.write("Users/bob.json", '{"apiKeys": [')
    tree.clock.advance(1)

    assert [key.key for key in store.snapshot().user.api_keys] == ["k"]
    assert [p.using_last_good for p in store.problems()] == [True]


def test_a_second_file_of_the_name_keeps_the_one_in_use(tree: Tree) -> None:
    tree.write("Endpoints/Fast.json", endpoint("good"))
    store = tree.store()
    model(store)

    tree.clock.advance(1)
    tree.write("Endpoints/Fast.yaml", "apiTypeConfigFileName: Chat")
    tree.clock.advance(1)

    assert model(store) == "good"
    assert [(p.code, p.using_last_good) for p in store.problems()] == [
        ("two_files_of_one_name", True)
    ]
    tree.path("Endpoints/Fast.json").unlink()
    tree.clock.advance(3)
    assert (model(store), store.problems()) == ("", ())


def test_json_may_become_yaml_while_the_server_runs(tree: Tree) -> None:
    tree.write("Endpoints/Fast.json", endpoint("json"))
    store = tree.store()
    running = store.snapshot()
    model(store)

    tree.clock.advance(1)
    tree.path("Endpoints/Fast.json").unlink()
    tree.write("Endpoints/Fast.yaml", "apiTypeConfigFileName: Chat\nmodelNameToSendToAPI: yaml")
    tree.clock.advance(1)

    assert (model(store), store.problems()) == ("yaml", ())
    assert running.endpoint("Fast").model_name_to_send_to_api == "json"


def test_a_deleted_file_with_another_in_its_stead_is_no_problem(tree: Tree) -> None:
    tree.write("Presets/Chat/bob/P.json", {"from": "bob"})
    tree.write("Presets/Chat/P.json", {"from": "all"})
    store = tree.store()

    def preset() -> object:
        config = store.snapshot()
        return config.preset(config.endpoint("Fast"), config.api_type("Chat"), "P").native

    assert preset() == {"from": "bob"}
    tree.clock.advance(5)
    tree.path("Presets/Chat/bob/P.json").unlink()
    tree.clock.advance(3)

    assert (preset(), store.problems()) == ({"from": "all"}, ())


def test_a_deleted_file_that_nobody_asks_for_is_forgotten(tree: Tree) -> None:
    store = tree.store()
    model(store)
    tree.path("Endpoints/Fast.json").unlink()
    tree.clock.advance(1)
    assert [p.code for p in store.problems()] == ["missing_file"]

    tree.clock.advance(4000)

    assert store.problems() == ()


def test_a_file_that_never_was_good_is_an_error_until_it_is_mended(tree: Tree) -> None:
    tree.write("Endpoints/Bad.json", "{")
    tree.clock.advance(5)
    store = tree.store()
    for _ in range(2):
        with pytest.raises(ConfigError, match="ends too early"):
            store.snapshot().endpoint("Bad")
    assert [(p.file, p.using_last_good) for p in store.problems()] == [
        ("Endpoints/Bad.json", False)
    ]

    tree.write("Endpoints/Bad.json", endpoint("m"))
    tree.clock.advance(1)

    assert store.snapshot().endpoint("Bad").model_name_to_send_to_api == "m"
    assert store.problems() == ()


def test_warnings_of_files_in_use_are_told_and_those_of_a_live_edit_logged(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    tree.write("Endpoints/Fast.json", {**ENDPOINT, "promptTemplte": "x"})
    store = tree.store()
    model(store)
    assert [(p.code, p.place) for p in store.problems()] == [("unknown_key", "promptTemplte")]
    assert caplog.records == []

    tree.clock.advance(5)
    tree.write("Endpoints/Fast.json", {**ENDPOINT, "apiKy": "hush"})
    tree.clock.advance(1)
    model(store)

    assert [record.getMessage() for record in caplog.records] == [
        "Endpoints/Fast.json: apiKy: Nothing reads this key. Did you mean `apiKey`?"
    ]


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_told_and_not_waited_for(tree: Tree, kind: str) -> None:
    path = tree.path("Endpoints/Odd.json")
    os.mkfifo(path) if kind == "pipe" else path.mkdir()

    with pytest.raises(ConfigError, match="no such file" if kind == "folder" else "no ordinary"):
        tree.store().snapshot().endpoint("Odd")


def test_a_broken_version_is_parsed_once(tree: Tree) -> None:
    tree.write("Workflows/bob/Main.json", "1")
    tree.clock.advance(0.2)
    store = tree.store()
    PARSED.clear()
    path = store.snapshot().workflow_file("Main")

    for _ in range(5):
        with pytest.raises(ConfigError, match="no good"):
            store.snapshot().load(path, refuse)
        tree.clock.advance(0.6)

    assert PARSED == [1]


PARSED: list[Any] = []


def refuse(raw: Any, source: Source) -> Any:
    PARSED.append(raw)
    raise ConfigError("It is no good.", where="nodes", remedy="Mend it.")


def test_a_parse_function_may_refuse_with_a_plain_config_error(tree: Tree) -> None:
    store = tree.store()
    path = store.snapshot().workflow_file("_DefaultWorkflow")

    with pytest.raises(ConfigError) as caught:
        store.snapshot().load(path, refuse)

    assert caught.value.message == (
        "Workflows/bob/_DefaultWorkflow.json: nodes: It is no good. Mend it."
    )


def stumble(raw: Any, source: Source) -> Any:
    return raw["nodes"]


def test_a_parse_function_that_stumbles_over_an_edit_stops_nobody(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    path = tree.write("Workflows/bob/Main.json", {"nodes": [1]})
    tree.clock.advance(5)
    store = tree.store()
    store.snapshot().load(path, stumble)

    tree.write("Workflows/bob/Main.json", [1])
    tree.clock.advance(1)

    assert store.snapshot().load(path, stumble) == [1]
    assert [(p.message, p.using_last_good) for p in store.problems()] == [
        ("The file is not understood (TypeError).", True)
    ]
    assert "Traceback" in caplog.text


def test_a_file_that_comes_back_broken_is_told(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    store = tree.store()
    for content in (None, "{"):
        model(store)
        tree.clock.advance(5)
        if content is None:
            tree.path("Endpoints/Fast.json").unlink()
        else:
            tree.write("Endpoints/Fast.json", content)
        tree.clock.advance(1)
    model(store)

    assert [p.code for p in store.problems()] == ["bad_syntax"]
    assert [record.getMessage().split(". ")[0] for record in caplog.records] == [
        "Endpoints/Fast.json: The file is gone",
        "Endpoints/Fast.json: line 1, column 2: The file ends too early",
    ]


GATE = threading.Event()
ENTERED = threading.Event()


def slow(raw: Any, source: Source) -> Any:
    if raw != "old":
        ENTERED.set()
        assert GATE.wait(10)
    return raw


def test_while_one_thread_reads_an_edit_the_others_go_on(tree: Tree) -> None:
    GATE.clear()
    ENTERED.clear()
    path = tree.write("Workflows/bob/Main.json", '"old"')
    tree.write("Users/anna.json", USER)
    tree.clock.advance(5)
    store = tree.store(("bob", "anna"))
    assert store.snapshot().load(path, slow) == "old"
    tree.write("Workflows/bob/Main.json", '"new"')
    tree.clock.advance(1)
    reader = threading.Thread(target=lambda: store.snapshot().load(path, slow))
    reader.start()
    assert ENTERED.wait(10)

    meanwhile = store.snapshot().load(path, slow), store.snapshot("anna").load(path, slow)
    GATE.set()
    reader.join(10)

    tree.clock.advance(1)
    assert (meanwhile, store.snapshot().load(path, slow)) == (("old", "old"), "new")


def count(raw: Any, source: Source) -> Any:
    PARSED.append(raw)
    return [raw]


def test_threads_that_come_together_share_one_value(tree: Tree) -> None:
    PARSED.clear()
    store = tree.store()
    path = store.snapshot().workflow_file("_DefaultWorkflow")
    got: list[Any] = []
    together = threading.Barrier(16)

    def ask() -> None:
        together.wait(10)
        got.append(store.snapshot().load(path, count))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert len(PARSED) == 1
    assert len(got) == 16
    assert all(value is got[0] for value in got)


def test_threads_that_build_at_once_share_what_the_first_has_built(tree: Tree) -> None:
    config = tree.store().snapshot()
    got: list[object] = []
    together = threading.Barrier(8)

    def build() -> object:
        together.wait(10)
        return object()

    threads = [
        threading.Thread(target=lambda: got.append(config.once("key", build))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert len(set(map(id, got))) == 1
    assert len(got) == 8


def test_edits_under_load_never_show_a_broken_or_mixed_file(tmp_path: Path) -> None:
    """Real time: a writer that truncates and writes, readers without pause."""
    tree = Tree(tmp_path)
    tree.write("Users/bob.json", USER)
    tree.write("Endpoints/Fast.json", endpoint("m0"))
    store = ConfigStore(tree.store().locations, ("bob",))
    model(store)
    done = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not done.is_set():
            config = store.snapshot()
            names = {config.endpoint("Fast").model_name_to_send_to_api for _ in range(3)}
            if len(names) != 1 or not names.pop().startswith("m"):
                wrong.append(names)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    path = tree.path("Endpoints/Fast.json")
    for number in range(1, 25):
        with path.open("w") as handle:
            for piece in (
                '{"apiTypeConfigFileName": "Chat", ',
                f'"modelNameToSendToAPI": "m{number}"}}',
            ):
                handle.write(piece)
                handle.flush()
    done.set()
    for reader in readers:
        reader.join(10)

    assert wrong == []
