from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Middleware.core.errors import WorkflowError
from Middleware.core.messages import Message
from tests.workflows.handlers.setups import context_of, handle, run, scope_in

ECHO = "def Invoke(*args, **kwargs):\n    return [list(args), kwargs]\n"
MESSAGES = (Message("user", "it's {x}"),)


def script(root: Path, text: str, name: str = "script.py") -> str:
    path = root / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@dataclass(frozen=True)
class Returns:
    id: str
    body: str
    expected: Any
    content: str | None


RETURNS = [
    Returns("a text", "'é'", "é", "é"),
    Returns("a number", "3", 3, "3"),
    Returns("a truth value", "True", True, "True"),
    Returns("nothing", "None", None, None),
    Returns("a list", "[1, 'a']", [1, "a"], '[\n  1,\n  "a"\n]'),
    Returns("an object", "{'claim': 12}", {"claim": 12}, '{\n  "claim": 12\n}'),
    Returns("an object with content", "{'content': 'x', 'n': 1}", {"content": "x", "n": 1}, "x"),
    Returns("an empty text", "''", "", ""),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in RETURNS])
def test_what_the_script_returns_keeps_its_type(case: Returns, tmp_path: Path) -> None:
    path = script(tmp_path, f"def Invoke():\n    return {case.body}\n")

    payload = run("PythonModule", {"module_path": path})

    assert payload.value == case.expected
    assert payload.content == case.content


@dataclass(frozen=True)
class Arguments:
    id: str
    config: dict[str, Any]
    expected: list[Any]
    given: dict[str, Any] = field(default_factory=dict)


ARGUMENTS = [
    Arguments("none", {}, [[], {}]),
    Arguments(
        "texts with variables",
        {"args": ["{agent1Output}!"], "kwargs": {"unit": "{agent1Output}"}},
        [["hi!"], {"unit": "hi"}],
        {"outputs": ["hi"]},
    ),
    Arguments(
        "what is no text becomes one", {"args": [1, True, None]}, [["1", "True", "None"], {}]
    ),
    Arguments("an object keeps its braces", {"args": [{"a": {"b": 1}}]}, [["{'a': {'b': 1}}"], {}]),
    Arguments(
        "messages as Python shows them",
        {"args": ["{messages}"]},
        [["[{'role': 'user', 'content': \"it's {x}\"}]"], {}],
        {"messages": MESSAGES},
    ),
    Arguments(
        "messages as JSON",
        {"args": ["{{ messages | tojson }}"], "jinja2": True},
        [['[{"content": "it\\u0027s {x}", "role": "user"}]'], {}],
        {"messages": MESSAGES},
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in ARGUMENTS])
def test_arguments_are_texts(case: Arguments, tmp_path: Path) -> None:
    payload = run(
        "PythonModule", {"module_path": script(tmp_path, ECHO), **case.config}, **case.given
    )

    assert payload.value == case.expected


@dataclass(frozen=True)
class Failure:
    id: str
    text: str
    says: tuple[str, ...]


FAILURES = [
    Failure(
        "a failure of its own",
        "from Middleware.tools.python_module import ScriptError\n"
        "def Invoke():\n"
        "    raise ScriptError('no such customer', module_name='customers', details={'id': 7})",
        ("customers", "no such customer", "{'id': 7}"),
    ),
    Failure(
        "a failure of its own, in short",
        "from Middleware.tools.python_module import ScriptError\n"
        "def Invoke(): raise ScriptError('no such customer')",
        ("script", "no such customer"),
    ),
    Failure("wrong arguments", "def Invoke(a): return a", ("script.py", "TypeError")),
    Failure("a type that does not fit", "def Invoke(): return 1 + 'a'", ("script.py", "TypeError")),
    Failure(
        "a file that is missing",
        "def Invoke(): open('/nowhere/x')",
        ("script.py", "FileNotFoundError"),
    ),
    Failure("anything else", "def Invoke(): return 1 / 0", ("script.py", "ZeroDivisionError")),
    Failure(
        "an attempt to end the server",
        "import sys\ndef Invoke(): sys.exit(3)",
        ("script.py", "SystemExit"),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in FAILURES])
def test_a_script_that_fails_gives_a_text(case: Failure, tmp_path: Path) -> None:
    payload = run("PythonModule", {"module_path": script(tmp_path, case.text)})

    assert all(part in str(payload) for part in case.says), str(payload)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def invoke(): pass", "has no function Invoke"),
        ("Invoke = 3", "has no function Invoke"),
        ("def Invoke(:", "SyntaxError"),
        ("import no_such_module", "No module named"),
        ("raise SystemExit", "SystemExit"),
    ],
)
def test_a_file_that_cannot_be_used_fails_the_node(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(WorkflowError, match=says):
        run("PythonModule", {"module_path": script(tmp_path, text)})


@pytest.mark.parametrize(
    "path", ["/nowhere/x.py", "x\0.py", "~nobody-of-that-name/x.py", "{agent1Output}"]
)
def test_a_file_that_is_not_there_fails_the_node(path: str) -> None:
    with pytest.raises(WorkflowError):
        run("PythonModule", {"module_path": path}, outputs=[" "])


def test_the_file_is_read_anew_for_every_call(tmp_path: Path) -> None:
    said = []
    for number in range(3):
        path = script(tmp_path, f"def Invoke():\n    return {number}\n")
        said.append(run("PythonModule", {"module_path": path}).value)

    assert said == [0, 1, 2]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["script.py"]


def test_relative_paths_are_below_the_working_directory_and_then_the_install_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = scope_in(tmp_path)
    work, install = tmp_path / "work", scope.server.install
    for folder in (work, install):
        (folder / "tools").mkdir(parents=True)
    monkeypatch.chdir(work)
    script(install / "tools", "def Invoke(): return 'install'", "both.py")
    script(install / "tools", "def Invoke(): return 'install'", "one.py")
    script(work / "tools", "def Invoke(): return 'work'", "both.py")

    def value(name: str) -> Any:
        config = {"module_path": f"tools/{name}"}
        return handle(context_of("PythonModule", config, request_scope=scope)).value

    assert (value("both.py"), value("one.py")) == ("work", "install")


def test_dataclasses_of_a_script_work(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Point:\n    x: int\n"
        "def Invoke(): return Point(3).x\n"
    )

    assert run("PythonModule", {"module_path": script(tmp_path, text)}).value == 3
