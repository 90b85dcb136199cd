"""Vectors of texts, of OpenAI's interface and of Ollama's (config-files §13.5)."""

import base64
import struct
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import (
    BackendBadReply,
    BackendError,
    BackendRejected,
    ConfigError,
    RunCancelled,
)
from Middleware.core.events import Usage
from Middleware.llm.backend import backend_types
from Middleware.llm.backends.embeddings import EmbeddingsBackend
from Middleware.llm.connections import Connections
from Middleware.wire.embeddings import Embeddings
from tests.fakes.upstream import SILENCE, Answer, Upstream, refuses, whole
from tests.llm.setups import DEADLINE, Background, ask, setup

TEXTS = ("one", "two")


@dataclass(frozen=True)
class Kind:
    type: str
    path: str
    reply: Any

    def __str__(self) -> str:
        return self.type


OPENAI = Kind(
    "openAIEmbeddings",
    "/v1/embeddings",
    {
        # Out of order, as some servers send them.
        "data": [{"index": 1, "embedding": [3, 4]}, {"embedding": [1.5, 2]}],
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
    },
)
OLLAMA = Kind(
    "ollamaEmbeddings",
    "/api/embed",
    {"model": "m", "embeddings": [[1.5, 2], [3, 4]], "prompt_eval_count": 6},
)
both = pytest.mark.parametrize("kind", [OPENAI, OLLAMA], ids=str)


def backend(connections: Connections, kind: Kind, url: str, **keys: Any) -> EmbeddingsBackend:
    chosen = backend_types.get(kind.type)
    built = chosen(setup(connections, url, type_keys={"type": kind.type}, **keys))
    assert isinstance(built, EmbeddingsBackend)
    return built


@both
def test_texts_become_vectors(kind: Kind, connections: Connections) -> None:
    with Upstream(whole(kind.reply)) as server:
        model = backend(connections, kind, server.url, apiKey="sk-1")
        found = model.embed(TEXTS, CancelToken(), {"dimensions": 2})
        (asked,) = server.asked

    assert found == Embeddings(vectors=([1.5, 2], [3, 4]), usage=Usage(prompt_tokens=6))
    assert (asked.path, asked.json) == (
        kind.path,
        {"input": ["one", "two"], "dimensions": 2, "model": "m"},
    )
    assert asked.headers["authorization"] == "Bearer sk-1"


@both
def test_no_texts_no_call(kind: Kind, connections: Connections) -> None:
    with Upstream() as server:
        assert backend(connections, kind, server.url).embed((), CancelToken()).vectors == ()
        assert server.asked == []


@both
def test_the_model_may_be_left_out(kind: Kind, connections: Connections) -> None:
    with Upstream(whole(kind.reply)) as server:
        backend(connections, kind, server.url, dontIncludeModel=True).embed(TEXTS, CancelToken())
        assert "model" not in server.asked[0].json


BAD: list[tuple[str, Answer, type[BackendError]]] = [
    ("refused", refuses(500, "no"), BackendRejected),
    ("an error in a 200", whole({"error": "no"}), BackendRejected),
    ("one vector too few", whole({"data": [], "embeddings": []}), BackendBadReply),
    ("no vectors", whole({"data": [{}, {}], "embeddings": [[], []]}), BackendBadReply),
    ("a page", whole(b"<html>"), BackendBadReply),
]


@both
@pytest.mark.parametrize(("answer", "error"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_one_attempt_is_made(
    kind: Kind, answer: Answer, error: type[BackendError], connections: Connections
) -> None:
    with Upstream(answer) as server:
        with pytest.raises(error):
            backend(connections, kind, server.url, retries=2).embed(TEXTS, CancelToken())

        assert len(server.asked) == 1


@both
def test_cancelling_ends_the_call(kind: Kind, connections: Connections) -> None:
    cancel = CancelToken()
    with Upstream([SILENCE]) as server:
        model = backend(connections, kind, server.url)
        call = Background(lambda: model.embed(TEXTS, cancel))
        asked = server.wait_for(1)
        cancel.cancel()

        assert isinstance(call.result(), RunCancelled)
        assert asked.left.wait(DEADLINE)


@both
def test_it_writes_no_texts(kind: Kind, connections: Connections) -> None:
    model = backend(connections, kind, "http://127.0.0.1:1")

    with pytest.raises(ConfigError, match="makes vectors of texts and writes none"):
        list(model.complete(ask(), CancelToken()))


def test_vectors_in_base64_are_understood(connections: Connections) -> None:
    packed = base64.b64encode(struct.pack("<2f", 1.5, 2.0)).decode()
    reply = {"data": [{"index": 0, "embedding": packed}]}
    with Upstream(whole(reply)) as server:
        found = backend(connections, OPENAI, server.url).embed(("one",), CancelToken())

    assert found.vectors == ([1.5, 2.0],)


def test_every_type_of_the_table_is_known() -> None:
    assert set(backend_types.names()) == {
        *("openAIChatCompletion", "openAIApiChatImageSpecific", "openAIResponses"),
        *("claudeMessages", "ollamaApiChat", "ollamaApiChatImageSpecific", "ollamaApiGenerate"),
        *("openAIV1Completion", "koboldCppGenerate", "koboldCppGenerateImageSpecific"),
        *("openAIEmbeddings", "ollamaEmbeddings", "scripted"),
    }
