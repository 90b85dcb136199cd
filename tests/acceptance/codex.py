"""Codex CLI, through ``/v1/responses``."""

import json
from typing import Any

from tests.acceptance.programs import Place, Words, output
from tests.acceptance.server import BROKE, FAIL_LATE, FAIL_NOW, GREETING, HELLO, MODEL, Headrace
from tests.acceptance.steps import Report, holds

_CONFIG = """\
model = "assistant"
model_provider = "headrace"
[model_providers.headrace]
name = "Headrace"
base_url = "{url}/v1"
wire_api = "responses"
[analytics]
enabled = false
"""


def check(report: Report, place: Place, site: Headrace) -> None:
    program = place.npm("@openai/codex", "codex")
    home, work = place.folder("codex/home"), place.folder("codex/work")
    (home / "config.toml").write_text(_CONFIG.format(url=site.url), encoding="utf-8")
    report.version = output([program, "--version"], work).split()[-1]

    env = {"CODEX_HOME": str(home), "HOME": str(home), "CODEX_OSS_BASE_URL": f"{site.url}/v1"}

    def told(message: str, model: str = MODEL, *how: str) -> list[dict[str, Any]]:
        options = ["--json", "--skip-git-repo-check", "-m", model]
        words: Words = [program, "exec", *how, *options, message]
        said = output(words, work, **env)
        return [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    with report.step("one turn, its answer whole"):
        holds(_answers(told(HELLO, "assistant"))[-1], GREETING)
    with report.step("the conversation is resumed, its first turn sent along"):
        holds(
            _answers(told("Second message", "assistant", "resume", "--last"))[-1], "Second message"
        )
        holds(site.first_prompts(site.runs()[0]), HELLO, "Second message")
    with report.step("as a program of Ollama (`--oss`), the workflow by its short name"):
        ollama = ("--oss", "--local-provider", "ollama")
        holds(_answers(told(HELLO, "assistant", *ollama))[-1], GREETING)
    with report.step("a tool round: `exec_command` runs, its output comes back"):
        events = told("codex, call it")
        (ran,) = _items(events, "command_execution")
        holds(ran["aggregated_output"], "headrace-42")
        holds(_answers(events)[-1], "The tool said:", "headrace-42")
    for tried, message in (
        ("a failing model: its message is shown once, the workflow ran once", FAIL_NOW),
        ("the same in the middle of an answer", FAIL_LATE),
    ):
        with report.step(tried):
            before = len(site.runs())
            events = told(message)
            shown = [event["message"] for event in events if event["type"] == "error"]
            assert len(shown) == 1, shown
            holds(shown[0], BROKE)
            assert len(site.runs()) - before == 1, f"{len(site.runs()) - before} runs"


def _items(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    ended = (event["item"] for event in events if event["type"] == "item.completed")
    return [item for item in ended if item["type"] == kind]


def _answers(events: list[dict[str, Any]]) -> list[str]:
    answers = [item["text"] for item in _items(events, "agent_message")]
    assert answers, f"no answer: {events}"
    return answers
