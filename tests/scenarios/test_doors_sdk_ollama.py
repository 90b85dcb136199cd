"""The official ``ollama`` client against the whole server (clients §6.1)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ollama import Client, ResponseError

from tests.fakes.headrace import Tree, answers
from tests.fakes.upstream import Answer, Upstream, chat, refuses, reply, whole

MODEL = "tester:assistant"
HI: list[Any] = [{"role": "user", "content": "hi"}]


@contextmanager
def talking(
    root: Path, *plays: Answer, node: dict[str, Any] | None = None, **user: Any
) -> Iterator[tuple[Client, Upstream]]:
    tree = Tree(root, **user).workflow("assistant", [answers(**(node or {}))])
    with Upstream(*plays) as model, tree.model("Main", model.url).serve() as live:
        client = Client(host=live.url)
        try:
            yield client, model
        finally:
            client._client.close()


def test_models_are_listed_shown_and_not_running(tmp_path: Path) -> None:
    with talking(tmp_path) as (client, _):
        listed = [model.model for model in client.list().models]
        shown = client.show(f"{MODEL}:latest")
        running = client.ps().models

    assert listed == [f"{MODEL}:latest"]
    assert "tools" in (shown.capabilities or [])
    assert list(running) == []


@pytest.mark.parametrize("name", ["assistant", f"{MODEL}:latest"])
def test_a_workflow_is_pulled_at_once_by_any_of_its_names(name: str, tmp_path: Path) -> None:
    """``codex --oss -m assistant`` pulls what is not listed by just this name."""
    with talking(tmp_path) as (client, _):
        told = [progress.status for progress in client.pull(name, stream=True)]
        whole = client.pull(name).status
        with pytest.raises(ResponseError, match="asistant") as refused:
            client.pull("asistant")

    assert told == [whole] == ["success"]
    assert refused.value.status_code == 404


def test_a_chat_streamed_and_whole(tmp_path: Path) -> None:
    with talking(tmp_path, chat("Hel", "lo")) as (client, _):
        answer = client.chat(MODEL, HI)
        parts = list(client.chat(f"{MODEL}:latest", HI, stream=True))

    assert (answer.message.role, answer.message.content) == ("assistant", "Hello")
    assert (answer.done, answer.done_reason) == (True, "stop")
    assert (answer.prompt_eval_count, answer.eval_count) == (5, 7)
    assert "".join(part.message.content or "" for part in parts) == "Hello"
    assert parts[-1].done
    assert parts[-1].eval_count == 7


def test_tools_go_round(tmp_path: Path) -> None:
    def weather(city: str) -> str:
        """Tell the weather.

        Args:
            city: Where.
        """
        return f"Rain in {city}"

    call = {"id": "c1", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
    plays = (whole(reply(None, tool_calls=[call])), chat("It rains."))
    with talking(tmp_path, *plays, node={"allowTools": True}) as (client, model):
        first = client.chat(MODEL, HI, tools=[weather])
        (called,) = first.message.tool_calls or ()
        said = weather(**called.function.arguments)
        history = [*HI, first.message, {"role": "tool", "content": said, "tool_name": "weather"}]
        second = client.chat(MODEL, history, tools=[weather])

    assert called.function.arguments == {"city": "Rome"}
    assert second.message.content == "It rains."
    sent = model.asked[1].json["messages"]
    assert sent[-1]["tool_call_id"] == sent[-2]["tool_calls"][0]["id"]


def test_options_and_format_reach_the_model(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    with talking(tmp_path, chat('{"x": 1}')) as (client, model):
        client.chat(MODEL, HI, options={"temperature": 0.5, "num_predict": 9}, format=schema)

    sent = model.asked[0].json
    assert sent["temperature"] == 0.5
    assert sent["max_tokens"] == 9
    assert sent["response_format"]["json_schema"]["schema"] == schema


def test_generate_streamed_and_whole(tmp_path: Path) -> None:
    with talking(tmp_path, chat("Hel", "lo")) as (client, _):
        answer = client.generate(MODEL, "hi", system="[Beg_Sys]Be kind.[Beg_User]")
        parts = list(client.generate(MODEL, "hi", stream=True))
        loaded = client.generate(MODEL)
        unloaded = client.generate(MODEL, keep_alive=0)

    assert answer.response == "Hello"
    assert "".join(part.response or "" for part in parts) == "Hello"
    assert (loaded.done_reason, unloaded.done_reason) == ("load", "unload")


def test_vectors(tmp_path: Path) -> None:
    with talking(tmp_path) as (client, _), pytest.raises(ResponseError) as none:
        client.embed("nomic-embed-text", "hi")
    assert none.value.status_code == 404
    assert "embeddingsEndpoint" in none.value.error

    data = [{"index": i, "embedding": [0.5, float(i)]} for i in range(2)]
    tree = Tree(tmp_path / "b", embeddingsEndpoint="Vectors")
    tree.write("ApiTypes/Vectors.json", {"type": "openAIEmbeddings"})
    with Upstream(whole({"data": data}), whole({"data": data[:1]})) as model:
        tree.model("Vectors", model.url, apiTypeConfigFileName="Vectors")
        with tree.serve() as live:
            client = Client(host=live.url)
            many = client.embed("nomic-embed-text", ["a", "b"])
            one = client.embeddings("nomic-embed-text", "a")
            client._client.close()

    assert [list(vector) for vector in many.embeddings] == [[0.5, 0.0], [0.5, 1.0]]
    assert list(one.embedding) == [0.5, 0.0]


def test_errors_are_told(tmp_path: Path) -> None:
    with talking(tmp_path, refuses(429, "slow down")) as (client, _):
        with pytest.raises(ResponseError) as busy:
            client.chat(MODEL, HI)
        with pytest.raises(ResponseError) as unknown:
            list(client.chat("asistant", HI, stream=True))

    assert (busy.value.status_code, unknown.value.status_code) == (429, 404)
    assert "slow down" in busy.value.error
    assert MODEL in unknown.value.error
