"""A silent workflow does not outlast the patience of the official clients (clients §2.7, §6.5)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anthropic
import openai
import pytest
from ollama import Client

from tests.fakes.headrace import Headrace, Tree, answers
from tests.fakes.upstream import DONE, Pause, Upstream, delta, stream

MODEL = "tester:assistant"
PATIENCE_SECONDS = 0.5


@contextmanager
def silent(root: Path) -> Iterator[Headrace]:
    """Says nothing for four times as long as clients wait."""
    go_on = Pause()
    play = stream(go_on, delta("Hello"), delta(finish_reason="stop"), DONE)
    tree = Tree(root, heartbeatSeconds=0.1).workflow("assistant", [answers()])
    timer = threading.Timer(4 * PATIENCE_SECONDS, go_on.set)
    with Upstream(play) as model, tree.model("Main", model.url).serve() as live:
        timer.start()
        yield live
        timer.cancel()


@pytest.mark.slow
def test_openais_chats_and_responses(tmp_path: Path) -> None:
    for kind in ("chat", "responses"):
        with (
            silent(tmp_path / kind) as live,
            openai.OpenAI(
                api_key="none",
                base_url=f"{live.url}/v1",
                timeout=PATIENCE_SECONDS,
                max_retries=0,
            ) as client,
        ):
            if kind == "chat":
                chunks = client.chat.completions.create(
                    model=MODEL, messages=[{"role": "user", "content": "hi"}], stream=True
                )
                text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            else:
                with client.responses.stream(model=MODEL, input="hi") as events:
                    text = events.get_final_response().output_text
        assert text == "Hello"


@pytest.mark.slow
def test_anthropics_messages(tmp_path: Path) -> None:
    with (
        silent(tmp_path) as live,
        anthropic.Anthropic(
            api_key="none", base_url=live.url, timeout=PATIENCE_SECONDS, max_retries=0
        ) as client,
        client.messages.stream(
            model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        ) as events,
    ):
        assert "".join(events.text_stream) == "Hello"


@pytest.mark.slow
def test_ollamas_chats(tmp_path: Path) -> None:
    with silent(tmp_path) as live:
        client = Client(host=live.url, timeout=PATIENCE_SECONDS)
        parts = client.chat(MODEL, [{"role": "user", "content": "hi"}], stream=True)
        assert "".join(part.message.content or "" for part in parts) == "Hello"
        client._client.close()
