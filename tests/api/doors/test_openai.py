"""The OpenAI door over HTTP: routes, bodies, errors."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.errors import UnknownModel
from Middleware.core.events import Event, Finish, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from tests.fakes.live_site import CHAT, HI, Live, make_site, serving
from tests.fakes.runner import FakeRunner, Turn


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with serving(make_site(FakeRunner())) as live:
        yield live


@pytest.mark.parametrize(
    "path",
    [CHAT, "/chat/completions", f"{CHAT}/", f"{CHAT}?beta=true", f"{CHAT}//?x=1&y"],
)
def test_slashes_at_the_end_and_queries_make_no_difference(live: Live, path: str) -> None:
    received = live.ask("POST", path, {"messages": HI})

    assert received.status == 200
    assert received.json["choices"][0]["message"]["content"] == "hellothereworld"


def test_a_whole_answer_has_all_that_clients_want() -> None:
    def script(turn: Turn) -> Iterator[Event]:
        yield ReasoningDelta("hm")
        yield TextDelta("4")
        yield ToolCallDelta(0, "{}", "call_1", "weather")
        yield Finish("tool_calls", Usage(prompt_tokens=5, completion_tokens=2))

    runner = FakeRunner(script, ignored=("seed",), conversation_id="c-1")
    with serving(make_site(runner)) as live:
        received = live.chat(stream=False)

    body = received.json
    assert body.pop("id") == f"chatcmpl-{runner.turn.request_id}"
    assert isinstance(body.pop("created"), int)
    assert body == {
        "object": "chat.completion",
        "model": "alice:fake",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "4",
                    "reasoning_content": "hm",
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "weather", "arguments": "{}"},
                        }
                    ],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    }
    assert received.headers["content-type"] == "application/json"
    assert received.headers["x-headrace-ignored"] == "seed"
    assert received.headers["x-conversation-id"] == "c-1"
    assert received.headers["x-request-id"] == runner.turn.request_id


@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8"],
)
def test_the_body_is_read_as_json_whatever_the_content_type(
    live: Live, content_type: str | None
) -> None:
    """Field case C-48, clients A1."""
    headers = {"Content_Type": content_type} if content_type else {}
    received = live.ask("POST", CHAT, {"messages": HI}, **headers)

    assert received.status == 200


def test_a_byte_order_mark_is_no_harm(live: Live) -> None:
    body = b"\xef\xbb\xbf" + json.dumps({"messages": HI}).encode()

    assert live.ask("POST", CHAT, body).status == 200


@pytest.mark.parametrize(
    "body",
    [b"", b'{"model":', b"[]", b"true", b"null", b"123", b'"x"', b"\xff\xfe{}", b'{"a":\xff}'],
    ids=repr,
)
@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_a_body_that_is_no_object_is_a_400_that_says_why(
    live: Live, body: bytes, content_type: str
) -> None:
    """Field case C-48."""
    received = live.ask("POST", CHAT, body, Content_Type=content_type)

    assert received.status == 400
    assert received.headers["content-type"] == "application/json"
    assert received.json["error"]["type"] == "invalid_request_error"
    assert received.json["error"]["message"]


@dataclass(frozen=True)
class BadMessages:
    id: str
    body: dict[str, Any]
    param: str


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.id)
        for case in (
            BadMessages("absent", {}, "messages"),
            BadMessages("empty", {"messages": []}, "messages"),
            BadMessages("no role", {"messages": [{}]}, "messages.0.role"),
            BadMessages(
                "wizard", {"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role"
            ),
        )
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_bad_messages_are_a_plain_400_also_when_a_stream_was_asked_for(
    live: Live, case: BadMessages, stream: bool
) -> None:
    """Field case C-49."""
    received = live.ask("POST", CHAT, {**case.body, "stream": stream})

    assert received.status == 400
    assert received.headers["content-type"] == "application/json"
    assert received.json["error"]["param"] == case.param


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_unknown_model_is_a_404_with_near_names(stream: bool) -> None:
    refusal = UnknownModel("genral", ("general",))
    with serving(make_site(FakeRunner(refusal=refusal))) as live:
        received = live.chat(stream=stream)

    assert received.status == 404
    assert received.json["error"]["code"] == "model_not_found"
    assert received.json["error"]["param"] == "model"
    assert "'general'" in received.json["error"]["message"]
    assert not live.site.pulse


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/models/", "/models", "/models/?x=1", "/v1/models?x=1"]
)
def test_the_model_list_is_found_with_and_without_slash_and_query(live: Live, path: str) -> None:
    """Field case C-52."""
    received = live.ask("GET", path)

    assert received.status == 200
    assert received.headers["content-type"] == "application/json"
    listed = received.json
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == [
        "alice:general",
        "alice:with/slash and space",
    ]
    assert all(type(model["created"]) is int and model["owned_by"] for model in listed["data"])


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/v1/models/alice:general", "alice:general"),
        ("/models/alice:general", "alice:general"),
        ("/v1/models/alice:general/", "alice:general"),
        ("/v1/models/general", "alice:general"),
        ("/v1/models/general:latest", "alice:general"),
        ("/v1/models/alice%3Ageneral?x=1", "alice:general"),
        ("/v1/models/alice:general:latest", "alice:general"),
        ("/v1/models/alice:with%2Fslash%20and%20space", "alice:with/slash and space"),
        ("/v1/models/alice:with/slash%20and%20space", "alice:with/slash and space"),
    ],
)
def test_one_model_can_be_asked_for(live: Live, path: str, found: str) -> None:
    received = live.ask("GET", path)

    assert received.status == 200
    assert received.json["id"] == found
    assert received.json["object"] == "model"


def test_a_model_that_does_not_exist_is_a_404_with_near_names(live: Live) -> None:
    received = live.ask("GET", "/v1/models/alice:genral")

    assert received.status == 404
    assert received.json["error"]["code"] == "model_not_found"
    assert "alice:general" in received.json["error"]["message"]


@pytest.mark.parametrize("path", ["/nope", "/v1/", "/v1/chat", "/v1//models", "/%ff%fe", "/a\\b"])
def test_an_unknown_route_is_a_404_in_json(live: Live, path: str) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        received = live.ask(method, path, b"" if method == "POST" else None)

        assert received.status == 404
        assert received.headers["content-type"] == "application/json"
        assert received.json["error"]["code"] == "route_not_found"


def test_an_interface_that_is_not_offered_says_so(live: Live) -> None:
    """Field case C-53."""
    received = live.ask("POST", "/v1/responses", {"stream": True, "input": []})

    assert received.status == 404
    assert received.json["error"]["message"] == "POST /v1/responses is not served here."


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", CHAT, "OPTIONS, POST"),
        ("DELETE", CHAT, "OPTIONS, POST"),
        ("BREW", CHAT, "OPTIONS, POST"),
        ("POST", "/v1/models", "GET, HEAD, OPTIONS"),
        ("PUT", "/health", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_wrong_method_is_a_405_that_lists_the_right_ones(
    live: Live, method: str, path: str, allow: str
) -> None:
    received = live.ask(method, path, b"{}")

    assert received.status == 405
    assert received.headers["allow"] == allow
    assert received.headers["content-type"] == "application/json"
    assert received.json["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/nope", CHAT])
def test_head_answers_as_get_does_without_a_body(live: Live, path: str) -> None:
    got = live.ask("GET", path)
    with live.connect() as client:
        client.send("HEAD", path)
        head = client.receive(head_only=True)
        client.send("GET", "/health")
        after = client.receive()

    assert head.status == got.status
    assert head.headers["content-type"] == got.headers["content-type"]
    assert after.status == 200


def test_options_tells_the_methods(live: Live) -> None:
    received = live.ask("OPTIONS", CHAT)

    assert received.status == 200
    assert received.body == b""
    assert "content-type" not in received.headers
    assert set(received.headers["allow"].split(", ")) == {"OPTIONS", "POST"}
    assert "access-control-allow-origin" not in received.headers


def test_a_conversation_id_of_the_client_reaches_the_run() -> None:
    runner = FakeRunner()
    with serving(make_site(runner)) as live:
        live.ask("POST", CHAT, {"messages": HI}, X_Conversation_Id=" c-7 ")
        live.ask("POST", CHAT, {"messages": HI}, X_Conversation_Id=" ")

    assert [turn.discussion_id for turn in runner.turns] == ["c-7", None]


def test_the_openai_library_is_content() -> None:
    openai = pytest.importorskip("openai")
    with serving(make_site(FakeRunner())) as live:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{live.port}/v1", api_key="any")
        with client:
            asked: Any = {"model": "m", "messages": list(HI)}
            whole = client.chat.completions.create(**asked)
            pieces = [
                chunk.choices[0].delta.content
                for chunk in client.chat.completions.create(**asked, stream=True)
            ]
            with client.chat.completions.stream(**asked) as stream:
                helped = stream.get_final_completion()
            models = [model.id for model in client.models.list()]
            with pytest.raises(openai.NotFoundError) as unknown:
                client.models.retrieve("nope")

    assert whole.choices[0].message.content == "hellothereworld"
    assert pieces == ["", "hello", "there", "world", None]
    assert helped.choices[0].message.content == "hellothereworld"
    assert models == ["alice:general", "alice:with/slash and space"]
    assert "no model 'nope'" in str(unknown.value)
