"""Scripts that do what nobody should: the request ends well or with the node's name, at once."""

import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.fakes.headrace import Headrace, Tree, static, wait_until

BROKEN = "class X:\n  def __str__(self): raise ValueError('no')\n  __repr__ = __str__\n"
LOOP = "  while True: pass\n"


def module(root: Path, body: str) -> dict[str, Any]:
    (root / "m.py").write_text(body, encoding="utf-8")
    return {"type": "PythonModule", "module_path": str(root / "m.py"), "title": "Script"}


def code(tree: Tree, body: str | bytes) -> dict[str, Any]:
    folder = tree.public / "workflow_python_scripts"
    folder.mkdir(exist_ok=True)
    (folder / "s.py").write_bytes(body.encode() if isinstance(body, str) else body)
    return {"type": "PythonCode", "script": "s.py", "title": "Script"}


@dataclass(frozen=True)
class Case:
    id: str
    body: str
    text: str = ""
    """Of an answer, or of what is wrong."""
    fails: bool = False


RAISED = "The Python file 'm.py' failed: "
MODULES = [
    Case("no text", f"{BROKEN}def Invoke(): return X()", "of type X that has no text", True),
    Case(
        "a text that is none",
        "class X:\n  def __str__(self): return 5\ndef Invoke(): return X()",
        "of type X that has no text",
        True,
    ),
    Case("a huge number", "def Invoke(): return 10 ** 5000", "of type int that has no text", True),
    Case(
        "a deep list",
        "def Invoke():\n  a = []\n  for _ in range(5000): a = [a]\n  return a",
        "of type list that has no text",
        True,
    ),
    Case("a list in itself", "def Invoke():\n  a = []; a.append(a); return a", "[[...]]"),
    Case("bytes", "def Invoke(): return b'\\xff'", "b'\\xff'"),
    Case("nothing", "def Invoke(): return None", "None"),
    Case(
        "a text of its own kind",
        "class S(str):\n  def __len__(self): raise ValueError\ndef Invoke(): return S('hey')",
        "hey",
    ),
    Case(
        "an object of its own kind",
        "class D(dict):\n  def items(self): raise RuntimeError\ndef Invoke(): return D(a=1)",
        "{'a': 1}",
    ),
    Case("a lone surrogate", "def Invoke(): return 'a\\ud800'", "a\ufffd"),
    Case("Ctrl-C", "def Invoke(): raise KeyboardInterrupt", f"{RAISED}KeyboardInterrupt: "),
    Case("the end", "def Invoke(): raise SystemExit(3)", f"{RAISED}SystemExit: 3"),
    Case("a generator's end", "def Invoke(): raise GeneratorExit", f"{RAISED}GeneratorExit: "),
    Case(
        "an error of the lowest kind",
        "class E(BaseException): pass\ndef Invoke(): raise E('x')",
        f"{RAISED}E: x",
    ),
    Case(
        "an error without a text",
        f"{BROKEN}class E(X, Exception): pass\ndef Invoke(): raise E()",
        f"{RAISED}E: (it cannot be shown)",
    ),
    Case("Ctrl-C while it is loaded", "raise KeyboardInterrupt", "KeyboardInterrupt", True),
]


def told(live: Headrace, *, stream: bool, fails: bool) -> str:
    received = live.chat(model="w", stream=stream)
    if fails:
        assert received.status == 400
        error = received.json["error"]
        assert error["message"].startswith("Workflow 'w', node 'Script': ")
        assert error["code"] == "workflow_error"
        return str(error["message"])
    assert received.status == 200
    return received.text if stream else str(received.json["choices"][0]["message"]["content"])


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in MODULES])
def test_a_module_may_return_and_raise_anything(case: Case, stream: bool, tmp_path: Path) -> None:
    nodes = [module(tmp_path, case.body), static("{agent1Output}")]
    with Tree(tmp_path).workflow("w", nodes).serve() as live:
        text = told(live, stream=stream, fails=case.fails)
        (run,) = live.finished()
        logged = live.ask("GET", "/api/runs").json["runs"]

    assert case.text in text if case.fails else text == case.text
    assert run["status"] == ("failed" if case.fails else "succeeded")
    assert [one["status"] for one in logged] == [run["status"]]


CODES = [
    Case("no text", f"{BROKEN}def run(c, p): return X()", "of type X that has no text", True),
    Case("the end", "def run(c, p): raise SystemExit", "s.py raised SystemExit in line 1", True),
    Case("Ctrl-C while it is loaded", "raise KeyboardInterrupt", "KeyboardInterrupt", True),
    Case("no steps", "def run(c, p): c.steps = None", "put something else in place", True),
    Case("no variables", "def run(c, p): c.global_variables = 5", "put something else", True),
    Case("other variables", "def run(c, p):\n  c.global_variables = {'x': 1}\n  return 'ok'", "ok"),
    Case("no record", "def run(c, p):\n  c.workflow_record = 3\n  return 'ok'", "ok"),
    Case(
        "a variable without a text",
        f"{BROKEN}def run(c, p):\n  c.global_variables['x'] = X()\n  return 'ok'",
        "s.py gave the variable 'x' a value of type X that has no text",
        True,
    ),
    Case(
        "a variable that cannot be compared",
        "class X:\n  def __ne__(self, o): raise ValueError\n"
        "def run(c, p):\n  c.global_variables['x'] = X()\n  return 'ok'",
        "ok",
    ),
    Case("a byte order mark", "\ufeffdef run(c, p): return 'ok'", "ok"),
    Case("a NUL", "def run(c, p): return '\0'", "s.py: this is no valid Python", True),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CODES])
def test_code_may_return_raise_and_change_anything(case: Case, tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    nodes = [code(tree, case.body), static("{agent1Output}")]
    with tree.workflow("w", nodes, globalVariables={"y": 1}).serve() as live:
        text = told(live, stream=False, fails=case.fails)
        logged = live.ask("GET", f"/api/runs/{live.finished()[0]['id']}")

    assert case.text in text if case.fails else text == case.text
    assert logged.status == 200


def test_a_script_that_is_no_utf_8_says_so(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    with tree.workflow("w", [code(tree, b"# \xff")]).serve() as live:
        assert "is not UTF-8" in told(live, stream=False, fails=True)


def looping(kind: str, tree: Tree, root: Path, loop: str = LOOP) -> dict[str, Any]:
    started = f"open({str(root / 'started')!r}, 'w').close()\n"
    if kind == "PythonModule":
        return module(root, f"def Invoke():\n  {started}{loop}")
    return code(tree, f"def run(c, p):\n  {started}{loop}")


def threads_at_work() -> int:
    """How many threads are inside of a script."""
    frames = list[FrameType | None](sys._current_frames().values())
    names = []
    for frame in frames:
        while frame is not None:
            names.append(frame.f_code.co_filename.rpartition("/")[2])
            frame = frame.f_back
    return sum(name in ("m.py", "s.py") for name in names)


@pytest.mark.parametrize("kind", ["PythonModule", "PythonCode"])
@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(LOOP, id="empty"),
        pytest.param(
            "  while True:\n    try: len('')\n    except Exception: pass\n",
            id="that catches errors",
        ),
    ],
)
def test_a_script_that_never_ends_is_ended_when_its_client_leaves(
    kind: str, loop: str, tmp_path: Path
) -> None:
    tree = Tree(tmp_path)
    with tree.workflow("w", [looping(kind, tree, tmp_path, loop)]).serve() as live:
        with live.connect() as client:
            client.send_chat(model="w")
            wait_until((tmp_path / "started").exists)
        assert [run["status"] for run in live.finished()] == ["cancelled"]
        wait_until(lambda: threads_at_work() == 0)
        tree.workflow("w", [static("alive")])
        tree.clock.advance(2)
        assert live.says(stream=False, model="w") == "alive"


@pytest.mark.parametrize("kind", ["PythonModule", "PythonCode"])
def test_a_script_that_never_ends_is_ended_when_its_time_is_over(kind: str, tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    node = {**looping(kind, tree, tmp_path), "timeoutSeconds": 0.3}
    with tree.workflow("w", [node]).serve() as live:
        received = live.chat(model="w")
        assert [run["status"] for run in live.finished()] == ["failed"]
        wait_until(lambda: threads_at_work() == 0)

    assert (received.status, received.json["error"]["code"]) == (504, "node_timeout")


def test_what_follows_may_go_on_without_it(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    limits = {"timeoutSeconds": 0.3, "onError": "value", "onErrorValue": "too slow"}
    node = {**looping("PythonCode", tree, tmp_path), **limits}
    with tree.workflow("w", [node, static("{agent1Output}")]).serve() as live:
        assert live.says(stream=False, model="w") == "too slow"
