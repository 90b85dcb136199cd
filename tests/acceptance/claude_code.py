"""Claude Code, through ``/v1/messages``."""

import json
from pathlib import Path
from typing import Any

from tests.acceptance.programs import Place, output
from tests.acceptance.server import BROKE, FAIL_LATE, FAIL_NOW, GREETING, HELLO, MODEL, Headrace
from tests.acceptance.steps import Report, holds

_QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}


def check(report: Report, place: Place, site: Headrace) -> None:
    program = place.npm("@anthropic-ai/claude-code", "claude")
    home, work = str(place.folder("claude-code/home")), place.folder("claude-code/work")
    report.version = output([program, "--version"], work).split()[0]
    env = {"HOME": home, "CLAUDE_CONFIG_DIR": home, **_QUIET}
    env |= {"ANTHROPIC_BASE_URL": site.url, "ANTHROPIC_AUTH_TOKEN": "none"}

    def told(message: str, model: str | None = MODEL, *how: str) -> list[dict[str, Any]]:
        words: list[str | Path] = [
            program,
            "-p",
            message,
            "--output-format",
            "stream-json",
            "--verbose",
        ]
        words += [*how, "--allowedTools", "Bash", *(("--model", model) if model else ())]
        said = output(words, work, **env)
        return [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    with report.step("one turn with the model it asks for by itself (`claude-…`)"):
        result = told(HELLO, model=None)[-1]
        assert not result["is_error"], result["result"]
        holds(result["result"], GREETING)
        assert result["usage"]["output_tokens"] > 0, "no usage"
    with report.step("the conversation is continued, its first turn sent along"):
        holds(told("Second message", None, "--continue")[-1]["result"], "Second message")
        holds(site.first_prompts(site.runs()[0]), HELLO, "Second message")
    with report.step("`router` sorts the person's words, not what the program adds to them"):
        told(HELLO, "router")
        run = site.runs()[0]
        holds(site.first_prompt(run), "Which word fits", HELLO)
    with report.step("a tool round: `Bash` runs, its output comes back"):
        result = told("claude, call it")[-1]
        assert result["num_turns"] == 2, result
        holds(result["result"], "The tool said: headrace-42")
    for tried, message, most in (
        ("a failing model: its message is shown, the workflow ran once", FAIL_NOW, 1),
        ("the same in the middle of an answer (it asks once more)", FAIL_LATE, 2),
    ):
        with report.step(tried):
            before = len(site.runs())
            result = told(message)[-1]
            assert result["is_error"], result
            holds(result["result"], BROKE)
            runs = len(site.runs()) - before
            assert 1 <= runs <= most, f"{runs} runs"
