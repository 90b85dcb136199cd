"""The server as people start it: the shipped configuration, copied, and one workflow more.

The workflow ``acceptance`` sends the last words of the user to a scripted endpoint; once a tool has
answered, it sends what the tool said. So one model serves plain turns, tool rounds and failures.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.http_client import Client

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = "acceptance"
HELLO = "Hello, who are you?"
GREETING = "Hello! I am the scripted model that ships with Headrace."
FAIL_NOW, FAIL_LATE = "fail now", "fail later"
BROKE = "The scripted model broke"
COUNT = "count slowly"
CALL = {
    "codex": ("exec_command", {"cmd": "echo headrace-$((40+2))"}),
    "claude": ("Bash", {"command": "echo headrace-$((40+2))", "description": "Say it"}),
    "webui": ("get_current_timestamp", {}),
}
"""By name: the tool that the model calls when it is told ``name, call it``."""
TOOL_SAID = "The tool said: "

_PROMPT = (
    "{% set said = messages | selectattr('role', 'equalto', 'tool') | list %}"
    "{% if said %}" + TOOL_SAID + "{{ said[-1].content }}"
    "{% else %}{{ (messages | selectattr('role', 'equalto', 'user') | list)[-1].content }}"
    "{% endif %}"
)
_WORKFLOW: Mapping[str, Any] = {
    "nodes": [
        {
            "title": "Answer",
            "type": "Standard",
            "endpointName": "Acceptance",
            "jinja2": True,
            "prompt": _PROMPT,
            "allowTools": True,
        }
    ]
}
_CALLS = [
    {
        "match": f"(?m)^{name}, call it",
        "reply": "I look.",
        "toolCalls": [{"name": tool, "arguments": arguments}],
    }
    for name, (tool, arguments) in CALL.items()
]
_ENDPOINT: Mapping[str, Any] = {
    "apiTypeConfigFileName": "Scripted",
    "rules": [
        {"match": f"^{TOOL_SAID}", "reply": "{input}"},
        *_CALLS,
        {"match": f"(?m)^{FAIL_NOW}", "fail": {"status": 500, "message": f"{BROKE}."}},
        {
            "match": f"(?m)^{FAIL_LATE}",
            "reply": "one two three four",
            "fail": {"status": 500, "message": f"{BROKE}.", "afterTokens": 2},
        },
        {
            "match": f"(?m)^{COUNT}",
            "reply": " ".join(f"number-{count}" for count in range(1, 301)),
            "tokenDelayMs": 100,
        },
    ],
    "default": {"reply": "You said: {input}"},
}


@dataclass(frozen=True, slots=True)
class Headrace:
    url: str
    """Without a slash at its end."""

    def runs(self) -> list[dict[str, Any]]:
        """What the run log lists, newest first."""
        listed = Client(self.url).json("/api/runs?limit=200")["runs"]
        return [run for run in listed if run["parentId"] is None]

    def new(self, before: int) -> list[dict[str, Any]]:
        """Those since there were ``before``."""
        runs = self.runs()
        return runs[: len(runs) - before]

    def new_is_cancelled(self, before: int) -> bool:
        return any(run["status"] == "cancelled" for run in self.new(before))

    def question(self, run: Mapping[str, Any]) -> str:
        """The last words of the user in this run."""
        return str(self._context(run)["globalVariables"]["question"])

    def first_prompt(self, run: Mapping[str, Any]) -> str:
        """The last words that its first node sent to the model."""
        return str(self._sent_first(run)[-1]["content"])

    def first_prompts(self, run: Mapping[str, Any]) -> str:
        """All that its first node sent to the model."""
        return "\n".join(str(message["content"]) for message in self._sent_first(run))

    def _sent_first(self, run: Mapping[str, Any]) -> Any:
        return self._context(run)["steps"][0]["meta"]["resolvedPrompt"]

    def _context(self, run: Mapping[str, Any]) -> Any:
        return Client(self.url).json(f"/api/runs/{run['id']}")["context"]


@contextmanager
def headrace(folder: Path) -> Iterator[Headrace]:
    """A server with its configuration, its data and its log in ``folder``."""
    unwanted = shutil.ignore_patterns("SqlLiteDBs", "logs")
    for name in ("Public", "Workflows"):
        shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
    _write(folder / "Public/Configs/Endpoints/Acceptance.json", _ENDPOINT)
    _write(folder / f"Workflows/_shared/{MODEL}/_DefaultWorkflow.json", _WORKFLOW)
    options: list[str | Path]
    options = ["--PublicDirectory", folder / "Public", "--WorkflowsDirectory", folder / "Workflows"]
    with (
        (folder / "headrace.log").open("w") as log,
        subprocess.Popen(
            [sys.executable, ROOT / "start.py", *options, "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            yield Headrace(_address(process))
        finally:
            process.terminate()


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if "is ready at " in line:
            return line.rpartition(" ")[2].strip()
    raise RuntimeError("the server did not start; see headrace.log")


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
