"""What docs/front-ends.md tells people to type, typed."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.headrace import Headrace, Tree, answers

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "front-ends.md").read_text(encoding="utf-8")
SHIPPED = "http://127.0.0.1:5050"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def block_with(kind: str, word: str) -> str:
    (found,) = (block for block in blocks(kind) if word in block)
    return found


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Headrace]:
    tree = Tree(tmp_path).scripted("Main", "You said: {input}").workflow("assistant", [answers()])
    with tree.serve() as served:
        yield served


@pytest.mark.parametrize(
    ("library", "says"),
    [
        ("openai", "You said: What is my name?"),
        ("anthropic", "You said: Hello"),
        ("ollama", "You said: Hello"),
    ],
)
def test_the_snippets_of_sdks_work(
    live: Headrace, library: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    snippet = block_with("python", f"from {library} import")
    assert SHIPPED in snippet

    exec(compile(snippet.replace(SHIPPED, live.url), library, "exec"), {})

    assert says in capsys.readouterr().out


@pytest.mark.slow
def test_the_models_of_llm_work_without_a_key(live: Headrace, tmp_path: Path) -> None:
    text = block_with("yaml", "model_id").replace(SHIPPED, live.url)
    (model,) = yaml.safe_load(text)
    home = tmp_path / "llm"
    home.mkdir()
    (home / "extra-openai-models.yaml").write_text(text, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}

    done = subprocess.run(
        [sys.executable, "-m", "llm", "-m", model["model_id"], "Hello"],
        env={**env, "LLM_USER_PATH": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )

    assert (done.returncode, done.stdout.strip()) == (0, "You said: Hello"), done.stderr


def addresses(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from addresses(one)
    elif isinstance(value, str) and value.startswith("http://"):
        yield value


def test_files_of_programs_can_be_read_and_lead_here() -> None:
    codex = tomllib.loads(block_with("toml", "wire_api"))
    opencode = json.loads(block_with("json", "opencode.ai"))

    assert codex["model_providers"][codex["model_provider"]]["wire_api"] == "responses"
    provider, _, model = opencode["model"].partition("/")
    assert model in opencode["provider"][provider]["models"]
    assert {*addresses(codex), *addresses(opencode)} == {f"{SHIPPED}/v1"}
