"""Durable conversations for front ends that only know chats (specification §21)."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import answers, wait_until
from tests.fakes.live_site import Received
from tests.fakes.own_process import own_process
from tests.fakes.upstream import Upstream, chat
from tests.scenarios.sdk import client_of
from tests.scenarios.test_durable_responses import REFUND, desk, proposal_of, transcript


class FrontEnd:
    """Keeps the list of messages and sends all of it each time."""

    def __init__(self, live: Any, model: str = "desk", id: str | None = "talk-1") -> None:
        self.live = live
        self.model = model
        self.id = id
        self.messages: list[dict[str, str]] = []

    def send(self, **fields: Any) -> Received:
        headers = {"X-Conversation-Id": self.id} if self.id else {}
        body = {"model": self.model, "messages": self.messages, **fields}
        received: Received = self.live.ask("POST", "/v1/chat/completions", body, **headers)
        return received

    def ask(self, text: str, **fields: Any) -> str:
        """The text of the answer."""
        self.messages.append({"role": "user", "content": text})
        received = self.send(**fields)
        assert received.status == 200, received.body
        if fields.get("stream"):
            assert received.frames[-1] == "data: [DONE]"
            answer = received.text
        else:
            (choice,) = received.json["choices"]
            assert choice["finish_reason"] == "stop"
            answer = choice["message"]["content"]
        self.messages.append({"role": "assistant", "content": answer})
        return answer

    def undo(self) -> None:
        del self.messages[-2:]


def test_profiles_are_models(tmp_path: Path) -> None:
    with desk(tmp_path).serve() as live:
        listed = [model["id"] for model in live.ask("GET", "/v1/models").json["data"]]
        tags = [model["name"] for model in live.ask("GET", "/api/tags").json["models"]]
        one = live.ask("GET", "/v1/models/desk")
        other = live.ask("GET", "/v1/models/dexk")

    assert {"desk", "slow", "tester:talk"} <= set(listed)
    assert {"desk:latest", "desk"} & set(tags)
    assert (one.status, one.json["id"]) == (200, "desk")
    assert other.status == 404


def test_a_workflow_of_the_same_name_goes_first_and_check_says_so(tmp_path: Path) -> None:
    tree = desk(tmp_path).write("Conversations/talk.json", {"workflow": "talk"})
    with tree.serve() as live:
        listed = [model["id"] for model in live.ask("GET", "/v1/models").json["data"]]
        answer = live.says(stream=False, model="talk", messages=[{"role": "user", "content": "hi"}])
        started = live.ask("GET", "/durable/v1/conversations").json["conversations"]
        problems = [problem for problem in live.problems() if "talk" in problem]

    assert "talk" not in listed
    assert answer.startswith("Turn 1: ")
    assert started == []
    assert "shared workflow 'talk'" in problems[0]


@pytest.mark.parametrize("stream", [False, True])
def test_only_the_last_message_becomes_a_turn(tmp_path: Path, stream: bool) -> None:
    with desk(tmp_path).serve() as live:
        front = FrontEnd(live)
        said = [front.ask(text, stream=stream) for text in ("Hello", "And you?", "Bye then")]
        told = transcript(live, "talk-1")

    assert [text.partition(":")[0] for text in said] == ["Turn 1", "Turn 2", "Turn 3"]
    assert told == [("Hello", "replied"), ("And you?", "replied"), ("Bye then", "replied")]


def test_a_repeated_list_gets_the_recorded_reply(tmp_path: Path) -> None:
    with desk(tmp_path).serve() as live:
        front = FrontEnd(live)
        front.ask("Hello")
        first = front.ask("Again")
        front.undo()
        second = front.ask("Again")
        told = transcript(live, "talk-1")

    assert second == first
    assert told == [("Hello", "replied"), ("Again", "replied")]


def test_the_same_list_at_once_is_one_turn(tmp_path: Path) -> None:
    with desk(tmp_path).serve() as live:
        heard: list[str] = []

        def ask() -> None:
            heard.append(FrontEnd(live, "slow").ask("five", stream=True))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = transcript(live, "talk-1")

    assert heard == ["one two three four five"] * 4
    assert told == [("five", "replied")]


def test_where_the_conversation_is_named(tmp_path: Path) -> None:
    with desk(tmp_path).serve() as live:
        unnamed = FrontEnd(live, id=None)
        unnamed.messages = [{"role": "user", "content": "Hello"}]
        begun = unnamed.send()
        id = begun.headers["x-conversation-id"]
        unnamed.messages = [{"role": "user", "content": "Hello"}] * 2
        notice = unnamed.send().json["choices"][0]["message"]["content"]
        unnamed.messages = [{"role": "user", "content": "Hello"}]
        FrontEnd(live, id=id).send()
        metadata = unnamed.send(metadata={"conversation_id": "by-metadata"})
        tag = {"role": "system", "content": "[DiscussionId]my notes[/DiscussionId]Be kind."}
        unnamed.messages.insert(0, tag)
        tagged = [unnamed.send().headers["x-conversation-id"] for _ in range(2)]
        told = {name: transcript(live, name) for name in (id, "by-metadata", tagged[0])}

    assert id.startswith("conv-")
    assert "[DiscussionId]" in notice
    assert metadata.headers["x-conversation-id"] == "by-metadata"
    assert tagged[0] == tagged[1]
    assert told == {name: [("Hello", "replied")] for name in told}


def test_a_proposal_is_approved_by_a_command(tmp_path: Path) -> None:
    with desk(tmp_path).serve() as live:
        front = FrontEnd(live)
        shown = front.ask(REFUND)
        wrong = front.ask("/approve nothing-like-it")
        behind = front.ask("Are you there?")
        approved = front.ask("/approve " + shown.split("/approve ")[1].split("`")[0])
        front.undo()
        again = front.ask("/approve " + shown.split("/approve ")[1].split("`")[0])
        late = front.ask("/decline")
        last = front.ask("Thanks")
        told = transcript(live, "talk-1")

    assert "**refund** is proposed" in shown
    assert REFUND in shown
    assert "not what waits" in wrong
    assert "queued behind the decision" in behind
    assert approved == again
    assert "Nothing waits" in late
    assert last.startswith("Turn 3: ")
    assert told == [(REFUND, "approved"), ("Are you there?", "replied"), ("Thanks", "replied")]


def test_a_proposal_is_declined_without_an_id(tmp_path: Path) -> None:
    with desk(tmp_path).serve() as live:
        front = FrontEnd(live)
        front.ask(REFUND, stream=True)
        front.ask("/decline", stream=True)
        told = transcript(live, "talk-1")

    assert told == [(REFUND, "declined")]


def test_commands_can_have_other_names_and_keys_that_may_not(tmp_path: Path) -> None:
    tree = desk(tmp_path, approveCommand="/ok", declineCommand="", mayApprove=["boss"])
    tree.user(apiKeys=[{"name": name, "key": name} for name in ("boss", "clerk")])
    with tree.serve() as live:

        def ask(key: str, text: str) -> str:
            messages.append({"role": "user", "content": text})
            body = {"model": "desk", "messages": messages}
            headers = {"X-Conversation-Id": "talk-1", "Authorization": f"Bearer {key}"}
            received = live.ask("POST", "/v1/chat/completions", body, **headers)
            answer: str = received.json["choices"][0]["message"]["content"]
            messages.append({"role": "assistant", "content": answer})
            return answer

        messages: list[dict[str, str]] = []
        shown = ask("clerk", REFUND)
        refused = ask("clerk", "/ok")
        ask("boss", "/ok")
        headers = {"Authorization": "Bearer boss"}
        path = "/durable/v1/conversations/talk-1/transcript"
        (turn,) = live.ask("GET", path, **headers).json["turns"]

    assert "/ok" not in shown
    assert "may not decide" in refused
    assert turn["outcome"] == "approved"
    assert turn["action"]["decided_by"] == "tester/boss"


def test_an_edited_message_is_a_notice(tmp_path: Path) -> None:
    with desk(tmp_path).serve() as live:
        front = FrontEnd(live)
        front.ask("Hello")
        front.ask("More")
        front.messages[0]["content"] = "Hallo"
        edited = front.ask("Thanks")
        del front.messages[2:]
        front.messages[0]["content"] = "Hello"
        removed = front.ask("Thanks")
        told = transcript(live, "talk-1")

    assert "edited or removed" in edited
    assert "edited or removed" in removed
    assert told == [("Hello", "replied"), ("More", "replied")]


def test_an_edited_message_begins_another_conversation_where_that_is_wanted(
    tmp_path: Path,
) -> None:
    with desk(tmp_path, onDivergence="fork").serve() as live:
        front = FrontEnd(live)
        front.ask("Hello")
        front.ask("More")
        front.messages[2]["content"] = "Less"
        del front.messages[3:]
        forked = front.send()
        id = forked.headers["x-conversation-id"]
        front.messages.append({"role": "assistant", "content": "…"})
        front.ask("Thanks")
        told = {name: transcript(live, name) for name in ("talk-1", id)}
        runs = live.ask("GET", f"/durable/v1/conversations/{id}").json["runs"]

    assert told["talk-1"] == [("Hello", "replied"), ("More", "replied")]
    assert told[id] == [("Less", "replied"), ("Thanks", "replied")]
    assert runs[0]["state_in"]["summary"] is not None


def test_a_front_end_that_sends_only_the_newest_message(tmp_path: Path) -> None:
    with desk(tmp_path, onDivergence="continue").serve() as live:
        said = []
        for text in ("Hello", "More"):
            front = FrontEnd(live)
            said.append(front.ask(text))

    assert said[1].startswith("Turn 2: ")


def test_the_end(tmp_path: Path) -> None:
    with desk(tmp_path).serve() as live:
        front = FrontEnd(live)
        front.ask("Hello")
        ended = front.ask("/end")
        after = front.ask("Are you there?")
        status = live.ask("GET", "/durable/v1/conversations/talk-1/status").json

    assert "has ended" in ended
    assert "Start a new chat" in after
    assert (status["closed_reason"], status["turn_count"]) == ("ended", 1)


def test_a_client_that_leaves_finds_the_reply_later(tmp_path: Path) -> None:
    with desk(tmp_path).serve() as live:
        front = FrontEnd(live, "slow")
        front.messages = [{"role": "user", "content": "five"}]
        with live.connect() as leaving:
            body = {"model": "slow", "messages": front.messages, "stream": True}
            leaving.send("POST", "/v1/chat/completions", body, **{"X-Conversation-Id": "talk-1"})
            path = "/durable/v1/conversations/talk-1/status"
            wait_until(lambda: live.ask("GET", path).json.get("phase") == "thinking")
        answer = front.send().json["choices"][0]["message"]["content"]
        told = transcript(live, "talk-1")

    assert answer == "one two three four five"
    assert told == [("five", "replied")]


def test_all_doors_speak_to_one_conversation(tmp_path: Path) -> None:
    with desk(tmp_path).serve() as live, client_of(live) as client:
        front = FrontEnd(live)
        front.ask("Hello")
        asked = client.responses.create(model="desk", conversation="talk-1", input=REFUND)
        notice = front.ask("Anyone?")
        url = "/durable/v1/conversations/talk-1/signals/decision"
        proposal = proposal_of(asked).id.removeprefix("mcpr_")
        arguments = {"proposalId": proposal, "approved": True, "reviewer": "Ann"}
        live.ask("POST", url, {"arguments": arguments})
        front.undo()
        reply = front.ask("Anyone?")
        front.ask("Bye")
        told = transcript(live, "talk-1")

    assert "queued behind" in notice
    assert reply.startswith("Turn 3: ")
    assert told == [
        ("Hello", "replied"),
        (REFUND, "approved"),
        ("Anyone?", "replied"),
        ("Bye", "replied"),
    ]


def test_the_doors_of_ollama_and_anthropic_have_profiles_too(tmp_path: Path) -> None:
    message = [{"role": "user", "content": "Hello"}]
    with desk(tmp_path).serve() as live:
        body = {"model": "desk", "messages": message}
        ollama = live.ask("POST", "/api/chat", {**body, "stream": False})
        anthropic = live.ask("POST", "/v1/messages", {**body, "max_tokens": 9})

    assert ollama.json["message"]["content"].startswith("Turn 1: ")
    assert anthropic.json["content"][0]["text"].startswith("Turn 1: ")


def test_chores_are_no_turns(tmp_path: Path) -> None:
    chore = "### Task:\nSuggest a title.\n<chat_history>\nUSER: Hello\n</chat_history>"
    with Upstream(chat("A title")) as model:
        tree = desk(tmp_path).model("Main", model.url).workflow("titles", [answers("Main")])
        tree.user(choreWorkflow="titles")
        with tree.serve() as live:
            front = FrontEnd(live)
            title = front.ask(chore)
            started = live.ask("GET", "/durable/v1/conversations").json["conversations"]

    assert title == "A title"
    assert started == []


def test_the_turn_of_a_chat_survives_the_process(tmp_path: Path) -> None:
    tree = desk(tmp_path)
    with own_process(tree.public) as server:
        front = FrontEnd(server, "slow")
        front.messages = [{"role": "user", "content": "five"}]
        with server.connect() as lost:
            body = {"model": "slow", "messages": front.messages, "stream": True}
            lost.send("POST", "/v1/chat/completions", body, **{"X-Conversation-Id": "talk-1"})
            path = "/durable/v1/conversations/talk-1/status"
            wait_until(lambda: server.ask("GET", path).json.get("phase") == "thinking", 20)
            server.kill()
    with own_process(tree.public, log_name="second.log") as server:
        front.live = server
        answer = front.send().json["choices"][0]["message"]["content"]
        told = transcript(server, "talk-1")

    assert answer == "one two three four five"
    assert told == [("five", "replied")]


def test_a_failed_turn_says_so_in_the_answer(tmp_path: Path) -> None:
    tree = desk(tmp_path, actions={})
    with tree.serve() as live:
        answer = FrontEnd(live).ask(REFUND)

    assert "\n\nTurn 1 failed: The model proposed 'refund'" in answer
    assert json.dumps(answer)
