"""What front ends do besides chatting: ids of their own, chores, tool requests, agent loops."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.doors import CHAT, DOORS, OLLAMA_CHAT, RESPONSES, Door, every_door
from tests.fakes.headrace import Tree, answers, static
from tests.fakes.upstream import CUT, Upstream, chat, refuses, whole

CHAT_ID = {"x_openwebui_chat_id": "chat-7"}
TITLE = (
    "### Task:\nGenerate a concise title.\n### Output:\n"
    '{ "title": "..." }\n### Chat History:\n<chat_history>\nUSER: hi\n</chat_history>'
)


@every_door
def test_a_chat_id_of_open_webui_names_the_conversation(door: Door, tmp_path: Path) -> None:
    with Tree(tmp_path).workflow("assistant", [static("Hello")]).serve() as live:
        told = door.ask(live, stream=False, headers=CHAT_ID)
        first = door.ask(live, stream=False, headers={**CHAT_ID, "x_conversation_id": "mine"})
        temporary = door.ask(live, stream=False, headers={"x_openwebui_chat_id": "local:a/b"})

    assert told.headers["x-conversation-id"] == "chat-7"
    assert first.headers["x-conversation-id"] == "mine"
    assert temporary.text == "Hello"
    assert "x-conversation-id" not in temporary.headers


def test_a_tree_of_the_reference_takes_no_ids_from_front_ends(tmp_path: Path) -> None:
    tree = Tree(tmp_path, dialect="reference").workflow("assistant", [static("Hello")])
    with tree.serve() as live:
        told = CHAT.ask(live, stream=False, headers=CHAT_ID)

    assert "x-conversation-id" not in told.headers


@pytest.mark.parametrize("header", ["session_id", "x_claude_code_session_id", "x_session_id"])
def test_the_session_of_a_coding_agent_is_no_conversation(header: str, tmp_path: Path) -> None:
    with Tree(tmp_path).workflow("assistant", [static("Hello")]).serve() as live:
        told = CHAT.ask(live, stream=False, headers={header: "s-1"})

    assert "x-conversation-id" not in told.headers


@every_door
def test_chores_go_to_their_own_workflow_and_are_no_turns(door: Door, tmp_path: Path) -> None:
    tree = Tree(tmp_path, choreWorkflow="Chores").workflow("assistant", [static("Hello")])
    tree.own("Chores", [static('{"title": "x"}')])
    with tree.serve() as live:
        chore = door.ask(live, TITLE, stream=False, headers=CHAT_ID)
        turn = door.ask(live, "### Task: cook", stream=False, headers=CHAT_ID)

    assert chore.text == '{"title": "x"}'
    assert "x-conversation-id" not in chore.headers
    assert turn.text == "Hello"
    assert turn.headers["x-conversation-id"] == "chat-7"


def test_chores_may_go_to_a_shared_workflow_or_to_none_of_their_own(tmp_path: Path) -> None:
    tree = Tree(tmp_path, choreWorkflow="small").workflow("assistant", [static("Hello")])
    tree.workflow("small", [static("Title")])
    with tree.serve() as live:
        assert CHAT.ask(live, TITLE, stream=False).text == "Title"
        tree.user()
        tree.clock.advance(2)
        usual = CHAT.ask(live, TITLE, stream=False, headers=CHAT_ID)

    assert usual.text == "Hello"
    assert "x-conversation-id" not in usual.headers


def test_opencodes_title_request_is_a_chore(tmp_path: Path) -> None:
    tree = Tree(tmp_path, choreWorkflow="small").workflow("assistant", [static("Hello")])
    tree.workflow("small", [static("Title")])
    messages = [
        {"role": "system", "content": "You are a title generator. You output ONLY a title."},
        {"role": "user", "content": "Generate a title for this conversation:\n"},
        {"role": "user", "content": "fix it"},
    ]
    with tree.serve() as live:
        assert CHAT.ask(live, stream=True, messages=messages).text == "Title"


# Open WebUI asks which tools to call

SELECTION = [
    {
        "role": "system",
        "content": "Available Tools: []\n\nYour task is to choose and return the correct tool(s) "
        "from the list of available tools based on the query. Follow these guidelines:",
    },
    {"role": "user", "content": "Query: hi"},
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("door", [CHAT, OLLAMA_CHAT], ids=str)
def test_tool_selection_is_answered_without_a_workflow(
    door: Door, stream: bool, tmp_path: Path
) -> None:
    tree = Tree(tmp_path, interceptOpenWebUIToolRequests=True)
    with tree.workflow("assistant", [static("Hello")]).serve() as live:
        received = live.ask("POST", door.path, door.body(stream=stream, messages=SELECTION))
        usual = door.ask(live, stream=False)
        runs = len(live.finished())

    assert received.headers["content-type"] == "application/json"
    body = received.json
    if door is CHAT:
        (choice,) = body["choices"]
        assert choice["message"] == {"role": "assistant", "content": None, "tool_calls": []}
        assert choice["finish_reason"] == "tool_calls"
        assert body["id"].startswith("chatcmpl-opnwui-tool-")
    else:
        assert (body["message"]["content"], body["done"], body["eval_count"]) == ("", True, 0)
    assert usual.text == "Hello"
    assert runs == 1


def test_tool_selection_is_a_usual_request_where_nobody_asked_otherwise(tmp_path: Path) -> None:
    with Tree(tmp_path).workflow("assistant", [static("Hello")]).serve() as live:
        assert CHAT.ask(live, stream=False, messages=SELECTION).text == "Hello"


# The tool call that keeps agents going

LIVENESS = {"toolName": "noop", "arguments": {"why": "go on"}}


@pytest.mark.parametrize(
    ("said", "node", "injected"),
    [
        ("Hello", {}, False),
        ("Hello", {"injectLivenessToolCall": True}, True),
        ("", {}, True),
        (" \n", {}, True),
    ],
    ids=["not wanted", "wanted", "empty", "blank"],
)
@pytest.mark.parametrize("door", DOORS, ids=str)
def test_a_stream_without_calls_gets_one_where_it_is_wanted(
    door: Door, said: str, node: dict[str, Any], injected: bool, tmp_path: Path
) -> None:
    tree = Tree(tmp_path, livenessToolCall=LIVENESS)
    tree.workflow("assistant", [answers(**node)])
    with Upstream(chat(said)) as model, tree.model("Main", model.url).serve() as live:
        streamed = door.ask(live, stream=True)
        whole = door.ask(live, stream=False)

    injected = injected and door in (CHAT, OLLAMA_CHAT)
    assert streamed.calls == ([("noop", {"why": "go on"})] if injected else [])
    assert streamed.finish == ("tool_calls" if injected else "stop")
    assert whole.calls == []
    assert whole.finish == "stop"


def test_a_liveness_call_that_names_no_tool_is_off(tmp_path: Path) -> None:
    tree = Tree(tmp_path, livenessToolCall={"toolName": " "}).workflow("assistant", [answers()])
    with Upstream(chat("")) as model, tree.model("Main", model.url).serve() as live:
        assert CHAT.ask(live, stream=True).finish == "stop"


def _call(id: str, name: str = "noop", arguments: str = "{}") -> dict[str, Any]:
    call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _result(id: str, content: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def _roles_sent(root: Path, messages: list[Any], **user: Any) -> list[Any]:
    tree = Tree(root, **user).workflow("assistant", [answers(includeToolCalls=True)])
    with Upstream(chat("ok")) as model, tree.model("Main", model.url).serve() as live:
        CHAT.ask(live, stream=False, messages=messages)
    sent: list[Any] = model.asked[0].json["messages"]
    return sent


HISTORY = [
    {"role": "user", "content": "go"},
    _call("wilmer_liveness_12345678"),
    _result("wilmer_liveness_12345678"),
    _call("x1", "noop", '{"why": "go on"}'),
    _result("x1"),
    {"role": "user", "content": "more"},
]


def test_calls_of_ours_are_taken_out_of_the_conversation(tmp_path: Path) -> None:
    sent = _roles_sent(tmp_path, HISTORY, livenessToolCall=LIVENESS)

    assert [message["role"] for message in sent] == ["user", "user"]


def test_without_the_setting_conversations_are_not_touched(tmp_path: Path) -> None:
    assert len(_roles_sent(tmp_path, HISTORY)) == len(HISTORY)


def test_the_exchange_at_the_end_stays(tmp_path: Path) -> None:
    sent = _roles_sent(tmp_path, HISTORY[:3], livenessToolCall=LIVENESS)

    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]


def test_what_an_agent_repeats_is_told_once(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "go"}]
    for number in range(4):
        messages += [_call(f"c{number}", "ls"), _result(f"c{number}", "a  b\n")]
    messages += [{"role": "user", "content": "and now?"}]
    sent = _roles_sent(tmp_path, messages, livenessToolCall=LIVENESS)

    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "user"]
    assert "4 times" in sent[2]["content"]


# Codex repeats what fails

CODEX = {
    "accept": "text/event-stream",
    "originator": "codex_exec",
    "session_id": "01a22f7f-a70c-7ff1-bc27-79857b179312",
    "user_agent": "codex_exec/0.171.0 (Debian 12.0.0; x86_64) xterm (codex_exec; 0.171.0)",
}
"""Headers of Codex 0.171."""


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (refuses(500, "out of memory"), "invalid_prompt"),
        (refuses(401, "out of memory"), "invalid_prompt"),
        (refuses(404, "out of memory"), "invalid_prompt"),
        (refuses(503, "out of memory"), "server_is_overloaded"),
        (whole(b"<html>out of memory"), "invalid_prompt"),
        ([CUT], "invalid_prompt"),
    ],
    ids=["500", "401", "404", "503", "nonsense", "cut"],
)
def test_codex_learns_of_a_failure_by_a_stream_which_it_does_not_ask_for_again(
    answer: Any, code: str, tmp_path: Path
) -> None:
    """It took the status 502 for a reason to run the workflow 30 times."""
    with Upstream(answer) as model:
        tree = Tree(tmp_path).model("Main", model.url).workflow("assistant", [answers()])
        with tree.serve() as live:
            body = RESPONSES.body(stream=True)
            told = live.ask("POST", RESPONSES.path, body, **CODEX)
            others = live.ask("POST", RESPONSES.path, body)
            waiting = live.ask("POST", RESPONSES.path, RESPONSES.body(stream=False), **CODEX)

    assert told.status == 200
    assert told.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(frame.partition("data: ")[2]) for frame in told.frames]
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.failed")
    error = events[-1]["response"]["error"]
    assert error["code"] == code
    assert error["message"] == others.json["error"]["message"]
    assert others.status == waiting.status >= 404


@pytest.mark.parametrize("status", [400, 429])
def test_codex_gets_the_statuses_that_it_heeds(status: int, tmp_path: Path) -> None:
    with Upstream(refuses(status, "no")) as model:
        tree = Tree(tmp_path).model("Main", model.url).workflow("assistant", [answers()])
        with tree.serve() as live:
            told = live.ask("POST", RESPONSES.path, RESPONSES.body(stream=True), **CODEX)

    assert told.status == status
