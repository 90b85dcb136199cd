"""Field cases C-48, C-49 and C-51: bodies that are not what they should be."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers
from tests.fakes.live_site import CHAT
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Upstream, chat
from tests.scenarios.ways import COLLECTED, STREAMED, WHOLE, Way, answered

HI = {"role": "user", "content": "hi"}
VALID = json.dumps({"model": "assistant", "messages": [HI]}).encode()


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-8",
        "application/json",
        "multipart/form-data; boundary=x",
        "nonsense",
    ],
    ids=str,
)
def test_c48_the_body_is_read_as_json_whatever_the_content_type_says(
    kind: str | None, stream: bool, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    headers = {} if kind is None else {"Content_Type": kind}
    body = {"model": "assistant", "messages": [HI], "stream": stream}
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        heard = hear(live.ask("POST", CHAT, body, **headers))

    assert heard.said == ("ok", "stop")
    assert model.asked[0].json["messages"] == [HI]


@dataclass(frozen=True)
class Broken:
    id: str
    body: bytes
    says: str


BROKEN = [
    Broken("empty", b"", "no body"),
    Broken("blank", b" \r\n", "no body"),
    Broken("cut", b'{"model":', "not valid JSON"),
    Broken("list", b"[]", "must be a JSON object, not a list"),
    Broken("true", b"true", "must be a JSON object, not a boolean"),
    Broken("null", b"null", "must be a JSON object, not null"),
    Broken("number", b"123", "must be a JSON object, not a number"),
    Broken("text", b'"x"', "must be a JSON object, not a text"),
    Broken(
        "not-utf-8",
        b'{"model":"assistant","messages":[{"role":"user","content":"\xff"}]}',
        "not valid JSON",
    ),
    Broken(
        "latin-1",
        b'{"model":"assistant","messages":[{"role":"user","content":"\xfc"}]}',
        "not valid JSON",
    ),
    Broken("form", b"model=assistant&messages=hi", "not valid JSON"),
    Broken("twice", VALID + VALID, "not valid JSON"),
    Broken("only-a-bom", b"\xef\xbb\xbf", "no body"),
    Broken("nan", b'{"model":"assistant","temperature":NaN,"messages":[]}', "not valid JSON"),
    Broken("deep", b'{"messages":' + b"[" * 5000 + b"]" * 5000 + b"}", ""),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.id)
def test_c48_a_broken_body_is_a_400_that_says_what_is_wrong(case: Broken, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        received = live.ask("POST", CHAT, case.body, Content_Type="application/json")
        heard = hear(received)

    assert heard.status == 400
    assert heard.error is not None
    assert case.says in heard.error["message"]
    assert heard.error["type"] == "invalid_request_error"
    assert model.asked == []


def test_c48_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        heard = hear(live.ask("POST", CHAT, b"\xef\xbb\xbf" + VALID))

    assert heard.said == ("ok", "stop")


def test_c48_a_post_without_any_body_is_a_400(tmp_path: Path) -> None:
    with Tree(tmp_path).serve() as live:
        heard = hear(live.ask("POST", CHAT))

    assert heard.status == 400


@dataclass(frozen=True)
class NoMessages:
    id: str
    fields: dict[str, Any]
    param: str


NO_MESSAGES = [
    NoMessages("absent", {}, "messages"),
    NoMessages("empty", {"messages": []}, "messages"),
    NoMessages("null", {"messages": None}, "messages"),
    NoMessages("object", {"messages": {}}, "messages"),
    NoMessages("texts", {"messages": ["hi"]}, "messages.0"),
    NoMessages("no-role", {"messages": [{}]}, "messages.0.role"),
    NoMessages("no-content", {"messages": [{"role": "user"}]}, "messages.0.content"),
    NoMessages("wizard", {"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role"),
]


@pytest.mark.parametrize("stream", [True, False, None], ids=["streamed", "whole", "unsaid"])
@pytest.mark.parametrize("case", NO_MESSAGES, ids=lambda case: case.id)
def test_c49_no_messages_is_a_400_that_points_at_them(
    case: NoMessages, stream: bool | None, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    body = {"model": "assistant", **case.fields}
    if stream is not None:
        body["stream"] = stream
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        heard = hear(live.ask("POST", CHAT, body))

    assert heard.status == 400
    assert heard.error is not None
    assert (heard.error["param"], heard.error["type"]) == (case.param, "invalid_request_error")
    assert model.asked == []
    assert live.runs == []


@pytest.mark.parametrize("way", [STREAMED, WHOLE, COLLECTED], ids=str)
def test_c49_a_system_message_alone_is_a_conversation(way: Way, tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Greet the user."}]
    with answered(way, tmp_path, chat("Hello!"), messages=messages) as told:
        assert told.heard.said == ("Hello!", "stop")
        assert told.sent["messages"] == messages


@pytest.mark.parametrize("way", [STREAMED, WHOLE, COLLECTED], ids=str)
def test_c49_the_last_message_may_be_the_assistants(way: Way, tmp_path: Path) -> None:
    messages = [HI, {"role": "assistant", "content": "Once upon"}]
    with answered(way, tmp_path, chat("a time"), messages=messages) as told:
        assert told.heard.said == ("a time", "stop")
        assert told.sent["messages"] == messages


NULLS: dict[str, Any] = {
    "stop": None,
    "temperature": None,
    "max_tokens": None,
    "tools": None,
    "tool_choice": None,
    "stream": None,
    "stream_options": None,
    "response_format": None,
    "seed": None,
    "n": None,
    "user": "",
    "logit_bias": {},
}


@pytest.mark.parametrize("honour", ["responder", "all", "none"])
@pytest.mark.parametrize("stream", [None, True], ids=["whole", "streamed"])
def test_c51_a_null_means_not_given(stream: bool | None, honour: str, tmp_path: Path) -> None:
    tree = Tree(tmp_path, honourRequestParameters=honour).workflow(
        "assistant", [answers(allowTools=True)]
    )
    body = {"model": "assistant", "messages": [HI], **NULLS, "stream": stream}
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        received = live.ask("POST", CHAT, body)

    assert hear(received).said == ("ok", "stop")
    assert "x-headrace-ignored" not in received.headers
    sent = model.asked[0].json
    assert sent == {
        "model": "test-model",
        "messages": [HI],
        "max_tokens": 400,
        "stream": bool(stream),
        **({"stream_options": {"include_usage": True}} if stream else {}),
    }


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", "hot"),
        ("temperature", True),
        ("top_p", []),
        ("stop", 5),
        ("stop", ["a", 5]),
        ("messages", "hi"),
        ("max_tokens", "many"),
        ("max_tokens", 1.5),
        ("seed", "x"),
        ("n", "two"),
        ("stream_options", "yes"),
        ("tools", "hammer"),
        ("tool_choice", 7),
        ("tool_choice", "required"),
        ("response_format", "json"),
        ("logit_bias", []),
        ("model", 5),
        ("metadata", "x"),
    ],
)
def test_c51_a_wrong_type_is_a_400_that_names_the_field(
    field: str, value: Any, stream: bool, tmp_path: Path
) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    body = {"model": "assistant", "messages": [HI], "stream": stream, field: value}
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        heard = hear(live.ask("POST", CHAT, body))

    assert heard.status == 400
    assert heard.error is not None
    assert heard.error["param"] == field
    assert f"`{field}`" in heard.error["message"]
    assert model.asked == []


def test_c51_stream_itself_must_be_a_boolean(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [answers()])
    with tree.scripted("Main").serve() as live:
        heard = hear(live.chat(model="assistant", stream="yes"))

    assert heard.status == 400
    assert heard.error is not None
    assert heard.error["param"] == "stream"


@pytest.mark.parametrize("stop", ["END", ["END", "STOP"]], ids=["text", "list"])
def test_c51_stop_may_be_a_text_or_a_list(stop: Any, tmp_path: Path) -> None:
    with answered(WHOLE, tmp_path, chat("ok"), stop=stop) as told:
        assert told.heard.said == ("ok", "stop")
        assert told.sent["stop"] == stop
