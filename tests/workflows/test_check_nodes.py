"""What `check` tells of single nodes: scripts, conditions, numbers and arguments of curl."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Middleware.workflows.check import check_workflows
from Middleware.workflows.check_nodes import CODES as NODE_CODES
from Middleware.workflows.check_scripts import CODES as SCRIPT_CODES
from tests.config.tree import API_TYPE, ENDPOINT, USER, Tree
from tests.fakes.headrace import Tree as RunningTree

MAIN = "Workflows/bob/_DefaultWorkflow.json"
GOOD = "def run(context, payload):\n    return 'ok'\n"
CLAIMS = "../workflow_python_scripts/claims.py"
ERROR, WARNING = "error", "warning"


@dataclass(frozen=True)
class Case:
    id: str
    node: dict[str, Any]
    code: str = ""
    """Empty: nothing is told."""
    place: str = ""
    severity: str = ERROR
    says: tuple[str, ...] = ()
    """Stands in the message and the remedy."""
    script: str = GOOD
    workflow: dict[str, Any] = field(default_factory=dict)


def python(**options: Any) -> dict[str, Any]:
    return {"type": "PythonCode", **options}


def module(**options: Any) -> dict[str, Any]:
    return {"type": "PythonModule", **options}


def asks(condition: str, **options: Any) -> dict[str, Any]:
    return {"type": "Conditional", "condition": condition, **options}


def switch(**options: Any) -> dict[str, Any]:
    return {"type": "Switch", **options}


def model(**options: Any) -> dict[str, Any]:
    return {"type": "Standard", "endpointName": "Fast", "prompt": "x", **options}


def curl(*args: str, **options: Any) -> dict[str, Any]:
    return {"type": "CurlCommand", "args": ["-sS", *args, "https://a.example/x"], **options}


def defines(text: str) -> Case:
    return Case(f"defined as in {text!r}", python(script="claims.py"), script=text)


def lacks(text: str) -> Case:
    script = python(script="claims.py")
    told = ("claims.py has no function `run`", "Add `def run(…)`")
    return Case(
        f"no function in {text!r}", script, "invalid_script", "script", says=told, script=text
    )


def unreadable(text: str, says: str) -> Case:
    return Case(f"unreadable {text!r}", asks(text), "invalid_condition", "condition", says=(says,))


def readable(text: str, **options: Any) -> Case:
    return Case(f"readable {text!r}", asks(text, **options))


def below(key: str, value: Any, says: str) -> Case:
    node = model(**{key: value})
    return Case(f"{key} {value!r}", node, "number_out_of_range", key, WARNING, (says,))


def injects(id: str, *args: str, at: int = 2, says: tuple[str, ...], **options: Any) -> Case:
    place = f"args[{at}]"
    return Case(f"curl: {id}", curl(*args, **options), "option_injection", place, WARNING, says)


def harmless(id: str, *args: str, **options: Any) -> Case:
    return Case(f"harmless curl: {id}", curl(*args, **options))


RAW = ("--data read a file", "--data-raw", "`blockOptionInjection`")
SCRIPTS = [
    Case("a script", python(script="claims.py")),
    Case(
        "a script that is not there",
        python(script="claim.py"),
        *("missing_script", "script", ERROR, ("There is no 'claim.py'", "mean 'claims.py'?")),
    ),
    Case("a script elsewhere", python(script="../claims.py"), "missing_script", "script"),
    Case(
        "a script that is no Python",
        python(script="claims.py"),
        *("invalid_script", "script", ERROR, ("claims.py, line 1: this is no valid Python",)),
        script="def run(:",
    ),
    Case(
        "bytes that are no text",
        python(script="claims.py"),
        *("invalid_script", "script"),
        script="a = '\0'",
    ),
    lacks("def Run(a, b): ..."),
    lacks("class A:\n    def run(self): ..."),
    lacks("def outer():\n    run = 1\n"),
    lacks("from a import run as other"),
    defines("async def run(a, b): ..."),
    defines("run = lambda a, b: 1"),
    defines("from a import run"),
    defines("from a import *"),
    defines("if True:\n    def run(a, b): ...\nelse:\n    pass"),
    defines("try:\n    import a\nexcept ImportError:\n    run = print"),
    defines("globals()['run'] = print"),
    defines("import os\nraise SystemExit\ndef run(a, b): return '\\d'"),
    Case("code", python(code=GOOD), "inline_code", "code", WARNING, ("--allow-inline-python",)),
    Case("a module", module(module_path="{folder}/claims.py")),
    Case(
        "a module that is not there",
        module(module_path="Middleware/tools/python_modul.py"),
        *("missing_script", "module_path", WARNING, ("Did you mean 'python_module.py'?",)),
    ),
    Case(
        "a module without Invoke",
        module(modulePath="Middleware/app.py"),
        *("invalid_script", "modulePath", ERROR, ("app.py has no function `Invoke`",)),
    ),
]
CONDITIONS = [
    unreadable("{agent1Output} ==", "has nothing behind =="),
    unreadable("== {agent1Output}", "has nothing in front of =="),
    unreadable("'{agent1Output}' == 'a' OR", "has nothing where a value is needed"),
    unreadable("('{agent1Output}' == 'a'", "has a ( without a )"),
    unreadable("'a' == 'a')", "has a ) without a ("),
    unreadable("1 2", "has two values with nothing between them"),
    unreadable("1 && 2", "has two values with nothing between them"),
    unreadable(" ", "is empty"),
    unreadable(f"'{'{agent1Output}' * 4}' ==", "has nothing behind =="),
    readable("{agent1Output}"),
    readable("{agent1Output} {agent1Output} 5"),
    readable("5 {agent1Output}"),
    readable("'{agent1Output}' == 'it is' AND ({agent1Output} >= 10 OR TRUE)"),
    readable("{agent1Output} {agent1Output} {agent1Output} {agent1Output} =="),
    readable("'{agent1Output}' == '('"),
    readable("{% if 1 %} == {% endif %}", jinja2=True),
    Case(
        "IfElse",
        {"type": "IfElse", "condition": "1 =="},
        *("invalid_condition", "condition", ERROR, ("never true",)),
    ),
    Case(
        "a case",
        switch(cases={"a": "1 == 1", "b": "1 =="}),
        *("invalid_condition", "cases.b"),
    ),
    Case("texts of a switch", switch(value="x", cases={"a": "=="})),
    Case(
        "live names",
        asks("{{topic}} == 'a'"),
        workflow={"globalVariables": {"topic": "a"}},
    ),
]
NUMBERS = [
    below("lastMessagesToSendInsteadOfPrompt", -1, "-1 is less than 0, and counts as 0."),
    below("lastMessagesToSendInsteadOfPrompt", "-3", "-3 is less than 0"),
    below("maxImagesToSend", -2, "counts as 0"),
    below("maxResponseSizeInTokens", 0, "No answer has 0 tokens"),
    below("maxResponseSizeInTokens", -5, "No answer has -5 tokens"),
    Case("no limit", model(maxResponseSizeInTokens=-1)),
    Case("none", model(lastMessagesToSendInsteadOfPrompt=0)),
    Case("a variable", model(lastMessagesToSendInsteadOfPrompt="{number}")),
    *(
        Case(f"{key} {value!r}", model(**{key: value}), "invalid_value", place)
        for key, value, place in (
            ("retry", {"times": -1}, "retry.times"),
            ("retry", {"times": 1, "delaySeconds": -1}, "retry.delaySeconds"),
            ("timeoutSeconds", 0, "timeoutSeconds"),
            ("timeoutSeconds", -1, "timeoutSeconds"),
        )
    ),
]
CURL = [
    injects("-d", "-d", "{agent1Output}", says=RAW),
    injects("-d, glued", "-d{agent1Output}", at=1, says=RAW),
    injects("--data", "--data", "{agent1Output} x", says=RAW),
    injects(
        "--data-binary", "--data-binary", "{agent1Output}", says=("--data-binary read a file",)
    ),
    injects("--json", "--json", "{agent1Output}", says=("--json read a file", "Set `block")),
    injects("a form", "-F", "file={agent1Output}", says=("--form read a file",)),
    injects("a cookie", "-b", "{agent1Output}", says=("--cookie read a file",)),
    injects("a header", "-H", "{agent1Output}", says=("--header read a file",)),
    injects("encoded", "--data-urlencode", "{agent1Output}", says=("--data-urlencode read",)),
    injects("Jinja2", "-d", "{{ agent1Output }}", jinja2=True, says=RAW),
    injects("open", "-d", "{agent1Output}", blockPrivateAddresses=False, says=RAW),
    injects(
        "an argument",
        *("{agent1Output}",),
        at=1,
        blockPrivateAddresses=False,
        says=("makes this argument an option of curl",),
    ),
    harmless("raw data", "--data-raw", "{agent1Output}"),
    harmless("behind text", "-d", "q={agent1Output}"),
    harmless("a cookie with a name", "-b", "id={agent1Output}"),
    harmless("a header with a name", "-H", "X-Q: {agent1Output}"),
    harmless("a value of -X", "-X", "{agent1Output}", blockPrivateAddresses=False),
    harmless("forbidden", "-d", "{agent1Output}", blockOptionInjection=True),
    harmless("guarded", "-d", "{agent1Output}", blockPrivateAddresses=True),
    harmless("guarded by itself", "-d", "{agent1Output}", "{agent1Output}"),
    harmless("a list of hosts", "-d", "{agent1Output}", allowedHosts=["a.example"]),
    harmless("a date", "-d", "{todays_date_iso}"),
    harmless("the author's own file", "-d", "@body.json"),
    Case(
        "the author's own variable",
        curl("-d", "{body}"),
        workflow={"body": "@body.json"},
    ),
]
CASES = [*SCRIPTS, *CONDITIONS, *NUMBERS, *CURL]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_what_is_wrong_with_a_node_is_told(tmp_path: Path, case: Case) -> None:
    tree = Tree(tmp_path)
    tree.write("Users/bob.json", USER)
    tree.write("ApiTypes/Chat.json", API_TYPE)
    tree.write("Endpoints/Fast.json", ENDPOINT)
    tree.write(CLAIMS, case.script)
    first = {"type": "StaticResponse", "content": "x"}
    values = {"folder": "x", "number": "5", **case.workflow}
    tree.write(MAIN, {**values, "nodes": [first, case.node]})

    told = [one for one in check_workflows(tree.store()) if one.code != "missing_route"]

    wanted = [(case.code, case.severity, MAIN, f"nodes[1].{case.place}")] if case.code else []
    assert [(one.code, one.severity, one.file, one.place) for one in told] == wanted
    for text in case.says:
        assert text in f"{told[0].message} {told[0].remedy}"


def test_every_code_is_tested() -> None:
    assert {*NODE_CODES, *SCRIPT_CODES} <= {case.code for case in CASES}


UNREADABLE = [
    pytest.param(case, id=case.id) for case in CONDITIONS if case.code and "condition" in case.node
]


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_condition_that_is_told_is_false_when_it_runs(tmp_path: Path, case: Case) -> None:
    node = {**case.node, "type": "Conditional"}
    first = {"type": "StaticResponse", "content": "{chat_user_prompt_last_one}"}
    tree = RunningTree(tmp_path).workflow("w", [first, node])
    with tree.serve() as live:
        for said in ("a", "1", "'a' == 'a'", "==", "OR TRUE"):
            asked = live.chat(model="w", messages=[{"role": "user", "content": said}])
            assert asked.json["choices"][0]["message"]["content"] == "FALSE"
