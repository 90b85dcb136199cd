import base64
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.core.errors import BackendBadReply, BackendRejected, MalformedRequest
from Middleware.core.events import Usage
from Middleware.wire import ollama_embed, openai_embeddings
from Middleware.wire.embeddings import Embeddings, EmbeddingsRequest
from tests.wire.answers import VOICE


@dataclass(frozen=True)
class Accepts:
    id: str
    parse: Callable[[Mapping[str, Any]], EmbeddingsRequest]
    body: dict[str, Any]
    expected: EmbeddingsRequest


OPENAI, OLLAMA = openai_embeddings.parse_request, ollama_embed.parse_request
OLD = ollama_embed.parse_old_request

ACCEPTS = [
    Accepts("one text", OPENAI, {"input": "a"}, EmbeddingsRequest(model="", texts=("a",))),
    Accepts(
        "the SDK: base64",
        OPENAI,
        {"model": "m", "input": ["a", "b"], "encoding_format": "base64", "x": 1},
        EmbeddingsRequest(model="m", texts=("a", "b"), encoding="base64", unknown_fields=("x",)),
    ),
    Accepts(
        "all fields, nulls",
        OPENAI,
        {"input": [], "encoding_format": None, "dimensions": 256, "user": "u", "model": None},
        EmbeddingsRequest(model="", texts=(), parameters={"dimensions": 256, "user": "u"}),
    ),
    Accepts(
        "ollama",
        OLLAMA,
        {"model": "m", "input": ["a"], "truncate": True, "dimensions": 8},
        EmbeddingsRequest(
            model="m", texts=("a",), parameters={"dimensions": 8}, unknown_fields=("truncate",)
        ),
    ),
    Accepts(
        "ollama's older route",
        OLD,
        {"model": "m", "prompt": "a", "keep_alive": "5m"},
        EmbeddingsRequest(model="m", texts=("a",), unknown_fields=("keep_alive",)),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in ACCEPTS])
def test_parse_request(case: Accepts) -> None:
    assert case.parse(case.body) == case.expected


@pytest.mark.parametrize(
    ("parse", "body", "param", "said"),
    [
        (OPENAI, {}, "input", "is missing"),
        (OPENAI, {"input": 5}, "input", "must be a text"),
        (OPENAI, {"input": [1, 2]}, "input", "tokens"),
        (OPENAI, {"input": [[1, 2]]}, "input", "tokens"),
        (OPENAI, {"input": ["a", None]}, "input.1", "must be a text"),
        (OPENAI, {"input": "a", "encoding_format": "int8"}, "encoding_format", "must be"),
        (OPENAI, {"input": "a", "dimensions": 0}, "dimensions", "whole number"),
        (OPENAI, {"input": "a", "model": 1}, "model", "must be a text"),
        (OLLAMA, {"input": "a"}, "model", "is missing"),
        (OLLAMA, {"model": "m", "input": [[1]]}, "input", "tokens"),
        (OLLAMA, {"model": "m", "input": "a", "dimensions": "x"}, "dimensions", "whole number"),
        (OLD, {"model": "m"}, "prompt", "is missing"),
        (OLD, {"model": "m", "prompt": ["a"]}, "prompt", "must be a text"),
    ],
)
def test_a_wrong_field_is_refused_by_name(
    parse: Callable[[dict[str, Any]], EmbeddingsRequest],
    body: dict[str, Any],
    param: str,
    said: str,
) -> None:
    with pytest.raises(MalformedRequest, match=said) as caught:
        parse(body)

    assert caught.value.param == param


FOUND = Embeddings(vectors=([1.0, -0.5], [0.25, 2.0]), usage=Usage(prompt_tokens=7))


def test_the_answer_as_numbers() -> None:
    assert json.loads(openai_embeddings.encode_reply(FOUND, model="m", encoding="float")) == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [1.0, -0.5]},
            {"object": "embedding", "index": 1, "embedding": [0.25, 2.0]},
        ],
        "model": "m",
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
    }


def test_the_answer_as_base64_is_little_endian_floats() -> None:
    body = json.loads(openai_embeddings.encode_reply(FOUND, model="m", encoding="base64"))

    data = base64.b64decode(body["data"][1]["embedding"])
    assert struct.unpack("<2f", data) == (0.25, 2.0)


def test_the_answers_of_ollama() -> None:
    assert json.loads(ollama_embed.encode_reply(FOUND, model="m", total_nanoseconds=5)) == {
        "model": "m",
        "embeddings": [[1.0, -0.5], [0.25, 2.0]],
        "total_duration": 5,
        "load_duration": 0,
        "prompt_eval_count": 7,
    }
    assert json.loads(ollama_embed.encode_old_reply(FOUND)) == {"embedding": [1.0, -0.5]}


def test_requests_to_backends() -> None:
    for module in (openai_embeddings, ollama_embed):
        sent = module.encode_request(["a"], model="m", parameters={"dimensions": 2})
        assert sent == {"input": ["a"], "dimensions": 2, "model": "m"}


_vectors = st.lists(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=4),
    max_size=4,
).map(tuple)


@given(_vectors, st.sampled_from(("float", "base64")))
def test_what_we_encode_we_can_parse(vectors: tuple[list[float], ...], encoding: Any) -> None:
    found = Embeddings(vectors=vectors, usage=Usage(prompt_tokens=3))

    body = openai_embeddings.encode_reply(found, model="m", encoding=encoding)
    other = ollama_embed.encode_reply(found, model="m")

    assert openai_embeddings.parse_reply(body, len(vectors), VOICE) == found
    assert ollama_embed.parse_reply(other, len(vectors), VOICE) == found


def test_vectors_are_put_into_order_and_a_missing_index_is_zero() -> None:
    body = b'{"data":[{"index":1,"embedding":[2]},{"embedding":[1]}]}'

    assert openai_embeddings.parse_reply(body, 2, VOICE) == Embeddings(vectors=([1], [2]))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("[]", "0 vectors for 1 texts"),
        ('[{"embedding":[]}]', "no vector"),
        ('[{"embedding":null}]', "no vector"),
        ('[{"embedding":["x"]}]', "than numbers"),
        ('[{"embedding":"AA"}]', "no base64"),
        ('[{"embedding":"AAA="}]', "no base64"),
        ('[{"embedding":[1],"index":"x"}]', "no number"),
        ("[1]", "without `data`"),
        ("null", "without `data`"),
    ],
)
def test_an_answer_that_is_none(data: str, said: str) -> None:
    with pytest.raises(BackendBadReply, match=said):
        openai_embeddings.parse_reply(f'{{"data":{data}}}'.encode(), 1, VOICE)


def test_ollama_must_send_vectors_too() -> None:
    with pytest.raises(BackendBadReply, match="without `embeddings`"):
        ollama_embed.parse_reply(b'{"embedding":[1]}', 1, VOICE)
    with pytest.raises(BackendBadReply, match="2 vectors for 1 texts"):
        ollama_embed.parse_reply(b'{"embeddings":[[1],[2]]}', 1, VOICE)


def test_errors_at_status_200() -> None:
    for module in (openai_embeddings, ollama_embed):
        with pytest.raises(BackendRejected, match="no such model"):
            module.parse_reply(b'{"error":"no such model"}', 1, VOICE)
