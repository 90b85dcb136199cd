"""What every door makes of requests that are odd, wrong, or not its own (C-48 to C-52)."""

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.doors import CHAT, COMPLETIONS, DOORS, MODEL, Door, every_door
from tests.fakes.headrace import Tree, answers, static
from tests.fakes.live_site import Received
from tests.fakes.upstream import SILENCE, Upstream, chat

ORIGIN = "http://ui.test"


def plain(root: Path, **user: Any) -> Tree:
    return Tree(root, **user).workflow("assistant", [static("Hello")])


@pytest.mark.parametrize(
    "kind",
    [None, "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8"],
)
@every_door
def test_the_content_type_plays_no_part(door: Door, kind: str | None, tmp_path: Path) -> None:
    with plain(tmp_path).serve() as live:
        headers = {} if kind is None else {"content_type": kind}
        told = door.ask(live, stream=False, headers=headers)

    assert told.text == "Hello"


BROKEN = [
    b"",
    b" ",
    b'{"model":',
    b"[]",
    b"true",
    b"null",
    b"123",
    b'"x"',
    b"\xff\xfe{",
    b"\x80",
    b'{"model": "tester:assistant", "stream": true}',
    b"{" * 5000,
    b"[" * 200_000,
    b'{"a":' * 50_000,
]


@every_door
def test_a_compressed_body_is_415_and_not_called_bad_json(door: Door, tmp_path: Path) -> None:
    body = gzip.compress(json.dumps(door.body()).encode())
    with plain(tmp_path).serve() as live:
        told = door.hear(live.ask("POST", door.path, body, content_encoding="gzip"))
        plainly = door.ask(live, stream=False, headers={"content_encoding": "identity"})

    assert told.status == 415
    assert told.error is not None
    assert "`Content-Encoding: gzip`" in told.error
    assert plainly.text == "Hello"


@pytest.mark.parametrize("body", BROKEN, ids=lambda body: repr(body[:12]))
@every_door
def test_a_broken_body_is_400_in_the_doors_own_shape(
    door: Door, body: bytes, tmp_path: Path
) -> None:
    with plain(tmp_path).serve() as live:
        received = live.ask("POST", door.path, body)

    if received.status == 200:
        # Ollama: nothing to say is a wish to load the model.
        assert door.id == "ollama-generate"
        assert received.json["done_reason"] == "load"
        return
    told = door.hear(received)
    assert told.status == 400
    assert told.error


@every_door
def test_a_byte_order_mark_is_no_fault(door: Door, tmp_path: Path) -> None:
    with plain(tmp_path).serve() as live:
        body = b"\xef\xbb\xbf" + json.dumps(door.body()).encode()
        told = door.hear(live.ask("POST", door.path, body))

    assert told.text == "Hello"


@pytest.mark.parametrize("name", ["assistant", "tester:assistant", "tester:assistant:latest"])
@every_door
def test_latest_is_stripped_everywhere(door: Door, name: str, tmp_path: Path) -> None:
    with plain(tmp_path).serve() as live:
        told = door.ask(live, stream=False, model=name)

    assert told.text == "Hello"
    assert told.body["model"] == MODEL


@every_door
def test_an_unknown_model_is_404_with_near_names(door: Door, tmp_path: Path) -> None:
    with plain(tmp_path).serve() as live:
        for streamed in (False, True):
            told = door.ask(live, stream=streamed, model="asistant")
            assert told.status == 404
            assert told.error is not None
            assert "tester:assistant" in told.error


@every_door
def test_an_unknown_model_of_a_tree_of_the_reference_gets_the_normal_routing(
    door: Door, tmp_path: Path
) -> None:
    tree = plain(tmp_path, dialect="reference").own("_DefaultWorkflow", [static("Routed")])
    with tree.serve() as live:
        told = door.ask(live, stream=False, model="asistant")

    assert told.text == "Routed"


@pytest.mark.parametrize("tail", ["/", "?beta=true", "//?x=1&y"])
@every_door
def test_slashes_and_queries_make_no_difference(door: Door, tail: str, tmp_path: Path) -> None:
    with plain(tmp_path).serve() as live:
        told = door.hear(live.ask("POST", door.path + tail, door.body()))

    assert told.text == "Hello"


@pytest.mark.parametrize(
    "path", ["/chat/completions", "/completions", "/responses", "/messages", "/models"]
)
def test_the_version_may_be_left_out(path: str, tmp_path: Path) -> None:
    door = next((door for door in DOORS if door.path == f"/v1{path}"), None)
    with plain(tmp_path).serve() as live:
        if door is None:
            assert live.ask("GET", path).json["data"][0]["id"] == MODEL
        else:
            assert door.hear(live.ask("POST", path, door.body())).text == "Hello"


@every_door
def test_errors_that_no_door_had_a_hand_in_have_the_doors_shape(door: Door, tmp_path: Path) -> None:
    with plain(tmp_path, apiKeys=["sk-1"]).serve(max_body_megabytes=1) as live:
        key = {"x_api_key": "sk-1"}
        refused: list[tuple[int, Received]] = [
            (401, live.ask("POST", door.path, door.body())),
            (401, live.ask("POST", door.path, door.body(), authorization="Bearer sk-2")),
            (405, live.ask("PUT", door.path, door.body(), **key)),
            (413, live.ask("POST", door.path, b" " * 1_500_000, **key)),
        ]
        if door.id not in ("chat", "completions", "responses"):
            refused.append((404, live.ask("POST", f"{door.path}/nope/x", {}, **key)))

    for status, received in refused:
        told = door.hear(received)
        assert told.status == status
        assert told.error
        assert "x-request-id" in told.headers
    assert "POST" in refused[2][1].headers["allow"]
    assert refused[0][1].headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("header", ["authorization", "x_api_key"])
@every_door
def test_a_key_opens_every_door_in_either_header(door: Door, header: str, tmp_path: Path) -> None:
    value = "Bearer sk-1" if header == "authorization" else "sk-1"
    with plain(tmp_path, apiKeys=["sk-1"]).serve() as live:
        told = door.ask(live, stream=False, headers={header: value})

    assert told.text == "Hello"


@every_door
def test_a_key_does_not_open_the_models_of_another_user(door: Door, tmp_path: Path) -> None:
    tree = Tree(tmp_path, apiKeys=["sk-t"]).user("bob", apiKeys=["sk-b"])
    tree.workflow("assistant", [static("Hello")])
    with tree.serve(users=("tester", "bob")) as live:
        mine = door.ask(live, stream=False, headers={"x_api_key": "sk-t"})
        theirs = door.ask(live, stream=False, headers={"x_api_key": "sk-b"})
        listed = live.ask("GET", "/v1/models", x_api_key="sk-b").json["data"]

    assert mine.text == "Hello"
    assert theirs.status == 403
    assert theirs.error is not None
    assert [model["id"] for model in listed] == ["bob:assistant"]


@pytest.mark.parametrize("path", [*(door.path for door in DOORS), "/v1/models", "/api/tags"])
def test_a_preflight_needs_no_key_and_errors_can_be_read_too(path: str, tmp_path: Path) -> None:
    with plain(tmp_path, apiKeys=["sk-1"]).serve(cors=(ORIGIN,)) as live:
        asks = {
            "origin": ORIGIN,
            "access_control_request_method": "POST",
            "access_control_request_headers": "authorization,content-type",
        }
        allowed = live.ask("OPTIONS", path, **asks)
        refused = live.ask("OPTIONS", path, **{**asks, "origin": "http://evil.test"})
        failing = live.ask("POST", path, {}, origin=ORIGIN)
        wrong = live.ask("POST", path, b"{", origin=ORIGIN, x_api_key="sk-1")

    assert allowed.status in (200, 204)
    for name in ("origin", "methods", "headers"):
        assert f"access-control-allow-{name}" in allowed.headers
    assert "access-control-allow-origin" not in refused.headers
    assert failing.status == 401
    assert wrong.status in (400, 405)
    assert failing.headers["access-control-allow-origin"] == ORIGIN
    assert wrong.headers["access-control-allow-origin"] == ORIGIN


NULLS: dict[str, Any] = {
    "stop": None,
    "temperature": None,
    "max_tokens": None,
    "tools": None,
    "tool_choice": None,
    "stream_options": None,
    "response_format": None,
    "seed": None,
    "n": None,
    "options": None,
    "format": None,
    "metadata": None,
    "system": None,
    "instructions": None,
    "text": None,
    "top_p": None,
    "logprobs": None,
}


@every_door
def test_null_means_not_given(door: Door, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        told = door.ask(live, stream=False, **{**NULLS, **door.make("hi")})

    assert told.text == "ok"
    assert None not in model.asked[0].json.values()


@pytest.mark.parametrize("stream", [None, False])
@every_door
def test_a_missing_stream_is_what_the_doors_clients_mean(
    door: Door, stream: bool | None, tmp_path: Path
) -> None:
    with plain(tmp_path).serve() as live:
        body = {**door.body(), "stream": stream}
        if stream is None:
            del body["stream"]
        told = door.hear(live.ask("POST", door.path, body))

    assert told.text == "Hello"
    assert told.ended == (stream is None and door.id.startswith("ollama"))


def test_completions_stream_by_default_where_the_user_wants_it(tmp_path: Path) -> None:
    with plain(tmp_path, completionsStreamByDefault=True).serve() as live:
        body = COMPLETIONS.body()
        del body["stream"]
        told = COMPLETIONS.hear(live.ask("POST", COMPLETIONS.path, body))
        said = COMPLETIONS.ask(live, stream=False)

    assert (told.text, told.ended) == ("Hello", True)
    assert (said.text, said.ended) == ("Hello", False)


@every_door
def test_big_requests_are_everyday(door: Door, tmp_path: Path) -> None:
    text = "wörter " * 40_000
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        told = door.ask(live, text, stream=False)

    assert told.text == "ok"
    assert model.asked[0].json["messages"][-1]["content"].strip() == text.strip()


@every_door
def test_a_slow_request_holds_up_nobody(door: Door, tmp_path: Path) -> None:
    """C-32: 50 of them wait for their backend while others list models and stream."""
    tree = Tree(tmp_path).workflow("assistant", [answers()]).workflow("fast", [static("Hi")])
    with Upstream([SILENCE]) as model, tree.model("Main", model.url).serve(threads=80) as live:
        clients = [live.connect() for _ in range(50)]
        for client in clients:
            door.send(client, stream=False)
        model.wait_for(50)
        done = threading.Event()
        timer = threading.Timer(1.0, done.set)
        timer.start()
        assert live.ask("GET", "/v1/models").status == 200
        assert CHAT.ask(live, stream=True, model="fast").text == "Hi"
        assert not done.is_set(), "it took more than a second"
        timer.cancel()
        for client in clients:
            client.close()


@every_door
def test_a_conversation_id_that_is_a_path_is_refused(door: Door, tmp_path: Path) -> None:
    with plain(tmp_path).serve() as live:
        for bad in ("../../etc/passwd", "..%2f..%2fx", "C:\\x", "a/b", "..", "x" * 5000):
            told = door.ask(live, stream=True, headers={"x_conversation_id": bad})
            assert told.status == 400, bad
            assert told.error
        good = door.ask(live, stream=False, headers={"x_conversation_id": "chat 7"})

    assert good.headers["x-conversation-id"] == "chat 7"


@every_door
def test_the_key_of_an_endpoint_is_told_to_nobody(door: Door, tmp_path: Path) -> None:
    """C-39, with a backend that quotes what it was sent."""

    def quoting(asked: Any) -> Any:
        from tests.fakes.upstream import refuses

        return refuses(404, f"no such thing; headers: {dict(asked.headers)}")

    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with (
        Upstream(quoting) as model,
        tree.model("Main", model.url, apiKey="sk-canary-123").serve() as live,
    ):
        for streamed in (False, True):
            told = door.ask(live, stream=streamed, headers={"x_api_key": "client-canary-9"})
            assert told.status == 404
            assert "canary" not in json.dumps(told.error_body)
        assert "canary" not in json.dumps(live.finished())
    assert "canary-123" in model.asked[0].headers["authorization"]


@every_door
def test_fields_that_nobody_uses_are_named_in_a_header(door: Door, tmp_path: Path) -> None:
    with plain(tmp_path).serve() as live:
        told = door.ask(live, stream=False, temperature=0.5, something=1)

    ignored = told.headers["x-headrace-ignored"].split(", ")
    assert "something" in ignored
    assert "temperature" in ignored
