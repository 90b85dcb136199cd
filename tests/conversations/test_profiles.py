"""Profiles as files, whose turns and actions are ordinary workflows (specification §18)."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.options import ServerOptions
from Middleware.app import build_parts
from Middleware.config.locations import Locations
from Middleware.config.store import ConfigStore
from Middleware.conversations.check import check_profiles
from Middleware.conversations.inbox import Send, Start, Started
from Middleware.conversations.model import parse_outcome
from Middleware.conversations.models import Action, BadOutcome, ModelOutcome, Options
from Middleware.conversations.page import Page
from Middleware.conversations.profiles import FAKE_PROFILE, FileProfiles
from Middleware.conversations.service import Conversations, Parts
from Middleware.conversations.settings import EngineSettings, WorkerSettings
from Middleware.conversations.workflow_runs import WorkflowRuns
from Middleware.core.errors import ConfigError
from Middleware.core.events import Reply
from Middleware.core.messages import ToolCall
from Middleware.runs.recorder import MemoryRecorder
from tests.fakes.headrace import Tree, answers, static
from tests.fakes.live_site import wait_until
from tests.fakes.upstream import Upstream, whole

ROOT = Path(__file__).resolve().parent.parent.parent

SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}


def tool_call(name: str, arguments: str) -> tuple[ToolCall, ...]:
    return (ToolCall(id="call_1", name=name, arguments=arguments),)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(text="plain"), ModelOutcome(reply="plain")),
        (Reply(text='{"other": 1}'), ModelOutcome(reply='{"other": 1}')),
        (Reply(text='{"reply": 1}'), ModelOutcome(reply='{"reply": 1}')),
        (
            Reply(text=' {"reply": "hi", "summary_note": "n"}\n'),
            ModelOutcome(reply="hi", summary_note="n"),
        ),
        (
            Reply(text='{"reply": "ok?", "action": {"name": "pay", "arguments": {"a": 1}}}'),
            ModelOutcome(reply="ok?", action=Action(name="pay", arguments={"a": 1})),
        ),
        (
            Reply(text='{"reply": "", "action": {"name": "pay", "arguments": "{\\"a\\": 1}"}}'),
            ModelOutcome(reply="", action=Action(name="pay", arguments={"a": 1})),
        ),
        (
            Reply(text="ok?", tool_calls=tool_call("pay", '{"a": 1}')),
            ModelOutcome(reply="ok?", action=Action(name="pay", arguments={"a": 1})),
        ),
        (
            Reply(text="", tool_calls=tool_call("pay", "")),
            ModelOutcome(reply="", action=Action(name="pay", arguments={})),
        ),
    ],
)
def test_what_a_workflow_puts_out_as_the_outcome_of_a_turn(
    reply: Reply, expected: ModelOutcome
) -> None:
    assert parse_outcome(reply) == expected


@pytest.mark.parametrize(
    "reply",
    [
        Reply(tool_calls=tool_call("pay", "{")),
        Reply(tool_calls=tool_call("pay", "[1]")),
        Reply(tool_calls=(*tool_call("pay", "{}"), *tool_call("pay", "{}"))),
        Reply(text='{"reply": "", "action": {"arguments": {}}}'),
        Reply(text='{"reply": "", "action": "pay"}'),
    ],
)
def test_outcomes_that_cannot_be_used(reply: Reply) -> None:
    with pytest.raises(BadOutcome):
        parse_outcome(reply)


def test_the_shipped_profile_is_the_fake_model() -> None:
    store = ConfigStore(Locations.find(ROOT), ())

    profile = FileProfiles(store).find("refund-desk")

    assert profile is not None
    assert profile.workflow == ""
    assert profile.options == Options()
    assert profile.actions["refund"].arguments_schema == (
        FAKE_PROFILE.actions["refund"].arguments_schema
    )


def test_a_schema_of_an_action_fetches_nothing(tmp_path: Path) -> None:
    with Upstream(whole({"type": "object"})) as elsewhere:
        action = {"schema": {"$ref": f"{elsewhere.url}/schema.json"}}
        tree = Tree(tmp_path).write("Conversations/desk.json", {"actions": {"pay": action}})
        store = build_parts(ServerOptions(public_directory=tree.public)).store
        profile = FileProfiles(store).find("desk")

        assert profile is not None
        with pytest.raises(BadOutcome, match="'pay' cannot be used: it refers to"):
            profile.check(Action(name="pay", arguments={}))
        assert elsewhere.connections == 0


def test_profiles_are_found_by_name_and_broken_ones_are_told(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("Conversations/desk.json", {"options": {"inactivitySeconds": 5}})
    tree.write("Conversations/broken.json", {"options": {"turnsPerRun": 0}})
    tree.write("Conversations/odd.json", {"actions": {"pay": {"schema": {"type": 1}}}})
    profiles = FileProfiles(build_parts(ServerOptions(public_directory=tree.public)).store)

    desk = profiles.find("desk")

    assert desk is not None
    assert desk.options == Options(inactivity_seconds=5, decision_timeout_seconds=5)
    assert profiles.names() == ("broken", "desk", "odd", "refund-desk")
    assert profiles.find("none") is None
    assert profiles.find("../Users/tester") is None
    for name in ("broken", "odd"):
        with pytest.raises(ConfigError) as caught:
            profiles.find(name)
        assert f"Conversations/{name}.json" in caught.value.message


class Receiver:
    """An outside system that is told of actions, and refuses the first telling."""

    def __init__(self) -> None:
        self.told: list[tuple[str | None, Any]] = []


@contextmanager
def receiver() -> Iterator[tuple[Receiver, str]]:
    seen = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.told.append((self.headers["Idempotency-Key"], body))
            self.send_response(503 if len(seen.told) == 1 else 200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield seen, f"http://127.0.0.1:{server.server_port}/actions"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def conversations(tree: Tree) -> Iterator[tuple[Conversations, MemoryRecorder]]:
    recorder = MemoryRecorder()
    parts = build_parts(ServerOptions(public_directory=tree.public), recorder=recorder)
    made = Conversations(
        Parts(
            database_url=f"sqlite:///{tree.public / 'durable.sqlite'}",
            profiles=FileProfiles(parts.store),
            run=WorkflowRuns(parts.store, parts.backends, recorder, parts.clock),
            settings=WorkerSettings(engine=EngineSettings(poll_seconds=0.02)),
        )
    )
    try:
        yield made, recorder
    finally:
        made.stop()


@pytest.mark.slow
def test_turns_and_actions_run_workflows(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    rules = [
        {
            "match": "(?i)pay",
            "reply": "I would pay.",
            "toolCalls": [{"name": "pay", "arguments": {"order": 7}}],
        },
        {"match": "(?i)tell", "reply": "", "toolCalls": [{"name": "tell", "arguments": {}}]},
    ]
    tree.scripted("Main", "Turn {input}", rules=rules)
    tree.workflow("clerk", [answers("Main", allowTools=True)])
    tree.workflow("note", [static("old: {agent1Input} | said: {agent2Input}")])
    tree.workflow("cashier", [static("Paid {agent1Input} under {agent2Input}.")])
    with receiver() as (seen, url), conversations(tree) as (talks, recorder):
        tree.write(
            "Conversations/clerk.json",
            {
                "workflow": "clerk",
                "summaryWorkflow": "note",
                "actions": {
                    "pay": {"workflow": "cashier", "schema": SCHEMA},
                    "tell": {"http": {"url": url}, "approval": False},
                },
            },
        )
        start = Start(profile="clerk", options=Options(), conversation_id="c")
        assert isinstance(talks.start(start), Started)

        def say(text: str, turns: int) -> None:
            talks.send("c", Send(name="message", arguments=[text]))
            wait_until(lambda: status()["turn_count"] == turns)

        def status() -> dict[str, Any]:
            found = talks.reader.status("c")
            assert found is not None
            return found

        say("Hello", 1)
        talks.send("c", Send(name="message", arguments=["Please pay"]))
        wait_until(lambda: status()["pending_proposal"])
        proposal = status()["pending_proposal"]
        talks.send("c", Send(name="decision", arguments=[proposal["id"], True, "Ann"]))
        wait_until(lambda: status()["turn_count"] == 2)
        say("tell them", 3)
        transcript = talks.reader.transcript("c", Page())
        described = talks.reader.describe("c")
        runs = [run for run in recorder if run["workflow"] == "_DefaultWorkflow"]

    assert transcript is not None
    assert described is not None
    assert [(turn["reply"], turn["outcome"]) for turn in transcript["turns"]] == [
        ("Turn Hello", "replied"),
        ('Paid {"order": 7} under c:2:action.', "approved"),
        ("Turn 3: tell was approved and carried out.", "approved"),
    ]
    assert proposal["arguments"] == {"order": 7}
    # Refused once, told again under the same key.
    assert [key for key, _ in seen.told] == ["c:3:action", "c:3:action"]
    assert seen.told[1][1]["action"] == "tell"
    assert described["summary"].endswith("| said: tell them")
    assert {run["door"] for run in runs} == {"durable"}
    assert {run["requestId"] for run in runs} >= {"c:1:model", "c:2:action", "c:3:model:summary"}


def test_check_tells_what_is_wrong_with_profiles(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.workflow("clerk", [static("hi")])
    tree.write(
        "Conversations/clerk.json",
        {
            "workflow": "clerk",
            "summaryWorkflow": "nobody",
            "actions": {
                "pay": {"workflow": "cashier", "aproval": False},
                "tell them": {"workflow": "clerk", "http": {"url": "desk.example"}},
            },
            "options": {"decisionTimeoutSeconds": 0, "turnPerRun": 2},
            "maySend": ["shop", "key 2", "--api-key"],
            "mayApprove": ["anna"],
        },
    )
    tree.user(apiKeys=[{"name": "ann", "key": "a"}, "plain"])
    tree.write("Conversations/shop/lost.json", {"workflow": "clerk"})
    tree.write("Conversations/no.json", {"actions": {"a": {"schema": {"type": "nothing"}}}})
    tree.write("Conversations/no.yaml", {"actions": {"a": {"approval": "perhaps"}}})
    tree.write("Conversations/broken.json", {"recentTurns": "many"})
    store = build_parts(ServerOptions(public_directory=tree.public)).store

    told = check_profiles(store)
    found = [(one.code, one.severity, one.file, one.place) for one in told]

    clerk = "Conversations/clerk.json"
    assert found == [
        ("two_files_of_one_name", "error", "Conversations/no.json", ""),
        ("invalid_value", "error", "Conversations/broken.json", "recentTurns"),
        ("unknown_key", "warning", clerk, "options.turnPerRun"),
        ("unknown_key", "warning", clerk, "actions.pay.aproval"),
        ("missing_profile_workflow", "error", clerk, "summaryWorkflow"),
        ("missing_profile_workflow", "error", clerk, "actions.pay.workflow"),
        ("profile_hidden", "warning", clerk, ""),
        ("unusable_action_name", "warning", clerk, "actions.tell them"),
        ("action_does_two_things", "warning", clerk, "actions.tell them"),
        ("bad_url", "error", clerk, "actions.tell them.http.url"),
        ("unanswerable_proposal", "warning", clerk, "options.decisionTimeoutSeconds"),
        ("unknown_key_name", "warning", clerk, "maySend[0]"),
        ("unknown_key_name", "warning", clerk, "mayApprove[0]"),
        ("invalid_value", "error", "Conversations/no.json", "actions.a.schema"),
        ("invalid_value", "error", "Conversations/no.yaml", "actions.a.approval"),
        ("misplaced_profile", "warning", "Conversations/shop/lost.json", ""),
    ]
    remedies = {one.place: one.remedy for one in told}
    assert "turnsPerRun" in remedies["options.turnPerRun"]
    assert "approval" in remedies["actions.pay.aproval"]
    assert "`ann`" in remedies["mayApprove[0]"]
