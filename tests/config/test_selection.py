"""The model field: who answers, with what, under which name."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from Middleware.config.selection import Selection, model_names, select
from Middleware.core.errors import ConfigError, MalformedRequest, UnknownModel
from Middleware.core.messages import Caller
from tests.config.tree import Tree

OURS = {"dialect": "headrace"}
ALIASES = {"modelAliases": {"claude-*": "general", "gpt-4o": "bob:task", "own": "bob", "*": "_x"}}


def routing(user: str) -> Selection:
    return Selection(user, None, user)


def shared(user: str, workflow: str, folder: str = "_shared") -> Selection:
    return Selection(user, workflow, f"{user}:{workflow}", f"{folder}/{workflow}")


@dataclass(frozen=True)
class Chosen:
    id: str
    model: str
    selection: Selection
    users: Mapping[str, Any] = field(default_factory=lambda: {"bob": {}})
    warned: bool = False


TWO: dict[str, Any] = {"bob": {}, "anna": {}}
OUR_TWO = {"bob": OURS, "anna": OURS}
CHOSEN = [
    Chosen("no model", "", routing("bob")),
    Chosen("no model, ours", "", routing("bob"), {"bob": OURS}),
    Chosen("blank", "  ", routing("bob")),
    Chosen("a workflow", "general", shared("bob", "general")),
    Chosen("a workflow with its user", "bob:general", shared("bob", "general")),
    Chosen("the part before the colon is not compared", "x:general", shared("bob", "general")),
    Chosen("latest is cut once", "bob:general:latest", shared("bob", "general")),
    Chosen("only once", "general:latest:latest", routing("bob"), warned=True),
    Chosen("a hidden workflow", "_hidden", shared("bob", "_hidden")),
    Chosen("another case", "General", shared("bob", "general")),
    Chosen("a workflow without entry file", "empty", shared("bob", "empty")),
    Chosen("the user", "bob", routing("bob")),
    Chosen("the user, ours", "bob", routing("bob"), {"bob": OURS}),
    Chosen("unknown", "gpt-5", routing("bob"), warned=True),
    Chosen("unknown workflow of the user", "bob:gpt", routing("bob"), warned=True),
    Chosen("no plain name", "../general", routing("bob"), warned=True),
    Chosen("a file is no workflow", "loose", routing("bob"), warned=True),
    Chosen(
        "the user's own shared folder",
        "solo",
        shared("bob", "solo", "_team"),
        {"bob": {"sharedWorkflowsSubDirectoryOverride": "_team"}},
    ),
    Chosen(
        "a workflow named like the user", "general", shared("general", "general"), {"general": {}}
    ),
    Chosen(
        "wildcard alias", "claude-sonnet-4", shared("bob", "general"), {"bob": {**OURS, **ALIASES}}
    ),
    Chosen(
        "exact alias before wildcards",
        "gpt-4o",
        shared("bob", "task"),
        {"bob": {**OURS, **ALIASES}},
    ),
    Chosen("alias of the user", "own", routing("bob"), {"bob": {**OURS, **ALIASES}}),
    Chosen(
        "alias with user part",
        "bob:claude-x",
        shared("bob", "general"),
        {"bob": {**OURS, **ALIASES}},
    ),
    Chosen(
        "a real name before aliases", "task", shared("bob", "task"), {"bob": {**OURS, **ALIASES}}
    ),
    Chosen(
        "alias in the reference's dialect", "claude-x", shared("bob", "general"), {"bob": ALIASES}
    ),
    Chosen("several users: a user", "anna", routing("anna"), TWO),
    Chosen("several users: latest", "anna:latest", routing("anna"), TWO),
    Chosen("several users: a workflow", "anna:general", shared("anna", "general"), TWO),
    Chosen("several users: unknown workflow", "anna:gpt", routing("anna"), TWO, warned=True),
    Chosen("several users of ours: no model", "", routing("bob"), OUR_TWO),
    Chosen(
        "several users: alias of the second",
        "claude-3",
        shared("anna", "task"),
        {"bob": OURS, "anna": {**OURS, "modelAliases": {"claude-*": "task"}}},
    ),
]


def build(tree: Tree, users: Mapping[str, Any]) -> Tree:
    for name, content in users.items():
        tree.write(f"Users/{name}.json", content)
    for folder in ("_shared/general", "_shared/task", "_shared/_hidden", "_team/solo"):
        tree.write(f"Workflows/{folder}/_DefaultWorkflow.json", [])
    (tree.workflows / "_shared" / "empty").mkdir()
    tree.write("Workflows/_shared/loose.json", [])
    return tree


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CHOSEN])
def test_what_a_model_name_selects(
    tree: Tree, case: Chosen, caplog: pytest.LogCaptureFixture
) -> None:
    store = build(tree, case.users).store(tuple(case.users))

    chosen = [select(store, case.model) for _ in range(2)]

    assert chosen == [case.selection] * 2
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == case.warned


@dataclass(frozen=True)
class Unknown:
    id: str
    model: str
    users: Mapping[str, Any]
    near: str


UNKNOWN = [
    Unknown("one user of ours", "generl", {"bob": OURS}, "Did you mean 'bob:general'?"),
    Unknown("with the user", "bob:generl", {"bob": OURS}, "Did you mean 'bob:general'?"),
    Unknown("nothing near", "gpt-5-turbo-preview", {"bob": OURS}, "GET /v1/models lists all."),
    Unknown("several users", "ann", TWO, "Did you mean 'anna'?"),
    Unknown("several users: case counts", "Anna", TWO, "Did you mean 'anna'?"),
    Unknown("several users: unknown workflow of ours", "anna:generl", OUR_TWO, "'bob:general'"),
    Unknown("a path", "../../etc/passwd", {"bob": OURS}, "GET /v1/models lists all."),
    Unknown("a very long name", "x" * 5000, {"bob": OURS}, "GET /v1/models lists all."),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in UNKNOWN])
def test_an_unknown_model_is_told_with_near_names(tree: Tree, case: Unknown) -> None:
    users = {name: {**user, "allowSharedWorkflows": True} for name, user in case.users.items()}
    if case.users is TWO:
        users = dict(case.users)
    store = build(tree, users).store(tuple(users))

    with pytest.raises(UnknownModel) as caught:
        select(store, case.model)

    assert case.near in caught.value.message
    assert len(caught.value.message) < 300
    assert (caught.value.status, caught.value.param) == (404, "model")


def test_several_users_of_the_reference_and_no_model_is_malformed(tree: Tree) -> None:
    store = build(tree, TWO).store(("bob", "anna"))

    with pytest.raises(MalformedRequest) as caught:
        select(store, "")

    assert caught.value.message == "`model` must name one of the users bob, anna."


def test_an_alias_of_nothing_names_file_and_remedy(tree: Tree) -> None:
    store = build(tree, {"bob": {"modelAliases": {"gpt-*": "typo"}}}).store()

    with pytest.raises(ConfigError) as caught:
        select(store, "gpt-4")

    assert caught.value.message == (
        "Users/bob.json: modelAliases: It stands for 'typo', which is no shared workflow. "
        "Name a folder of Workflows/_shared."
    )


@dataclass(frozen=True)
class Listed:
    id: str
    users: Mapping[str, Any]
    names: tuple[str, ...]


SHOWN = {"allowSharedWorkflows": True}
NOWHERE = {**SHOWN, "sharedWorkflowsSubDirectoryOverride": "no"}
TEAM = {**SHOWN, "sharedWorkflowsSubDirectoryOverride": "_team"}
LISTED = [
    Listed("workflows not shown", {"bob": {}}, ("bob",)),
    Listed("workflows shown", {"bob": SHOWN}, ("bob:empty", "bob:general", "bob:task")),
    Listed("none to show", {"bob": NOWHERE}, ("bob",)),
    Listed("several users", {"bob": {}, "anna": TEAM}, ("bob", "anna:solo")),
    Listed("a user whose file is broken", {"bob": "{", "anna": {}}, ("bob", "anna")),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in LISTED])
def test_which_models_are_listed(tree: Tree, case: Listed) -> None:
    store = build(tree, case.users).store(tuple(case.users))

    assert model_names(store) == case.names


def test_a_new_workflow_is_listed_and_callable_within_a_second(tree: Tree) -> None:
    store = build(tree, {"bob": {**OURS, **SHOWN}}).store()
    with pytest.raises(UnknownModel):
        select(store, "fresh")

    tree.clock.advance(1)
    tree.write("Workflows/_shared/fresh/_DefaultWorkflow.json", [])
    tree.clock.advance(1)

    assert select(store, "fresh") == shared("bob", "fresh")
    assert "bob:fresh" in model_names(store)


@pytest.mark.parametrize(("user", "near"), [("anna", "anna:general"), ("", "bob:general")])
def test_near_names_are_those_that_the_key_may_use(tree: Tree, user: str, near: str) -> None:
    users = {name: {**OURS, "allowSharedWorkflows": True} for name in ("bob", "anna")}
    store = build(tree, users).store(tuple(users))

    with pytest.raises(UnknownModel) as caught:
        select(store, "general", Caller(user=user, key_name="phone"))

    assert f"Did you mean '{near}'" in caught.value.message
    assert ("bob" in caught.value.message) is (user == "")


def test_an_alias_that_several_users_have_is_that_of_the_key(tree: Tree) -> None:
    users = {name: {**OURS, "modelAliases": {"gpt-*": "general"}} for name in ("bob", "anna")}
    store = build(tree, users).store(tuple(users))

    chosen = select(store, "gpt-5", Caller(user="anna", key_name="phone"))

    assert chosen == shared("anna", "general")
