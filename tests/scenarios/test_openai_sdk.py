"""The official ``openai`` client against the whole server: answers, and what shapes them
(clients §2.1-2.2, design §4). Errors and tools have files of their own.
"""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.fakes.headrace import Tree, answers
from tests.fakes.upstream import (
    DONE,
    Asked,
    Step,
    Upstream,
    chat,
    delta,
    reply,
    stream,
    usage_chunk,
    usage_of,
    whole,
)
from tests.scenarios.sdk import HI, MODEL, client_of, talking, text_of

SAMPLING: dict[str, Any] = {
    "temperature": 0.25,
    "max_tokens": 77,
    "stop": ["END"],
    "seed": 42,
    "response_format": {"type": "json_object"},
}


def test_models_are_listed_and_retrieved(tmp_path: Path) -> None:
    tree = Tree(tmp_path).scripted("Main").workflow("assistant", [answers()])
    tree.workflow("two words", [answers()])
    with tree.serve() as live, client_of(live) as client:
        listed = [model.id for model in client.models.list()]
        retrieved = [client.models.retrieve(name) for name in listed]

    assert sorted(listed) == ["tester:assistant", "tester:two words"]
    assert [(model.id, model.object) for model in retrieved] == [(name, "model") for name in listed]


def test_a_whole_answer(tmp_path: Path) -> None:
    with talking(tmp_path, chat("Hel", "lo")) as (client, model, _):
        completion = client.chat.completions.create(model=MODEL, messages=HI)

    (choice,) = completion.choices
    assert (choice.message.content, choice.message.role) == ("Hello", "assistant")
    assert (choice.finish_reason, choice.index) == ("stop", 0)
    assert (completion.model, completion.object) == (MODEL, "chat.completion")
    assert completion.usage is not None
    assert completion.usage.total_tokens == 12
    assert model.asked[0].json["messages"] == HI


def test_a_streamed_answer(tmp_path: Path) -> None:
    with talking(tmp_path, chat("Hel", "lo")) as (client, _, _):
        chunks = list(client.chat.completions.create(model=MODEL, messages=HI, stream=True))

    assert text_of(chunks) == "Hello"
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "stop"
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    assert {chunk.usage for chunk in chunks} == {None}


def test_the_stream_helper(tmp_path: Path) -> None:
    with (
        talking(tmp_path, chat("Hel", "lo")) as (client, _, _),
        client.chat.completions.stream(
            model=MODEL, messages=HI, stream_options={"include_usage": True}
        ) as events,
    ):
        deltas = [event.delta for event in events if event.type == "content.delta"]
        completion = events.get_final_completion()

    # The first one is the chunk that names the role.
    assert deltas == ["", "Hel", "lo"]
    assert completion.choices[0].message.content == "Hello"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert completion.usage.total_tokens == 12


def test_usage_comes_with_include_usage_in_a_chunk_of_its_own(tmp_path: Path) -> None:
    play = stream(delta("Hello"), delta(finish_reason="stop"), usage_chunk(26, 3), DONE)
    with talking(tmp_path, play) as (client, _, _):
        chunks = list(
            client.chat.completions.create(
                model=MODEL, messages=HI, stream=True, stream_options={"include_usage": True}
            )
        )

    *others, last = chunks
    assert {chunk.usage for chunk in others} == {None}
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.model_dump(exclude_none=True) == usage_of(26, 3)


def test_an_answer_cut_by_its_length_says_so(tmp_path: Path) -> None:
    with talking(tmp_path, chat("Hel", finish_reason="length")) as (client, _, _):
        whole_answer = client.chat.completions.create(model=MODEL, messages=HI)
        chunks = list(client.chat.completions.create(model=MODEL, messages=HI, stream=True))

    assert whole_answer.choices[0].finish_reason == "length"
    assert chunks[-1].choices[0].finish_reason == "length"


PNG = "data:image/png;base64,iVBORw0KGgo="
SHOWN: list[Any] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        ],
    }
]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_image_reaches_a_node_that_accepts_images(streamed: bool, tmp_path: Path) -> None:
    with talking(tmp_path, chat("A dot."), node={"acceptImages": True}) as (client, model, _):
        answer = client.chat.completions.create(model=MODEL, messages=SHOWN, stream=streamed)
        if streamed:
            list(answer)

    assert model.asked[0].json["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": PNG}},
            ],
        }
    ]


def test_and_no_other(tmp_path: Path) -> None:
    with talking(tmp_path, chat("What?")) as (client, model, _):
        client.chat.completions.create(model=MODEL, messages=SHOWN)

    assert model.asked[0].json["messages"] == [{"role": "user", "content": "What is this?"}]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_kept_out_of_the_text(field: str, tmp_path: Path) -> None:
    def thinks(asked: Asked) -> list[Step]:
        if not asked.json["stream"]:
            return whole(reply("42", **{field: "six times seven"}))
        return stream(
            delta(**{field: "six times "}),
            delta(**{field: "seven"}),
            delta("42"),
            delta(finish_reason="stop"),
            DONE,
        )

    with talking(tmp_path, thinks) as (client, _, _):
        message = client.chat.completions.create(model=MODEL, messages=HI).choices[0].message
        chunks = list(client.chat.completions.create(model=MODEL, messages=HI, stream=True))

    thought = "".join(
        getattr(choice.delta, "reasoning_content", None) or ""
        for chunk in chunks
        for choice in chunk.choices
    )
    assert (message.content, getattr(message, "reasoning_content", None)) == (
        "42",
        "six times seven",
    )
    assert (text_of(chunks), thought) == ("42", "six times seven")


class Verdict(BaseModel):
    fair: bool


def test_parse_sends_its_schema_and_reads_the_answer(tmp_path: Path) -> None:
    with talking(tmp_path, chat('{"fair": true}')) as (client, model, _):
        completion = client.chat.completions.parse(
            model=MODEL, messages=HI, response_format=Verdict
        )

    assert completion.choices[0].message.parsed == Verdict(fair=True)
    sent = model.asked[0].json["response_format"]
    assert (sent["type"], sent["json_schema"]["name"]) == ("json_schema", "Verdict")


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_sampling_fields_reach_the_responders_model(streamed: bool, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow(
        "assistant", [answers("Other"), answers(prompt="Say: {agent1Output}")]
    )
    with (
        Upstream(chat("draft")) as other,
        Upstream(chat('{"ok": true}')) as main,
        tree.model("Other", other.url).model("Main", main.url).serve() as live,
        client_of(live) as client,
    ):
        response = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=HI, stream=streamed, **SAMPLING
        )
        answer = response.parse()
        if streamed:
            list(answer)

    sent = main.asked[0].json
    assert {name: sent[name] for name in SAMPLING} == SAMPLING
    assert "x-headrace-ignored" not in response.headers
    drafted = other.asked[0].json
    assert drafted["max_tokens"] == 400
    assert not (SAMPLING.keys() - {"max_tokens"}) & drafted.keys()


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_in_the_references_dialect_they_are_ignored_and_named(
    streamed: bool, tmp_path: Path
) -> None:
    with talking(tmp_path, chat("ok"), dialect="reference") as (client, model, _):
        response = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=HI, stream=streamed, extra_body={"foo": 1}, **SAMPLING
        )
        answer = response.parse()
        if streamed:
            list(answer)

    sent = model.asked[0].json
    assert sent["max_tokens"] == 400
    assert not (SAMPLING.keys() - {"max_tokens"}) & sent.keys()
    ignored = response.headers["x-headrace-ignored"].split(", ")
    assert sorted(ignored) == sorted([*SAMPLING, "foo"])


def test_unknown_fields_are_named_and_never_an_error(tmp_path: Path) -> None:
    with talking(tmp_path, chat("ok")) as (client, model, _):
        response = client.chat.completions.with_raw_response.create(
            model=MODEL,
            messages=HI,
            temperature=0.5,
            service_tier="auto",
            extra_body={"chat_id": "c1"},
        )

    assert sorted(response.headers["x-headrace-ignored"].split(", ")) == [
        "chat_id",
        "service_tier",
    ]
    assert model.asked[0].json["temperature"] == 0.5
