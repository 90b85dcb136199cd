"""Whose configuration it is."""

from dataclasses import dataclass

import pytest

from Middleware.core.errors import ConfigError
from tests.config.tree import Tree


@dataclass(frozen=True)
class Lookup:
    id: str
    files: tuple[str, ...]
    typed: str
    found: str


LOOKUPS = [
    Lookup("as typed", ("Anna.json", "anna.json"), "Anna", "Anna.json"),
    Lookup("in lower case", ("anna.json", "ANNA.json"), "Anna", "anna.json"),
    Lookup("in any case", ("ANNA.json",), "Anna", "ANNA.json"),
    Lookup("in any case, typed small", ("Anna.json",), "anna", "Anna.json"),
    Lookup("YAML", ("anna.yaml",), "Anna", "anna.yaml"),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in LOOKUPS])
def test_a_user_file_is_found_and_the_name_stays_as_typed(tree: Tree, case: Lookup) -> None:
    for file in case.files:
        tree.write(f"Users/{file}", f'{{"customWorkflow": "{file}"}}'.replace("{{", "{"))
    if case.id == "YAML":
        tree.write("Users/anna.yaml", "customWorkflow: anna.yaml")

    user = tree.store((case.typed,)).snapshot().user

    assert (user.name, user.custom_workflow) == (case.typed, case.found)
    assert user.workflow_folder == case.typed


def test_a_missing_user_is_told_with_the_path_and_the_nearest_name(tree: Tree) -> None:
    store = tree.store(("bop",))

    with pytest.raises(ConfigError) as caught:
        store.require_users()

    assert caught.value.message == "Users/bop.json: There is no such file. Did you mean 'bob'?"


@pytest.mark.parametrize("name", ["../bob", "a/b", "", "x" * 999, "a\0"])
def test_a_user_name_is_a_plain_name(tree: Tree, name: str) -> None:
    with pytest.raises(ConfigError):
        tree.store().snapshot(name or "..")


@pytest.mark.parametrize(
    ("typed", "users"),
    [
        (("bob", "bob"), ("bob",)),
        ((" bob ", "", "bob"), ("bob",)),
        (("bob", "Bob"), ("bob",)),
        (("Bob", "bob"), ("Bob",)),
        (("bob", "anna", "bob"), ("bob", "anna")),
        (("bob", "nobody", "anna"), ("bob", "nobody", "anna")),
    ],
)
def test_a_user_given_twice_is_one_user(
    tree: Tree, typed: tuple[str, ...], users: tuple[str, ...]
) -> None:
    tree.write("Users/anna.json", {})

    assert tree.store(typed).user_names == users


def test_two_files_that_differ_in_case_are_two_users(tree: Tree) -> None:
    tree.write("Users/Bob.json", {})

    assert tree.store(("bob", "Bob")).user_names == ("bob", "Bob")


def test_without_a_user_the_current_one_answers(tree: Tree) -> None:
    tree.write("Users/_current-user.json", {"currentUser": "Bob"})
    store = tree.store(())

    assert (store.user_names, store.default_user) == (("Bob",), "Bob")
    assert store.snapshot().user.name == "Bob"


def test_the_current_user_may_change_while_the_server_runs(tree: Tree) -> None:
    tree.write("Users/anna.json", {})
    tree.write("Users/_current-user.json", {"currentUser": "bob"})
    store = tree.store(())
    running = store.snapshot()

    tree.clock.advance(5)
    tree.write("Users/_current-user.json", {"currentUser": "anna"})
    tree.clock.advance(1)

    assert (running.user.name, store.snapshot().user.name) == ("bob", "anna")
    tree.write("Users/_current-user.json", "{")
    tree.clock.advance(1)
    assert store.snapshot().user.name == "anna"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            None,
            "Users/_current-user.json: There is no such file, and no user was given. "
            "Start the server with --User NAME, or name one in this file.",
        ),
        (
            {"currentUser": " "},
            "Users/_current-user.json: currentUser: No user is named. "
            "Start the server with --User NAME, or name one in this file.",
        ),
        (
            {"currentUser": 5},
            "Users/_current-user.json: currentUser: The value is no text. Write a name.",
        ),
        (
            "{",
            "Users/_current-user.json: line 1, column 2: The file ends too early. "
            "A closing bracket, brace or quote is missing.",
        ),
    ],
)
def test_without_any_user_the_error_says_what_to_do(
    tree: Tree, content: object, message: str
) -> None:
    if content is not None:
        tree.write("Users/_current-user.json", content)

    with pytest.raises(ConfigError) as caught:
        tree.store(()).snapshot()

    assert caught.value.message == message


def test_the_first_of_several_users_is_the_default(tree: Tree) -> None:
    tree.write("Users/anna.json", {})
    store = tree.store(("anna", "bob"))

    assert (store.snapshot().user.name, store.snapshot("bob").user.name) == ("anna", "bob")


def test_users_with_one_endpoint_folder_share_endpoints_and_differ_in_the_rest(tree: Tree) -> None:
    tree.write("Users/anna.json", {"presetConfigsSubDirectoryOverride": "a"})
    tree.write("Presets/Chat/a/P.json", {"from": "a"})
    tree.write("Presets/Chat/bob/P.json", {"from": "bob"})
    store = tree.store(("anna", "bob"))

    anna, bob = store.snapshot("anna"), store.snapshot("bob")

    assert anna.endpoint("Fast") is bob.endpoint("Fast")
    assert [
        config.preset(config.endpoint("Fast"), config.api_type("Chat"), "P").native
        for config in (anna, bob)
    ] == [{"from": "a"}, {"from": "bob"}]


def test_shared_workflows_are_the_folders_that_are_not_hidden(tree: Tree) -> None:
    for folder in ("write", "answer", "_secret", ".git"):
        (tree.workflows / "_shared" / folder).mkdir(parents=True)
    tree.write("Workflows/_shared/loose.json", [])
    store = tree.store()

    assert store.shared_workflows("bob") == ("answer", "write")
    assert store.snapshot().shared_workflow("_secret") == "_shared/_secret"
    assert store.snapshot().shared_workflow("Write") == "_shared/write"
    assert store.snapshot().shared_workflow("loose") is None


def test_there_may_be_no_shared_workflows(tree: Tree) -> None:
    assert tree.store().shared_workflows("bob") == ()


def test_making_a_store_reads_nothing(tree: Tree) -> None:
    tree.store(("nobody",))
