"""What ships with the server, as the real front ends meet it at their first message."""

import shutil
from typing import Any

import pytest

from tests.fakes.own_process import ROOT, OwnProcess, own_process

GREETING = "Hello! I am the scripted model that ships with Headrace."
REMINDER = (
    "<system-reminder>\nAs you answer the user's questions, you can use the following context:\n"
    "# currentDate\nToday's date is 2026-12-01.\n\n      IMPORTANT: this context may or may not be "
    "relevant to your tasks. You should not respond to this context unless it is highly relevant "
    "to your task.\n</system-reminder>\n"
)
AGENTS = (
    "Available agent types for the Agent tool:\n- claude: Catch-all for any task that doesn't fit "
    "a more specific agent. It reviews and audits code."
)


def of_claude_code(said: str, **fields: Any) -> dict[str, Any]:
    """The messages of Claude Code 2.1.197: a date before the words, a system message behind."""
    words = [{"type": "text", "text": REMINDER}, {"type": "text", "text": said}]
    return {
        "model": "claude-opus-4-8",
        "max_tokens": 32000,
        "messages": [
            {"role": "user", "content": words},
            {"role": "system", "content": AGENTS},
        ],
        **fields,
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("shipped")
    shutil.copytree(ROOT / "Public", root / "Public", ignore=shutil.ignore_patterns("SqlLiteDBs"))
    with own_process(root / "Public") as server:
        yield server


def answer(server: OwnProcess, asked: dict[str, Any]) -> str:
    received = server.ask("POST", "/v1/messages?beta=true", asked)
    assert received.status == 200, received.body
    (text,) = received.json["content"]
    assert isinstance(text["text"], str)
    return text["text"]


def test_the_first_greeting_of_claude_code_is_answered_with_one(server: OwnProcess) -> None:
    assert answer(server, of_claude_code("Hello there")).startswith(GREETING)


@pytest.mark.parametrize(
    ("said", "system_prompt"),
    [
        ("What is 17 * 3?", "You are a careful mathematician."),
        ("What is 17-3?", "You are a careful mathematician."),
        ("Write a function", "You plan small programs."),
        ("Good evening", "You are a friendly assistant."),
    ],
)
def test_the_router_goes_by_what_the_person_said(
    said: str, system_prompt: str, server: OwnProcess
) -> None:
    answer(server, of_claude_code(said, model="router"))

    newest = server.ask("GET", "/api/runs?limit=5").json["runs"]
    (run,) = [run for run in newest if run["parentId"] is None][:1]
    steps = server.ask("GET", f"/api/runs/{run['id']}").json
    prompts = [
        step["meta"]["resolvedPrompt"][0]["content"]
        for child in steps["children"]
        for step in child["context"]["steps"]
    ]
    assert prompts[0].startswith(system_prompt)


def test_the_hint_of_the_scripted_model_is_no_cry_for_help(server: OwnProcess) -> None:
    """Nodes hand its answers to one another: a judge of drafts must not tell how to get help."""
    asked = {"model": "assistant", "max_tokens": 500}

    def ask(said: str) -> str:
        return answer(server, {**asked, "messages": [{"role": "user", "content": said}]})

    hint = ask("water wheels")
    assert 'Say "help"' in hint
    assert ask(hint).startswith("You said: You said: water wheels")
    assert ask("Please help me").startswith("To get real answers")
