"""Field cases C-50, C-52 and C-53: what browsers, model pickers and newer clients ask first.

Ollama's paths of C-50 and C-52, and the stream of C-53, come with their doors.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.fakes.headrace import Tree, answers
from tests.fakes.live_site import CHAT, Received
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Upstream, chat

ORIGIN = "http://ui.test"
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access_Control_Request_Method": "POST",
    "Access_Control_Request_Headers": "authorization,content-type",
}


def is_json_error(received: Received) -> dict[str, Any]:
    """The error object of an answer that is one."""
    error = hear(received).error
    assert error is not None
    return error


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/api/chat", "/api/tags", f"{CHAT}/"])
@pytest.mark.parametrize("allowed", [(ORIGIN,), ("*",)], ids=["origin", "anyone"])
def test_c50_a_preflight_of_an_allowed_origin_needs_no_key(
    allowed: tuple[str, ...], path: str, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with tree.serve(cors=allowed, api_key="sk-ours") as live:
        received = live.ask("OPTIONS", path, **PREFLIGHT)

    assert received.status == 204
    headers = received.headers
    assert headers["access-control-allow-origin"] == (ORIGIN if ORIGIN in allowed else "*")
    assert "POST" in headers["access-control-allow-methods"]
    wanted = headers["access-control-allow-headers"].replace(" ", "").split(",")
    assert {"authorization", "content-type"} <= set(wanted)


@dataclass(frozen=True)
class Outcome:
    id: str
    key: str
    fields: dict[str, Any]
    status: int


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "case",
    [
        Outcome("answered", "sk-ours", {}, 200),
        Outcome("bad-request", "sk-ours", {"messages": []}, 400),
        Outcome("no-key", "wrong", {}, 401),
        Outcome("no-model", "sk-ours", {"model": "nope"}, 404),
    ],
    ids=lambda case: case.id,
)
def test_c50_the_answer_itself_may_be_read_by_the_page_whatever_it_is(
    case: Outcome, stream: bool, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    body = {
        "model": "assistant",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": stream,
        **case.fields,
    }
    with (
        Upstream(chat("ok")) as model,
        tree.model("Main", model.url).serve(cors=(ORIGIN,), api_key="sk-ours") as live,
    ):
        key = f"Bearer {case.key}"
        received = live.ask("POST", CHAT, body, Origin=ORIGIN, Authorization=key)

    assert hear(received).status == case.status
    assert received.headers["access-control-allow-origin"] == ORIGIN


@pytest.mark.parametrize("cors", [(), ("http://other.test",)], ids=["none", "another"])
def test_c50_an_origin_that_is_not_allowed_gets_no_such_header(
    cors: tuple[str, ...], tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve(cors=cors) as live:
        preflight = live.ask("OPTIONS", CHAT, **PREFLIGHT)
        body = {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}
        posted = live.ask("POST", CHAT, body, Origin=ORIGIN)

    assert not [name for name in preflight.headers if name.startswith("access-control")]
    assert not [name for name in posted.headers if name.startswith("access-control")]
    assert hear(posted).said == ("ok", "stop")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", CHAT, "POST"),
        ("DELETE", CHAT, "POST"),
        ("PUT", "/v1/models", "GET"),
        ("POST", "/v1/models", "GET"),
        ("BREW", CHAT, "POST"),
    ],
)
def test_c50_an_unknown_method_is_a_405_that_says_which_ones_there_are(
    method: str, path: str, allow: str, tmp_path: Path
) -> None:
    with Tree(tmp_path).serve() as live:
        received = live.ask(method, path)

    assert received.status == 405
    assert allow in received.headers["allow"].split(", ")
    assert is_json_error(received)["code"] == "method_not_allowed"


def model_tree(root: Path) -> Tree:
    tree = Tree(root).scripted("Main")
    for name in ("assistant", "two words", "Grüße"):
        tree.workflow(name, [answers()])
    return tree


MODELS = ["tester:Grüße", "tester:assistant", "tester:two words"]


@pytest.mark.parametrize(
    "path",
    ["/v1/models", "/v1/models/", "/models", "/models/", "/v1/models?x=1", "/v1/models/?x=1"],
)
def test_c52_the_model_list_has_the_shape_that_strict_clients_want(
    path: str, tmp_path: Path
) -> None:
    with model_tree(tmp_path).serve() as live:
        received = live.ask("GET", path)

    assert (received.status, received.headers["content-type"]) == (200, "application/json")
    assert received.json["object"] == "list"
    assert sorted(model["id"] for model in received.json["data"]) == MODELS
    for model in received.json["data"]:
        assert model.keys() >= {"id", "object", "created", "owned_by"}
        assert model["object"] == "model"
        assert type(model["created"]) is int
        assert isinstance(model["owned_by"], str)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("prefix", ["/v1/models/", "/models/"])
@pytest.mark.parametrize("suffix", ["", "/", "?x=1"])
def test_c52_one_model_is_found_by_its_id(
    name: str, prefix: str, suffix: str, tmp_path: Path
) -> None:
    with model_tree(tmp_path).serve() as live:
        received = live.ask("GET", prefix + quote(name, safe="") + suffix)

    assert received.status == 200
    assert received.json["id"] == name
    assert received.json["object"] == "model"


@pytest.mark.parametrize("name", ["nope", "a/b", "a b", "tester:asistant"])
def test_c52_a_model_that_is_not_there_is_a_404_with_an_error_body(
    name: str, tmp_path: Path
) -> None:
    with model_tree(tmp_path).serve() as live:
        received = live.ask("GET", "/v1/models/" + quote(name, safe=""))

    assert received.status == 404
    error = is_json_error(received)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert repr(name) in error["message"]


@pytest.mark.parametrize("suffix", ["", "/", "?x=1", "/?x=1"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_c52_slash_and_query_cause_no_redirect_of_a_post(
    stream: bool, suffix: str, tmp_path: Path
) -> None:
    body = {
        "model": "two words",
        "messages": [{"role": "user", "content": "hi there"}],
        "stream": stream,
    }
    with model_tree(tmp_path).serve() as live:
        heard = hear(live.ask("POST", CHAT + suffix, body))

    assert heard.said == ("hi there", "stop")


def test_c52_every_listed_model_answers_under_its_id(tmp_path: Path) -> None:
    with model_tree(tmp_path).serve() as live:
        listed = [model["id"] for model in live.ask("GET", "/v1/models").json["data"]]
        served = [live.chat(model=name).json["model"] for name in listed]

    assert served == listed


CODEX = {
    "model": "assistant",
    "stream": True,
    "instructions": "You are Codex.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    ],
    "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}}],
    "parallel_tool_calls": False,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "medium"},
    "prompt_cache_key": "k",
    "client_metadata": {"a": "b"},
}


@pytest.mark.parametrize("path", ["/v1/responses", "/responses", "/v1/responses/"])
def test_c53_codex_is_answered(path: str, tmp_path: Path) -> None:
    """What its streams hold is told in test_doors_sdk_openai.py."""
    tree = Tree(tmp_path).workflow("assistant", [answers()]).scripted("Main")
    with tree.serve() as live:
        received = live.ask("POST", path, CODEX, Accept="text/event-stream")

    assert received.status == 200
    assert received.frames[0].startswith("event: response.created\n")
    assert received.frames[-1].startswith("event: response.completed\n")


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/v1/batches", "/v1/conversation"])
def test_a_door_that_is_not_offered_says_so(path: str, tmp_path: Path) -> None:
    with Tree(tmp_path).serve() as live:
        received = live.ask("POST", path, CODEX)

    assert received.status == 404
    error = is_json_error(received)
    assert error["code"] == "route_not_found"
    assert f"POST {path} is not served here" in error["message"]
    assert json.loads(received.body).keys() == {"error"}
