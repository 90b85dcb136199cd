"""`test-workflow`: what passes, what fails and how that is told. Shipped workflows pass theirs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from Middleware.app import INSTALL
from Middleware.cli.workflow_tests import main
from Middleware.core.errors import ConfigError
from Middleware.workflows.testing.files import read_tests
from tests.fakes.headrace import Tree, answers, calls, static
from tests.fakes.upstream import Upstream, chat

SHIPPED = sorted((INSTALL / "Workflows" / "_tests").iterdir())
Printed = pytest.CaptureFixture[str]


@pytest.mark.parametrize("file", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_the_tests_of_a_shipped_workflow_pass(file: Path, capsys: Printed) -> None:
    assert main([str(file)]) == 0, capsys.readouterr().out


def test_every_shipped_workflow_has_tests() -> None:
    workflows = {path.name for path in (INSTALL / "Workflows" / "_shared").iterdir()}

    assert workflows <= {path.stem for path in SHIPPED}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A plan, a child that writes, and an answer put together of both."""
    tree = Tree(tmp_path)
    # Nobody listens there: a model that were really asked would make the run fail.
    tree.model("Main", "http://127.0.0.1:9", apiKey="${A_KEY_THAT_NOBODY_HAS}")
    tree.own("Child", [answers("Main", title="Write", prompt="Write {agent1Input}")])
    return tree.workflow(
        "assistant",
        [
            answers("Main", title="Plan", prompt="Plan {chat_user_prompt_last_one}"),
            calls("Child", title="Work", scoped_variables=["{agent1Output}"]),
            static("{agent1Output}: {agent2Output}", id="node_end"),
        ],
    )


def run(tree: Tree, *tests: dict[str, Any], options: tuple[str, ...] = ()) -> int:
    file = tree.public / "tests.yaml"
    file.write_text(yaml.safe_dump({"workflow": "assistant", "tests": list(tests)}))
    return main([str(file), "--PublicDirectory", str(tree.public), *options])


GOOD = {"name": "works", "message": "a house", "replies": {"Plan": "walls", "Write": "done"}}


@dataclass(frozen=True)
class Case:
    id: str
    expect: dict[str, Any]
    told: str = ""
    """Part of what is printed; empty: the test passes."""
    replies: dict[str, Any] | None = None


CASES = [
    Case("equals", {"equals": "walls: done\n"}),
    Case("not equal", {"equals": "walls: undone"}, "- walls: undone"),
    Case("contains", {"contains": ["walls", "done"]}),
    Case("contains not", {"contains": "roof"}, "the answer does not have 'roof'"),
    Case("lacks not", {"lacks": "walls"}, "the answer has 'walls'"),
    Case("matches", {"matches": r"^w\w+: done$"}),
    Case("matches not", {"matches": "^x"}, "does not match '^x'"),
    Case("path by title and id", {"path": ["Plan", "node_2", "node_end"]}),
    Case(
        "path with sub-workflows",
        {"path": ["assistant/Plan", "assistant/Work", "Child/Write", "assistant/node_end"]},
    ),
    Case("another path", {"path": ["Plan", "node_end"]}, "+ node_2"),
    Case(
        "prompts", {"prompts": {"Plan": "Plan a house", "Child/Write": {"equals": "Write walls"}}}
    ),
    Case("another prompt", {"prompts": {"Write": {"equals": "Write roofs"}}}, "- Write roofs"),
    Case("never called", {"prompts": {"Wrte": "x"}}, "node 'Wrte' called its model never"),
    Case("called less often", {"prompts": {"Plan": ["Plan", "Plan"]}}, "called its model 1 times"),
    Case("no error", {"error": "x"}, "an error is expected"),
    Case("not JSON", {"json": {"path": "a", "equals": 1}}, "the answer is no JSON"),
    Case("variables", {"variables": {"question": "a house"}}),
    Case("other variables", {"variables": {"question": "b"}}, "global variable 'question'"),
    Case("no tools", {"toolCalls": ["x"]}, "the answer calls other tools"),
    Case("nothing for a node", {}, "node 'Child/Write' calls its model", {"Plan": "x"}),
    Case("one for all others", {"equals": "x: y"}, "", {"Plan": "x", "*": "y"}),
    Case("{input} is what was sent", {"contains": "[Plan a house]"}, "", {"*": "[{input}]"}),
    Case(
        "an error that is expected",
        {"error": "'Write': Endpoint 'Main' answered 503: full"},
        "",
        {"Plan": "x", "Write": {"fail": {"status": 503, "message": "full"}}},
    ),
    Case("one that is not", {}, "the run failed: Workflow", {"*": {"fail": {"status": 500}}}),
    Case("another one", {"error": "full"}, "does not have 'full'", {"*": {"fail": {}}}),
]


@pytest.mark.parametrize("case", [pytest.param(one, id=one.id) for one in CASES])
def test_expectations_are_compared_with_what_happened(
    case: Case, tree: Tree, capsys: Printed
) -> None:
    test = {**GOOD, "replies": case.replies or GOOD["replies"], "expect": case.expect}

    code = run(tree, test)

    printed = capsys.readouterr().out
    assert code == int(bool(case.told)), printed
    assert case.told in printed


JSON_CASES = [
    Case("a value at a path", {"json": {"path": "claim.items[1]", "equals": "b"}}),
    Case("several", {"json": [{"path": "claim.id", "equals": 7}, {"path": "x", "equals": None}]}),
    Case("another value", {"json": {"path": "claim.id", "equals": 8}}, "- 8"),
    Case("nothing there", {"json": {"path": "claim.items[2]", "equals": 1}}, "there is no"),
    Case("fits a schema", {"json": {"schema": {"required": ["claim"]}}}),
    Case(
        "fits none",
        {"json": {"path": "claim", "schema": {"properties": {"id": {"type": "string"}}}}},
        "id: 7 is not of type 'string'",
    ),
    Case(
        "leads elsewhere",
        {"json": {"schema": {"$ref": "http://127.0.0.1:1/x"}}},
        "it is none: it refers to http://127.0.0.1:1/x, which is not in it",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(one, id=one.id) for one in JSON_CASES])
def test_an_answer_in_json_is_looked_into(case: Case, tree: Tree, capsys: Printed) -> None:
    tree.workflow("assistant", [answers("Main")])
    value = {"claim": {"id": 7, "items": ["a", "b"]}, "x": None}

    code = run(tree, {**GOOD, "replies": {"Answer": {"json": value}}, "expect": case.expect})

    printed = capsys.readouterr().out
    assert code == int(bool(case.told)), printed
    assert case.told in printed


def test_a_list_of_replies_is_for_one_call_each(tree: Tree, capsys: Printed) -> None:
    tree.workflow("assistant", [answers("Main", retry=2)])
    replies = [{"fail": {}}, {"fail": {}}, "third"]

    assert run(tree, {**GOOD, "replies": {"Answer": replies}, "expect": {"equals": "third"}}) == 0


def test_replies_count_for_the_node_whatever_endpoint_it_falls_back_to(tree: Tree) -> None:
    tree.model("Other", "http://127.0.0.1:9")
    tree.workflow("assistant", [answers("Main", fallbackEndpoints=["Other"])])
    replies = [{"fail": {"status": 503}}, "from the other"]

    assert run(tree, {**GOOD, "replies": {"Answer": replies}, "expect": {"contains": "other"}}) == 0


def test_a_forgiven_node_without_reply_is_told_all_the_same(tree: Tree, capsys: Printed) -> None:
    tree.workflow("assistant", [answers("Main", onError="value", onErrorValue="never mind")])

    assert run(tree, {**GOOD, "replies": {}, "expect": {"equals": "never mind"}}) == 1


def test_what_a_test_writes_is_thrown_away(tree: Tree) -> None:
    tree.workflow("assistant", [answers("Main", addDiscussionIdTimestampsForLLM=True)])
    test = {
        **GOOD,
        "now": "2025-09-01T12:00:00",
        "conversationId": "d1",
        "replies": {"Answer": "Yes"},
        "expect": {"prompts": {"Answer": "(Monday, 2025-09-01 12:00:00) a house"}},
    }

    assert run(tree, test, test) == 0
    assert not (tree.public / "DiscussionIds").exists()


def test_results_are_counted_chosen_and_written_as_junit(tree: Tree, capsys: Printed) -> None:
    report = tree.public / "report.xml"
    bad = {**GOOD, "name": "fails <here>", "expect": {"equals": "\x1b"}}

    assert run(tree, GOOD, bad, options=("--junit", str(report))) == 1
    assert capsys.readouterr().out.endswith("1 passed, 1 failed\n")
    (suite,) = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [len(case) for case in suite] == [0, 1]

    assert run(tree, GOOD, bad, options=("-k", "WORKS", "-v")) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"
    assert run(tree, GOOD, options=("-k", "nothing")) == 2


WRONG = [
    ("a key that nobody knows", {"expect": {"containz": "x"}}, "tests[0].expect.containz"),
    ("no message", {"message": None}, "needs either `message` or `messages`"),
    ("no pattern", {"expect": {"matches": "("}}, "is no regular expression"),
    ("a JSON check without a question", {"expect": {"json": {"path": "a"}}}, "needs `equals`"),
]


@pytest.mark.parametrize(("change", "told"), [pytest.param(*one[1:], id=one[0]) for one in WRONG])
def test_a_file_that_is_wrong_is_wrong_use(
    change: dict[str, Any], told: str, tree: Tree, capsys: Printed
) -> None:
    test = {key: value for key, value in {**GOOD, **change}.items() if value is not None}

    assert run(tree, test) == 2
    assert told in capsys.readouterr().err


def test_a_test_must_name_its_workflow_somewhere(tmp_path: Path) -> None:
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"tests": [GOOD]}))

    with pytest.raises(ConfigError, match=r"tests\[0\].workflow"):
        read_tests(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_tests(tmp_path / "nothing.yaml")


def test_an_unknown_workflow_is_an_error_of_the_run(tree: Tree, capsys: Printed) -> None:
    assert run(tree, {**GOOD, "workflow": "asistant"}) == 1
    assert "Did you mean 'assistant'?" in capsys.readouterr().out


def test_a_recorded_run_is_a_test_that_passes_without_the_model(
    tree: Tree, capsys: Printed, tmp_path: Path
) -> None:
    with Upstream(chat("walls\nand roofs"), chat("done")) as model:
        tree.model("Main", model.url)
        options = ["--PublicDirectory", str(tree.public)]
        assert main(["--record", "assistant", "-m", "a house", *options]) == 0
    recorded = capsys.readouterr().out
    file = tmp_path / "recorded.yaml"
    file.write_text(recorded)

    assert main([str(file), *options]) == 0
    assert yaml.safe_load(recorded)["tests"][0]["replies"] == {
        "Plan": "walls\nand roofs",
        "Write": "done",
    }


def test_a_run_that_fails_is_not_recorded(tree: Tree, capsys: Printed) -> None:
    tree.model("Main", "http://127.0.0.1:9")

    assert main(["--record", "assistant", "-m", "x", "--PublicDirectory", str(tree.public)]) == 1
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("words", [[], ["--record", "x"], ["a.yaml", "--message", "x"]])
def test_wrong_use_says_so(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)

    assert caught.value.code == 2
