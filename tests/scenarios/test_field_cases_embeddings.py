"""The field cases that concern embeddings, for both API types of theirs, through both doors."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Headrace, Tree, wait_until
from tests.fakes.live_site import Received
from tests.fakes.upstream import (
    CUT,
    SILENCE,
    Answer,
    Upstream,
    byte_by_byte,
    head,
    nobody_listens,
    whole,
)
from tests.fakes.vendors import SHIPPED


@dataclass(frozen=True)
class Kind:
    id: str
    path: str
    reply: Callable[[list[list[float]]], Any]
    error: Any

    def __str__(self) -> str:
        return self.id


def _openai(vectors: list[list[float]]) -> Any:
    found = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    # Servers may tell them in any order.
    return {"object": "list", "data": found[::-1], "usage": {"prompt_tokens": 3, "total_tokens": 3}}


def _ollama(vectors: list[list[float]]) -> Any:
    return {"model": "m", "embeddings": vectors, "prompt_eval_count": 3}


OPENAI = Kind(
    "OpenAI-Embeddings",
    "/v1/embeddings",
    _openai,
    {"error": {"message": "boom", "type": "server_error", "code": 503}},
)
OLLAMA = Kind("Ollama-Embeddings", "/api/embed", _ollama, {"error": "boom"})

every_kind = pytest.mark.parametrize("kind", [OPENAI, OLLAMA], ids=str)
both_doors = pytest.mark.parametrize("door", ["/v1/embeddings", "/api/embed"])

VECTORS = [[0.5, 0.25], [1.0, 0.0]]


@contextmanager
def serving(kind: Kind, root: Path, url: str, **settings: Any) -> Iterator[Headrace]:
    tree = Tree(root, embeddingsEndpoint="Vectors")
    tree.write(f"ApiTypes/{kind.id}.json", (SHIPPED / f"{kind.id}.json").read_text("utf-8"))
    tree.model("Vectors", url, apiTypeConfigFileName=kind.id, **settings)
    with tree.serve() as live:
        yield live


def embed(live: Headrace, door: str, texts: Any = ("a", "b")) -> Received:
    return live.ask("POST", door, {"model": "x", "input": texts})


def vectors_in(received: Received) -> list[list[float]]:
    assert received.status == 200, received.body
    if "embeddings" in received.json:
        return list(received.json["embeddings"])
    return [one["embedding"] for one in received.json["data"]]


def message_in(received: Received) -> str:
    error = received.json["error"]
    return str(error["message"] if isinstance(error, Mapping) else error)


@both_doors
@every_kind
def test_c16_bytes_may_come_one_by_one(kind: Kind, door: str, tmp_path: Path) -> None:
    play = byte_by_byte(whole(kind.reply(VECTORS)))
    with Upstream(play) as model, serving(kind, tmp_path, model.url) as live:
        assert vectors_in(embed(live, door)) == VECTORS
        assert model.asked[0].path == kind.path
        assert model.asked[0].json == {"model": "test-model", "input": ["a", "b"]}


@both_doors
@every_kind
def test_c07_an_answer_may_be_megabytes_long(kind: Kind, door: str, tmp_path: Path) -> None:
    large = [[number / 7 for number in range(90_000)]] * 2
    with Upstream(whole(kind.reply(large))) as model, serving(kind, tmp_path, model.url) as live:
        assert [len(one) for one in vectors_in(embed(live, door))] == [90_000, 90_000]


@both_doors
@every_kind
def test_c17_half_a_character_is_never_sent_on(kind: Kind, door: str, tmp_path: Path) -> None:
    raw = b'{"model":"x","input":["bad \\ud800 end"]}'
    with (
        Upstream(whole(kind.reply(VECTORS[:1]))) as model,
        serving(kind, tmp_path, model.url) as live,
    ):
        assert vectors_in(live.ask("POST", door, raw)) == VECTORS[:1]
        assert model.asked[0].json["input"] == ["bad \ufffd end"]


@every_kind
def test_c18_who_leaves_frees_the_model_server(kind: Kind, tmp_path: Path) -> None:
    with Upstream([SILENCE]) as model, serving(kind, tmp_path, model.url) as live:
        with live.connect() as client:
            client.send("POST", "/v1/embeddings", {"model": "x", "input": "a"})
            first = model.wait_for(1)
        assert first.left.wait(2)
        wait_until(live.is_quiet)


@both_doors
@every_kind
def test_c20_the_time_to_wait_is_passed_on(kind: Kind, door: str, tmp_path: Path) -> None:
    body = {"error": {"message": "slow down", "type": "rate_limit_error"}}
    play = whole(body, 429, {"Retry-After": "70"})
    with Upstream(play) as model, serving(kind, tmp_path, model.url) as live:
        received = embed(live, door)
        assert (received.status, received.headers["retry-after"]) == (429, "70")
        assert message_in(received).endswith("answered 429: slow down")
        assert len(model.asked) == 1


@every_kind
def test_c22_silence_has_an_end(kind: Kind, tmp_path: Path) -> None:
    with (
        Upstream([SILENCE]) as model,
        serving(kind, tmp_path, model.url, readTimeoutInSeconds=1) as live,
    ):
        received = embed(live, "/v1/embeddings")
        assert received.status == 504
        assert received.headers["x-should-retry"] == "false"


USELESS: Mapping[str, Callable[[Kind], Answer]] = {
    "html": lambda kind: whole(b"<html>Sign in</html>"),
    "empty": lambda kind: whole(b""),
    "nothing in it": lambda kind: whole({}),
    "too few vectors": lambda kind: whole(kind.reply(VECTORS[:1])),
    "too many vectors": lambda kind: whole(kind.reply([*VECTORS, [1.0]])),
    "an empty vector": lambda kind: whole(kind.reply([[], [1.0]])),
    "cut off (C-01)": lambda kind: [
        head(headers={"Content-Length": "1000", "Content-Type": "application/json"}) + b'{"data":',
        CUT,
    ],
}


@both_doors
@pytest.mark.parametrize("useless", USELESS)
@every_kind
def test_c23_a_200_without_vectors_is_an_error(
    kind: Kind, useless: str, door: str, tmp_path: Path
) -> None:
    with Upstream(USELESS[useless](kind)) as model, serving(kind, tmp_path, model.url) as live:
        received = embed(live, door)
        assert received.status == 502
        assert "Endpoint 'Vectors'" in message_in(received)


@both_doors
@every_kind
def test_c23_an_error_in_a_200_is_an_error(kind: Kind, door: str, tmp_path: Path) -> None:
    with Upstream(whole(kind.error)) as model, serving(kind, tmp_path, model.url) as live:
        received = embed(live, door)
        assert received.status in (502, 503)
        assert message_in(received).endswith("boom")


@both_doors
@every_kind
def test_a_dead_server_is_reported(kind: Kind, door: str, tmp_path: Path) -> None:
    with serving(kind, tmp_path, nobody_listens()) as live:
        received = embed(live, door)
        assert received.status == 503
        assert "cannot be reached" in message_in(received)


@pytest.mark.parametrize("status", [401, 403])
@every_kind
def test_a_refused_key_is_not_the_clients(kind: Kind, status: int, tmp_path: Path) -> None:
    play = whole({"error": {"message": "bad key sk-canary-9f2c7d"}}, status)
    with (
        Upstream(play) as model,
        serving(kind, tmp_path, model.url, apiKey="sk-canary-9f2c7d") as live,
    ):
        received = embed(live, "/v1/embeddings")
        assert received.status == 502
        assert model.asked[0].headers["authorization"] == "Bearer sk-canary-9f2c7d"
        assert b"sk-canary" not in received.body
