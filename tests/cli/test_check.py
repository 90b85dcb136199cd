"""`check` as a process: what it says, in words and as JSON, and how it ends."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from Middleware.cli.dispatch import main
from tests.fakes.headrace import Tree, answers, calls, static
from tests.fakes.terminal import Ran, command

ENTRY = "Workflows/tester/_DefaultWorkflow.json"


def good_tree(root: Path) -> Tree:
    tree = Tree(root).scripted("Main")
    tree.own("_DefaultWorkflow", [answers()])
    return tree.workflow("assistant", [static("hi")])


@dataclass(frozen=True)
class Here:
    """The command without a process of its own, which costs most of a second."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str | Path) -> Ran:
        try:
            code = main(["check", *map(str, words)])
        except SystemExit as ended:
            code = int(ended.code or 0)
        told = self.capsys.readouterr()
        return Ran(code, told.out, told.err)


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(capsys)


def test_a_tree_in_order_has_nothing_to_tell(tmp_path: Path, check: Here) -> None:
    configs = good_tree(tmp_path).configs

    words, told = check(configs), check(configs, "--json")

    assert (words.code, words.out, words.err) == (0, "0 errors, 0 warnings\n", "")
    assert (told.code, json.loads(told.out), told.err) == (0, [], "")


def test_the_tree_that_ships_is_in_order() -> None:
    ran = command("check", OPENAI_API_KEY="", ANTHROPIC_API_KEY="")

    assert (ran.code, ran.out, ran.err) == (0, "0 errors, 0 warnings\n", "")


def test_warnings_alone_are_no_failure(tmp_path: Path, check: Here) -> None:
    tree = good_tree(tmp_path)
    tree.own("_DefaultWorkflow", [answers("main", titel="x")])

    ran = check(tree.configs)

    assert ran.code == 0
    assert ran.out == (
        f"warning: {ENTRY}: nodes[0].titel: this key is not known and has no effect. "
        "[unknown_key]\n    Did you mean 'title'?\n"
        f"warning: {ENTRY}: nodes[0].endpointName: It names 'main'; the file is called 'Main'. "
        "[name_case]\n    Write 'Main'.\n"
        "0 errors, 2 warnings\n"
    )


def test_errors_are_told_with_place_and_remedy_and_end_in_one(tmp_path: Path) -> None:
    tree = good_tree(tmp_path)
    tree.workflow("assistant", [answers("Mian")])
    tree.own("Broken", [static("x")]).write("Workflows/tester/Broken.json", '{"nodes": [}')

    words, told = command("check", tree.configs), command("check", tree.configs, "--json")

    assert (words.code, told.code) == (1, 1)
    assert words.out.endswith("2 errors, 0 warnings\n")
    problems = {problem["file"]: problem for problem in json.loads(told.out)}
    assert problems.keys() == {
        "Workflows/tester/Broken.json",
        "Workflows/_shared/assistant/_DefaultWorkflow.json",
    }
    problem = problems["Workflows/tester/Broken.json"]
    assert problem.keys() == {
        "code",
        "severity",
        "file",
        "place",
        "message",
        "remedy",
        "usingLastGood",
    }
    assert (problem["code"], problem["severity"]) == ("bad_syntax", "error")
    assert problem["place"] == "line 1, column 12"
    assert problem["usingLastGood"] is False
    assert str(tmp_path) not in told.out


def test_every_user_of_the_tree_is_checked_whoever_is_named(tmp_path: Path, check: Here) -> None:
    tree = good_tree(tmp_path).user("other", dialect="klingon")

    alone = check(tree.configs, "--User", "tester")
    lost = check(tree.configs, "--User", "testr")

    assert (alone.code, lost.code) == (1, 1)
    assert "Users/other.json: dialect" in alone.out
    assert "Did you mean 'tester'?" in lost.out


def test_a_folder_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    ran = command("check", tmp_path / "nowhere")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"There is no folder {tmp_path / 'nowhere'}.\n"


def test_a_broken_endpoint_is_told_once_whoever_names_it(tmp_path: Path, check: Here) -> None:
    tree = good_tree(tmp_path)
    tree.own("Other", [answers("Main"), answers("Main"), answers("Mian")])
    tree.model("Main", "127.0.0.1:8080")
    without_scheme = check(tree.configs)
    tree.model("Main", "http://127.0.0.1:8080", apiTypeConfigFileName="OpenIA")

    without_type = check(tree.configs)

    assert without_scheme.out.splitlines()[-1] == "2 errors, 0 warnings"
    assert "Endpoints/Main.json: endpoint: The address does not begin" in without_scheme.out
    assert "nodes[2].endpointName: Endpoints/Mian.json" in without_scheme.out
    assert without_type.out.splitlines()[-1] == "2 errors, 0 warnings"
    assert "Endpoints/Main.json: apiTypeConfigFileName" in without_type.out


def test_a_misspelt_folder_in_a_name_is_told_with_the_nearest(tmp_path: Path, check: Here) -> None:
    tree = good_tree(tmp_path)
    tree.write("Workflows/_common/Sum.json", [answers("Main")])
    tree.own("Other", [calls("Sum", workflowUserFolderOverride="_comon")])

    told = check(tree.configs).out

    assert (
        "Workflows/_comon/Sum.json: There is no such file. Did you mean the folder '_common'?"
        in told
    )


def test_a_folder_that_is_nearly_right_is_told_with_what_was_meant(tmp_path: Path) -> None:
    tree = good_tree(tmp_path / "Public")
    configs = tree.configs

    misspelt = command("check", configs.with_name("Confgs"))
    outer = command("check", configs.parent)
    workflows = command("check", configs, "--WorkflowsDirectory", tmp_path / "none")
    public = command("check", "--PublicDirectory", tmp_path / "Publik")

    assert (misspelt.code, outer.code, workflows.code, public.code) == (2, 2, 2, 2)
    assert public.err == (
        f"There is no folder {tmp_path / 'Publik'}. Did you mean {tmp_path / 'Public'}?\n"
    )
    assert misspelt.err == (
        f"There is no folder {configs.with_name('Confgs')}. Did you mean {configs}?\n"
    )
    assert outer.err == (
        f"There is no configuration in {configs.parent} itself. Did you mean {configs}?\n"
    )
    assert workflows.err == f"There is no folder {tmp_path / 'none'}.\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--xml"], "--xml"), (["one", "two"], "two"), (["--User"], "--User")],
    ids=["an unknown option", "too many words", "an option without its value"],
)
def test_wrong_use_ends_in_two(words: list[str], says: str, check: Here) -> None:
    ran = check(*words)

    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err


def test_environment_variables_matter_where_a_user_looks(
    tmp_path: Path, check: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = good_tree(tmp_path)
    key = {"apiKey": "${HEADRACE_NO_SUCH_KEY}"}
    tree.model("examples/Paid", "http://127.0.0.1:9", **key)

    unused = check(tree.configs)
    tree.workflow("assistant", [answers("examples/Paid")])
    used = check(tree.configs)
    monkeypatch.setenv("HEADRACE_NO_SUCH_KEY", "secret-canary")
    set_now = check(tree.configs)

    assert (unused.code, unused.out) == (0, "0 errors, 0 warnings\n")
    assert used.code == 1
    assert "HEADRACE_NO_SUCH_KEY is not set" in used.out
    assert (set_now.code, set_now.out) == (0, "0 errors, 0 warnings\n")
