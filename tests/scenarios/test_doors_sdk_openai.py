"""The ``openai`` client: completions, embeddings, responses; and ``llm`` (clients §6.1)."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.fakes.headrace import Tree, answers, static, wait_until
from tests.fakes.upstream import (
    CUT,
    DONE,
    SILENCE,
    Upstream,
    chat,
    delta,
    reply,
    stream,
    usage_chunk,
    whole,
)
from tests.scenarios.sdk import MODEL, client_of, talking

SYSTEM = {"systemPrompt": "{chat_system_prompt}"}
"""A node that gives its model the client's system prompt."""
TOOL: Any = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def test_text_completions(tmp_path: Path) -> None:
    with talking(tmp_path, chat("Hel", "lo"), node=SYSTEM) as (client, model, _):
        told = client.completions.create(model=MODEL, prompt="hi")
        listed = client.completions.create(model=MODEL, prompt=["hi"])
        parts = list(client.completions.create(model=MODEL, prompt="hi", stream=True))
        client.completions.create(
            model=MODEL, prompt="[Beg_Sys]Be kind.[Beg_User]hi[Beg_Assistant]Rob:"
        )

    assert told.choices[0].text == listed.choices[0].text == "Hello"
    assert told.usage is not None
    assert told.usage.total_tokens == 12
    assert "".join(part.choices[0].text for part in parts) == "Hello"
    assert parts[-1].choices[0].finish_reason == "stop"
    assert model.asked[0].json["messages"] == [{"role": "user", "content": "hi"}]
    roles = [message["role"] for message in model.asked[-1].json["messages"]]
    assert roles == ["system", "user", "assistant"]


def test_several_prompts_are_refused_clearly(tmp_path: Path) -> None:
    with (
        talking(tmp_path) as (client, _, _),
        pytest.raises(openai.BadRequestError, match="one request for each"),
    ):
        client.completions.create(model=MODEL, prompt=["a", "b"])


def test_embeddings(tmp_path: Path) -> None:
    """The client asks for base64 unless told otherwise."""
    data = [{"index": i, "embedding": [0.5, float(i)]} for i in range(2)]
    tree = Tree(tmp_path, embeddingsEndpoint="Vectors")
    tree.write("ApiTypes/Vectors.json", {"type": "openAIEmbeddings"})
    with Upstream(whole({"data": data, "usage": {"prompt_tokens": 4}})) as model:
        tree.model("Vectors", model.url, apiTypeConfigFileName="Vectors")
        with tree.serve() as live, client_of(live) as client:
            hidden = client.embeddings.create(model="text-embedding-3-small", input=["a", "b"])
            plain = client.embeddings.create(model="x", input=["a", "b"], encoding_format="float")
            with pytest.raises(openai.BadRequestError, match="tokens"):
                client.embeddings.create(model="x", input=[1, 2])

    for told in (hidden, plain):
        assert [one.embedding for one in told.data] == [[0.5, 0.0], [0.5, 1.0]]
        assert told.usage.prompt_tokens == 4
    assert model.asked[0].json["input"] == ["a", "b"]


def test_without_a_model_for_embeddings_there_are_none(tmp_path: Path) -> None:
    with (
        talking(tmp_path) as (client, _, _),
        pytest.raises(openai.NotFoundError, match="embeddingsEndpoint"),
    ):
        client.embeddings.create(model="x", input="a")


def test_an_endpoint_that_makes_no_vectors_is_a_mistake_of_the_owner(tmp_path: Path) -> None:
    with (
        talking(tmp_path, embeddingsEndpoint="Main") as (client, _, _),
        pytest.raises(openai.BadRequestError, match="makes no vectors"),
    ):
        client.embeddings.create(model="x", input="a")


def test_aliases_are_found_though_they_are_not_listed(tmp_path: Path) -> None:
    with talking(tmp_path, chat("ok"), modelAliases={"gpt-*": "assistant"}) as (client, _, _):
        assert client.models.retrieve("gpt-4o").id == "gpt-4o"
        assert [model.id for model in client.models.list()] == [MODEL]
        with pytest.raises(openai.NotFoundError, match=MODEL):
            client.models.retrieve("asistant")


# Responses


def test_a_response_and_what_follows_from_it(tmp_path: Path) -> None:
    plays = (chat("one"), chat("two"), chat("three"))
    with talking(tmp_path, *plays, node=SYSTEM) as (client, model, _):
        first = client.responses.create(model=MODEL, input="a", instructions="Be kind.")
        second = client.responses.create(model=MODEL, input="b", previous_response_id=first.id)
        third = client.responses.create(
            model=MODEL, input="c", previous_response_id=second.id, instructions="Be brief."
        )
        again = client.responses.retrieve(second.id)
        items = client.responses.input_items.list(third.id).data
        client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(first.id)

    assert (first.output_text, second.output_text, third.output_text) == ("one", "two", "three")
    assert (first.status, first.usage and first.usage.total_tokens) == ("completed", 12)
    assert again == second
    assert [item.type for item in items] == ["message"]
    sent = [message["content"] for message in model.asked[2].json["messages"]]
    assert sent == ["Be brief.", "a", "one", "b", "two", "c"]


def test_what_is_not_to_be_stored_is_not(tmp_path: Path) -> None:
    with talking(tmp_path, chat("one")) as (client, _, live):
        response = client.responses.create(model=MODEL, input="a", store=False)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(response.id)
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            client.responses.create(model=MODEL, input="b", previous_response_id=response.id)
        assert not (live.parts.store.locations.public / "SqlLiteDBs/responses.sqlite").exists()


def test_responses_of_others_cannot_be_seen(tmp_path: Path) -> None:
    with talking(tmp_path, chat("one")) as (client, _, live):
        response = client.responses.create(model=MODEL, input="a")
        with client_of(live, api_key="somebody else") as other:
            for call in (other.responses.retrieve, other.responses.delete):
                with pytest.raises(openai.NotFoundError):
                    call(response.id)
        assert client.responses.retrieve(response.id).output_text == "one"


def test_kept_responses_outlive_the_server(tmp_path: Path) -> None:
    with talking(tmp_path, chat("one")) as (client, _, _):
        response = client.responses.create(model=MODEL, input="a")
    with talking(tmp_path, chat("two")) as (client, _, _):
        assert client.responses.retrieve(response.id).output_text == "one"


def test_the_responses_helper_and_its_events(tmp_path: Path) -> None:
    with (
        talking(tmp_path, chat("Hel", "lo")) as (client, _, _),
        client.responses.stream(model=MODEL, input="a") as events,
    ):
        kinds = [event.type for event in events]
        final = events.get_final_response()
        kept = client.responses.retrieve(final.id)

    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert final.output_text == kept.output_text == "Hello"


def test_tools_of_the_responses_interface_go_round(tmp_path: Path) -> None:
    call = {"id": "c1", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
    plays = (whole(reply(None, tool_calls=[call])), chat("It rains."))
    with talking(tmp_path, *plays, node={"allowTools": True}) as (client, model, _):
        first = client.responses.create(model=MODEL, input="a", tools=[TOOL])
        (item,) = first.output
        assert item.type == "function_call"
        result: Any = {
            "type": "function_call_output",
            "call_id": item.call_id,
            "output": "Rain",
        }
        second = client.responses.create(
            model=MODEL, input=[result], previous_response_id=first.id, tools=[TOOL]
        )

    assert item.arguments == '{"city":"Rome"}'
    assert second.output_text == "It rains."
    roles = [message["role"] for message in model.asked[1].json["messages"]]
    assert roles == ["user", "assistant", "tool"]


class Point(BaseModel):
    x: int


def test_parsed_responses(tmp_path: Path) -> None:
    with talking(tmp_path, chat('{"x": 4}')) as (client, model, _):
        told = client.responses.parse(model=MODEL, input="a", text_format=Point)

    assert told.output_parsed == Point(x=4)
    assert model.asked[0].json["response_format"]["json_schema"]["name"] == "Point"


def test_a_response_that_is_being_streamed_can_be_seen_and_cancelled(tmp_path: Path) -> None:
    with talking(tmp_path, stream(delta("Hel"), SILENCE)) as (client, model, live):
        events = client.responses.create(model=MODEL, input="a", stream=True)
        created = next(iter(events))
        assert created.type == "response.created"
        id = created.response.id
        assert client.responses.retrieve(id).status == "in_progress"
        assert client.responses.cancel(id).status == "cancelled"
        last = list(events)[-1]
        assert model.asked[0].left.wait(1)
        wait_until(lambda: not live.site.pulse)
        kept = client.responses.retrieve(id)
        with pytest.raises(openai.BadRequestError):
            client.responses.cancel(id)

    assert last.type == "response.failed"
    assert (kept.status, kept.output_text) == ("cancelled", "Hel")


def test_a_database_that_cannot_be_used_spoils_no_answer(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "responses.sqlite"
    folder.mkdir(parents=True)
    tree = Tree(tmp_path).workflow("assistant", [static("Hello")])
    with (
        tree.serve(sqlite_directory=tmp_path / "data") as live,
        client_of(live, max_retries=0) as client,
    ):
        response = client.responses.create(model=MODEL, input="a")
        assert response.output_text == "Hello"
        with pytest.raises(openai.InternalServerError) as refused:
            client.responses.retrieve(response.id)

    assert refused.value.status_code == 503
    assert str(tmp_path) not in str(refused.value)


CODEX: dict[str, Any] = {
    "model": MODEL,
    "stream": True,
    "instructions": "Be kind.",
    "input": [
        {
            "type": "message",
            "id": "item_1",
            "role": "developer",
            "content": [{"type": "input_text", "text": "You are Codex."}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "hi"}],
        },
    ],
    "tools": [
        TOOL,
        {"type": "namespace", "name": "mcp", "tools": [{**TOOL, "name": "look"}]},
        {"type": "web_search"},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "p",
    "client_metadata": {"a": "b"},
}


@pytest.mark.parametrize(
    ("play", "last", "code"),
    [
        (chat("Hel", "lo"), "response.completed", None),
        (chat("Hel", finish_reason="length"), "response.incomplete", None),
        (stream(delta("a"), delta("b"), CUT), "response.failed", "invalid_prompt"),
        (
            stream(delta("a"), {"error": {"message": "slow", "code": 429}}),
            "response.failed",
            "rate_limit_exceeded",
        ),
    ],
    ids=["text", "cut by length", "backend breaks", "backend fails"],
)
def test_what_codex_sends_always_ends_with_a_last_event(
    play: Any, last: str, code: str | None, tmp_path: Path
) -> None:
    """C-53."""
    with talking(tmp_path, play, node={"allowTools": True}) as (client, model, _):
        events: Any = client.post(
            "/responses", body=CODEX, cast_to=object, stream=True, stream_cls=openai.Stream[Any]
        )
        told = [event if isinstance(event, dict) else event.model_dump() for event in events]

    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert told[-1]["type"] == last
    assert (told[-1]["response"]["error"] or {}).get("code") == code
    names = [tool["function"]["name"] for tool in model.asked[0].json["tools"]]
    assert len(names) == 2


def test_a_response_that_is_not_kept_cannot_be_gone_on_from(tmp_path: Path) -> None:
    with talking(tmp_path) as (client, _, _), pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="a", previous_response_id="resp_no")

    assert refused.value.param == "previous_response_id"


# The program `llm`


def _llm(root: Path, url: str, *arguments: str, model: str = "here") -> str:
    home = root / "llm"
    home.mkdir(exist_ok=True)
    (home / "extra-openai-models.yaml").write_text(
        f"- model_id: here\n  model_name: {MODEL}\n  api_base: {url}/v1\n  supports_schema: true\n"
        f"  supports_tools: true\n"
        f"- model_id: text\n  model_name: {MODEL}\n  api_base: {url}/v1\n  completion: true\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "llm", "-m", model, *arguments],
        env={**os.environ, "LLM_USER_PATH": str(home), "OPENAI_API_KEY": "none"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_the_program_llm(tmp_path: Path) -> None:
    pytest.importorskip("llm")
    call = [{"index": 0, "id": "c1", "function": {"name": "llm_version", "arguments": "{}"}}]
    calls = stream(
        delta(tool_calls=call), delta(finish_reason="tool_calls"), usage_chunk(1, 1), DONE
    )
    plays = (
        chat("Hel", "lo"),
        chat("Hel", "lo"),
        chat('{"x": 1}'),
        chat("text"),
        calls,
        chat("ok"),
    )
    with talking(tmp_path, *plays, node={"allowTools": True}) as (_, model, live):
        assert _llm(tmp_path, live.url, "hi") == "Hello"
        assert _llm(tmp_path, live.url, "hi", "--no-stream") == "Hello"
        assert '"x": 1' in _llm(tmp_path, live.url, "hi", "--schema", "x int")
        assert _llm(tmp_path, live.url, "hi", model="text") == "text"
        assert _llm(tmp_path, live.url, "hi", "-T", "llm_version") == "ok"

    assert model.asked[2].json["response_format"]["type"] == "json_schema"
    assert [one["role"] for one in model.asked[5].json["messages"]] == [
        "user",
        "assistant",
        "tool",
    ]


def test_a_static_workflow_speaks_through_responses_too(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers(), static("Bye")])
    with (
        Upstream(chat("Hi")) as model,
        tree.model("Main", model.url).serve() as live,
        client_of(live) as client,
    ):
        assert client.responses.create(model=MODEL, input="a").output_text == "Bye"
