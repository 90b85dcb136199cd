"""Whatever is sent to a door, it answers: no 500, no hang, JSON of the door (issue 3)."""

import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.doors import DOORS, Door
from tests.fakes.headrace import Headrace, Tree, static

ROUTES = [
    *((door.path, "POST") for door in DOORS),
    ("/v1/messages/count_tokens", "POST"),
    ("/v1/embeddings", "POST"),
    ("/api/embed", "POST"),
    ("/api/embeddings", "POST"),
    ("/api/show", "POST"),
    ("/api/pull", "POST"),
    ("/api/chat", "DELETE"),
    ("/v1/responses/resp_x/cancel", "POST"),
]

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = (
    *("model", "messages", "prompt", "input", "stream", "tools", "tool_choice", "system", "images"),
    *("options", "format", "think", "metadata", "stream_options", "text", "reasoning", "n"),
    *("instructions", "previous_response_id", "max_tokens", "stop", "thinking", "output_config"),
    *("request_id", "encoding_format", "dimensions", "name", "conversation", "background"),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Headrace]:
    root: Path = tmp_path_factory.mktemp("fuzz")
    with Tree(root).workflow("assistant", [static("Hello")]).serve() as live:
        yield live


def _check(live: Headrace, path: str, method: str, body: bytes) -> None:
    received = live.ask(method, path, body)
    assert received.complete
    assert received.status != 500, received.body
    assert received.status in (200, 400, 404, 413), received.body
    if received.status != 200:
        json.loads(received.body)


@pytest.mark.parametrize(("path", "method"), ROUTES, ids=lambda value: str(value))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(body=st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8))
def test_any_object_is_answered(
    live: Headrace, path: str, method: str, body: dict[str, Any]
) -> None:
    _check(live, path, method, json.dumps(body).encode())


@pytest.mark.parametrize("door", DOORS, ids=str)
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(name=st.sampled_from(FIELDS), value=JSON)
def test_any_value_in_a_good_request_is_answered(
    live: Headrace, door: Door, name: str, value: Any
) -> None:
    _check(live, door.path, "POST", json.dumps({**door.body(), name: value}).encode())


@pytest.mark.parametrize("door", DOORS, ids=str)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(message=JSON, part=JSON)
def test_any_message_is_answered(live: Headrace, door: Door, message: Any, part: Any) -> None:
    for messages in ([message], [{"role": "user", "content": [part]}], [{"role": part}]):
        body = {**door.body(), "messages": messages, "input": messages}
        _check(live, door.path, "POST", json.dumps(body).encode())


@pytest.mark.parametrize("door", DOORS, ids=str)
def test_flipped_bytes_are_answered(live: Headrace, door: Door) -> None:
    chance = random.Random(door.id)
    good = json.dumps(door.body("hé🌊"), ensure_ascii=False).encode()
    for _ in range(150):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        _check(live, door.path, "POST", bytes(bad[: chance.randint(1, len(bad))]))


RAW = [
    b"\x00\x01\x02\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /v1/messages HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/messages HTTP/1.1\r\nContent-Length: many\r\n\r\n",
    b"POST /api/chat HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /api/chat HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"GET /%00%ff%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n\r\n",
    b"GET /v1/models/%00 HTTP/1.1\r\n\r\n",
    b"GET /v1/responses/..%2f..%2fx HTTP/1.1\r\n\r\n",
    b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nX: " + b"b" * 300_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n: nothing\r\nno colon\r\n\r\n",
    b"BREW /v1/messages HTTP/1.1\r\n\r\n",
]


@pytest.mark.parametrize("raw", RAW, ids=lambda raw: repr(raw[:30]))
def test_raw_bytes_get_an_answer_or_a_closed_connection(live: Headrace, raw: bytes) -> None:
    with socket.create_connection(("127.0.0.1", live.port), 10) as client:
        client.sendall(raw)
        client.shutdown(socket.SHUT_WR)
        said = b""
        try:
            while data := client.recv(65536):
                said += data
        except ConnectionResetError:
            pass
    status = said.split(b" ", 2)[1:2]
    assert status == [] or int(status[0]) != 500, said[:200]
    assert live.ask("GET", "/health").status == 200
