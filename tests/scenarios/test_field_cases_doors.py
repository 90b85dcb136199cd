"""Field cases at every door that they apply to; other files have them for every kind of back end.

C-05, C-09 to C-13, C-16, C-20, C-22, C-23, C-37, C-39, C-48, C-50 and C-51 are in ``test_doors_*``.
"""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.doors import (
    CHAT,
    COMPLETIONS,
    DOORS,
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
    Door,
    every_door,
    every_tool_door,
)
from tests.fakes.headrace import Headrace, Tree, answers, calls, static, wait_until
from tests.fakes.upstream import CUT, DONE, RESET, SILENCE, Upstream, chat, delta, stream
from tests.scenarios.modes import both_modes

OLLAMA_TYPE = {
    "type": "ollamaApiChat",
    "presetType": "Test",
    "maxNewTokensPropertyName": "num_predict",
    "streamPropertyName": "stream",
}


@contextmanager
def serving(root: Path, *plays: Any, **node: Any) -> Iterator[tuple[Headrace, Upstream]]:
    tree = Tree(root).workflow("assistant", [answers(**node)])
    with Upstream(*plays) as model, tree.model("Main", model.url).serve() as live:
        yield live, model


def recorded(live: Headrace) -> Any:
    """The newest run as the log has it, once it is over."""
    live.finished()
    (newest, *_) = live.ask("GET", "/api/runs").json["runs"]
    return live.ask("GET", f"/api/runs/{newest['id']}").json


# ------------------------------------------------------------------------------------ streaming


@pytest.mark.parametrize("ending", [CUT, RESET], ids=["closed", "reset"])
@every_door
def test_c01_a_stream_that_dies_ends_with_an_error(door: Door, ending: Any, tmp_path: Path) -> None:
    with serving(tmp_path, stream(delta("Hel"), delta("lo"), ending)) as (live, _):
        told = door.ask(live, stream=True)
        run = recorded(live)

    assert (told.text, told.finish) == ("Hello", None)
    assert told.error
    assert told.ended
    assert (run["status"], run["partialText"]) == ("failed", "Hello")


@every_door
def test_c02_a_reason_is_an_end_and_silence_is_none(door: Door, tmp_path: Path) -> None:
    complete = stream(delta("Hello"), delta(finish_reason="stop"))
    cut_off = stream(delta("Hello"))
    with serving(tmp_path, complete, cut_off) as (live, _):
        good = door.ask(live, stream=True)
        bad = door.ask(live, "again", stream=True)

    assert (good.text, good.finish, good.error) == ("Hello", "stop", None)
    assert (bad.text, bad.finish) == ("Hello", None)
    assert bad.error


@both_modes
@every_door
def test_c03_the_end_mark_may_be_quoted(door: Door, stream: bool, tmp_path: Path) -> None:
    with serving(tmp_path, chat("It ends with ", "data: [DONE]", " on its own line.")) as (live, _):
        told = door.ask(live, stream=stream)
        run = recorded(live)

    said = "It ends with data: [DONE] on its own line."
    assert (told.text, told.finish) == (said, "stop")
    assert run["context"]["steps"][0]["outputData"]["content"] == said


@every_door
def test_c04_a_delta_may_say_nothing(door: Door, tmp_path: Path) -> None:
    play = stream(
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]},
        delta("test"),
        delta(""),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        DONE,
    )
    with serving(tmp_path, play) as (live, _):
        told = door.ask(live, stream=True)

    assert (told.text, told.finish) == ("test", "stop")


# ----------------------------------------------------------------------------------- tool calls

CALL = {"name": "snooze", "arguments": ""}


def history_of(door: Door) -> dict[str, Any]:
    """A call without arguments, and its result, as this door's clients tell of it."""
    if door.id == "responses":
        items = [
            {"role": "user", "content": "Sleep."},
            {"type": "function_call", "call_id": "t1", **CALL},
            {"type": "function_call_output", "call_id": "t1", "output": "done"},
        ]
        return {"input": items}
    if door.id == "messages":
        use = {"type": "tool_use", "id": "t1", "name": "snooze", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
        return {
            "messages": [
                {"role": "user", "content": "Sleep."},
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [result]},
            ]
        }
    call: dict[str, Any] = {"function": CALL}
    if door is CHAT:
        call |= {"id": "t1", "type": "function"}
    return {
        "messages": [
            {"role": "user", "content": "Sleep."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "t1", "content": "done"}
            if door is CHAT
            else {"role": "tool", "tool_name": "snooze", "content": "done"},
        ]
    }


@both_modes
@every_tool_door
def test_c12_c28_a_call_without_arguments_in_the_history(
    door: Door, stream: bool, tmp_path: Path
) -> None:
    with serving(tmp_path, chat("ok")) as (live, model):
        told = door.ask(live, stream=stream, **history_of(door))

    assert told.text == "ok"
    _, called, result = model.asked[0].json["messages"]
    assert called["tool_calls"][0]["function"] == {"name": "snooze", "arguments": "{}"}
    assert result["tool_call_id"] == called["tool_calls"][0]["id"]
    assert result["content"] == "done"


@every_tool_door
def test_c10_arguments_in_the_history_that_are_no_json_are_refused(
    door: Door, tmp_path: Path
) -> None:
    text = json.dumps(history_of(door))
    if '"arguments"' not in text:
        text = text.replace('"input": {}', '"input": "{\\"path\\": 1}{"')
    broken = json.loads(text.replace('"arguments": ""', '"arguments": "{\\"path\\": 1}{"'))
    with serving(tmp_path, chat("no")) as (live, model):
        told = door.ask(live, stream=True, **broken)

    assert told.status == 400
    assert told.error
    assert "1" in told.error, "it says which message"
    assert model.asked == []


# -------------------------------------------------------------------------------------- unicode


@both_modes
@every_door
def test_c17_half_a_character_is_never_passed_on(door: Door, stream: bool, tmp_path: Path) -> None:
    body = json.dumps(door.body("bad HALF end PAIR", stream=stream))
    raw = body.replace("HALF", "\\ud800").replace("PAIR", "\\ud83d\\ude00").encode()
    with serving(tmp_path, chat("ok")) as (live, model):
        told = door.hear(live.ask("POST", door.path, raw))

    assert told.text == "ok"
    assert model.asked[0].json["messages"][-1]["content"] == "bad \ufffd end 😀"


# ---------------------------------------------------------------------------- disconnect, cancel


@every_door
def test_c18_who_leaves_in_the_middle_is_recorded_with_what_was_said(
    door: Door, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with serving(tmp_path, stream(delta("Hel"), delta("lo"), SILENCE)) as (live, model):
        with live.connect() as client:
            door.send(client, stream=True)
            client.read_until(b'lo"')
        assert model.asked[0].left.wait(2)
        wait_until(live.is_quiet)
        run = recorded(live)

    assert (run["status"], run["partialText"]) == ("cancelled", "Hello")
    assert run["timeline"][-1]["status"] != "running"
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("inside", [False, True], ids=["", "inside a sub-workflow"])
@both_modes
@every_door
def test_c19_who_leaves_between_nodes_stops_the_rest(
    door: Door, stream: bool, inside: bool, tmp_path: Path
) -> None:
    nodes = [
        answers(title="First"),
        answers("Later", title="Second"),
        answers("Later", title="Third", is_responder=True),
    ]
    tree = Tree(tmp_path).own("Child", nodes)
    tree.workflow("assistant", [calls("Child", title="Outer")] if inside else nodes)
    with (
        Upstream([SILENCE]) as model,
        Upstream(chat("no")) as later,
        tree.model("Main", model.url).model("Later", later.url).serve() as live,
    ):
        with live.connect() as client:
            door.send(client, stream=stream)
            model.wait_for(1)
        assert model.asked[0].left.wait(2)
        runs = live.finished()
        assert later.asked == []

    assert {run["status"] for run in runs} == {"cancelled"}
    assert "'First'" in runs[0]["error"]


# ---------------------------------------------------------------------------------- concurrency

WAITS = """
import pathlib, time

def Invoke(started, end):
    pathlib.Path(started, str(time.monotonic_ns())).touch()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not pathlib.Path(end).exists():
        time.sleep(0.02)
    return "awake"
"""
"""A tool that blocks its thread for ten seconds, or until the test has seen enough."""


@every_door
def test_c32_fifty_tools_that_sleep_hold_up_nobody(door: Door, tmp_path: Path) -> None:
    script, started, end = tmp_path / "wait.py", tmp_path / "started", tmp_path / "end"
    script.write_text(WAITS, encoding="utf-8")
    started.mkdir()
    tool = {"type": "PythonModule", "module_path": str(script), "args": [str(started), str(end)]}
    tree = Tree(tmp_path).workflow("assistant", [tool])
    tree.scripted("Main", " ".join(["word"] * 20)).workflow("fast", [answers()])
    with tree.serve(threads=80) as live:
        clients = [live.connect() for _ in range(50)]
        for client in clients:
            door.send(client, stream=False)
        wait_until(lambda: len([*started.iterdir()]) == 50)
        begun = time.monotonic()
        listed = live.ask("GET", "/v1/models")
        took = time.monotonic() - begun
        with live.connect() as reader:
            CHAT.send(reader, stream=True, model="fast")
            gap = longest_gap(reader)
        end.touch()
        heard = [door.hear(client.receive()) for client in clients]
        for client in clients:
            client.close()

    assert listed.status == 200
    # The case says one second and half a second; a busy machine gets a little more.
    assert took < 2
    assert gap < 1
    assert {told.text for told in heard} == {"awake"}


def longest_gap(reader: Any) -> float:
    """Between two pieces of a stream, in seconds."""
    longest, last = 0.0, time.monotonic()
    received = b""
    while not received.endswith(b"\r\n0\r\n\r\n"):
        received += reader.read(1)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    assert received.count(b"word") == 20
    return longest


# ------------------------------------------------------------------------------------- security

LATE: dict[str, Any] = {"heartbeatSeconds": 30}
"""A heartbeat would send the headers of a stream, and with them status 200, before the refusal that
a busy machine takes longer over."""

INSIDE = (
    "http://127.0.0.1:{port}/",
    "http://localhost:{port}/",
    "http://[::1]:{port}/",
    "http://0x7f000001:{port}/",
    "http://2130706433:{port}/",
    "http://10.0.0.1:{port}/",
    "http://169.254.169.254/latest/meta-data/",
    "file:///etc/passwd",
)


@pytest.fixture
def canary() -> Iterator[Upstream]:
    with Upstream() as server:
        yield server
        assert server.connections == 0, "somebody was called inside"


@pytest.mark.parametrize("url", INSIDE)
@every_door
def test_c38_a_page_inside_is_not_fetched_for_a_client(
    door: Door, url: str, canary: Upstream, tmp_path: Path
) -> None:
    fetch = {"title": "Fetch", "type": "WebFetch", "url": "{chat_user_prompt_last_one}"}
    tree = Tree(tmp_path, **LATE).workflow("assistant", [fetch])
    with tree.serve() as live:
        told = door.ask(live, url.format(port=canary.port), stream=True)

    assert told.status == 400
    assert told.error
    assert "'Fetch'" in told.error
    assert "root:" not in told.error


def picture_for(door: Door, url: str) -> dict[str, Any]:
    """A message with an image, as this door's clients write it."""
    text = {"type": "text", "text": "Look."}
    match door.id:
        case "chat":
            parts: list[Any] = [text, {"type": "image_url", "image_url": {"url": url}}]
            return {"messages": [{"role": "user", "content": parts}]}
        case "responses":
            parts = [{"type": "input_text", "text": "Look."}]
            parts.append({"type": "input_image", "image_url": url})
            return {"input": [{"role": "user", "content": parts}]}
        case "messages":
            parts = [text, {"type": "image", "source": {"type": "url", "url": url}}]
            return {"messages": [{"role": "user", "content": parts}]}
        case "ollama-chat":
            return {"messages": [{"role": "user", "content": "Look.", "images": [url]}]}
        case _:
            return {"prompt": "Look.", "images": [url]}


PICTURE_DOORS = [door for door in DOORS if door is not COMPLETIONS]
every_picture_door = pytest.mark.parametrize("door", PICTURE_DOORS, ids=str)


@pytest.mark.parametrize("hosts", [None, ["*"]], ids=["as it comes", "any host allowed"])
@pytest.mark.parametrize("url", INSIDE)
@every_picture_door
def test_c38_a_picture_inside_is_not_fetched_for_a_client(
    door: Door, url: str, hosts: list[str] | None, canary: Upstream, tmp_path: Path
) -> None:
    user = {} if hosts is None else {"allowedImageHosts": hosts}
    tree = Tree(tmp_path, **LATE, **user).workflow("assistant", [answers(acceptImages=True)])
    # This kind of back end takes data only, so the server itself would fetch.
    tree.write("ApiTypes/Ollama.json", OLLAMA_TYPE)
    with Upstream(chat("no")) as model:
        tree.model("Main", model.url, apiTypeConfigFileName="Ollama")
        with tree.serve() as live:
            told = door.ask(live, stream=True, **picture_for(door, url.format(port=canary.port)))

        assert model.asked == []
    assert told.status == 400
    assert told.error
    assert "messages.0" in told.error or "image" in told.error


# --------------------------------------------------------------------------------- HTTP surface


def nothing_said(door: Door) -> list[Any]:
    """Bodies without a message, or with one that is none; None leaves the field out."""
    match door.id:
        case "completions":
            return [None, [], {}, 7, ["a", "b"], [1, 2]]
        case "responses":
            return [None, [], {}, ["hi"], [{}], [{"role": "user"}], [{"role": "x", "content": ""}]]
        case "ollama-generate":
            return [{}, 7, ["a"]]
        case _:
            wizard = [{"role": "wizard", "content": "x"}]
            return [None, [], {}, "hi", ["hi"], [{}], [{"role": "user"}], wizard]


FIELD = {"completions": "prompt", "ollama-generate": "prompt", "responses": "input"}


@both_modes
@every_door
def test_c49_no_message_is_refused_before_anything_else_happens(
    door: Door, stream: bool, tmp_path: Path
) -> None:
    field = FIELD.get(door.id, "messages")
    with serving(tmp_path, chat("no")) as (live, model):
        for value in nothing_said(door):
            body = door.body(stream=stream) | {field: value}
            if value is None:
                del body[field]
            told = door.hear(live.ask("POST", door.path, body))
            assert told.status == 400, value
            assert told.error is not None
            assert field in told.error, (value, told.error)
        assert model.asked == []


def turns(door: Door, *turns: tuple[str, str]) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in turns]
    if door in (COMPLETIONS, OLLAMA_GENERATE):
        tags = {"system": "Sys", "assistant": "Assistant", "user": "User"}
        return {"prompt": "".join(f"[Beg_{tags[role]}]{text}" for role, text in turns)}
    return {"input": messages} if door.id == "responses" else {"messages": messages}


@both_modes
@every_door
def test_c49_instructions_alone_and_a_last_word_of_the_assistant_run(
    door: Door, stream: bool, tmp_path: Path
) -> None:
    with serving(tmp_path, chat("ok")) as (live, model):
        alone = door.ask(live, stream=stream, **turns(door, ("system", "Rhyme.")))
        last = door.ask(
            live, stream=stream, **turns(door, ("user", "Count."), ("assistant", "One,"))
        )

    assert (alone.text, last.text) == ("ok", "ok")
    assert model.asked[0].json["messages"][-1] == {"role": "system", "content": "Rhyme."}
    assert model.asked[1].json["messages"][-1] == {"role": "assistant", "content": "One,"}


@every_door
def test_c50_an_unknown_method_is_405_with_allow(door: Door, tmp_path: Path) -> None:
    with serving(tmp_path, chat("no")) as (live, _):
        received = live.ask("PUT", door.path, {})

    assert received.status == 405
    allowed = {"POST", "OPTIONS"} | (
        {"DELETE"} if door in (OLLAMA_CHAT, OLLAMA_GENERATE) else set()
    )
    assert {*received.headers["allow"].split(", ")} == allowed
    assert door.read_error(received.json)


@every_door
def test_c37_an_id_in_any_script_names_one_conversation(door: Door, tmp_path: Path) -> None:
    """As bytes in UTF-8, and as the server gives it back."""
    name = "беседа 🌊"
    tree = Tree(tmp_path).workflow("assistant", [static("{Discussion_Id}")])
    with tree.serve() as live:
        first = door.ask(live, stream=False, headers={"x_conversation_id": name})
        given = first.headers["x-conversation-id"]
        again = door.ask(live, stream=True, headers={"x_conversation_id": given})
        path = door.ask(live, stream=False, headers={"x_conversation_id": "..%2F%D0%B6"})

    assert given == "%D0%B1%D0%B5%D1%81%D0%B5%D0%B4%D0%B0 %F0%9F%8C%8A"
    assert (first.text, again.text) == (name, name)
    assert again.headers["x-conversation-id"] == given
    assert path.status == 400


def test_c52_the_owner_of_a_model_is_whose_dialect_it_speaks(tmp_path: Path) -> None:
    tree = Tree(tmp_path, modelAliases={"gpt-*": "assistant"}).user("old", dialect="reference")
    tree.workflow("assistant", [static("one")])
    with tree.serve(users=("tester", "old")) as live:
        listed = live.ask("GET", "/v1/models").json["data"]
        one = live.ask("GET", "/v1/models/old:assistant").json
        alias = live.ask("GET", "/v1/models/gpt-4").json

    assert {model["id"]: model["owned_by"] for model in listed} == {
        "tester:assistant": "headrace",
        "old:assistant": "Wilmer",
    }
    assert (one["owned_by"], alias["owned_by"]) == ("Wilmer", "headrace")


@every_door
def test_c52_every_listed_model_is_answered_at_every_door(door: Door, tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("assistant", [static("one")]).workflow("other", [static("two")])
    with tree.serve() as live:
        listed = [model["id"] for model in live.ask("GET", "/v1/models").json["data"]]
        tagged = [model["name"] for model in live.ask("GET", "/api/tags/?x=1").json["models"]]
        said = {name: door.ask(live, stream=False, model=name).text for name in listed}

    assert tagged == listed
    assert said == {"tester:assistant": "one", "tester:other": "two"}
