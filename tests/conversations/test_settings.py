"""What `durable` of a user file sets, from the file to what one sees of it."""

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.config.durable import Durable
from Middleware.conversations.rules import Limits
from Middleware.conversations.settings import WorkerSettings
from Middleware.conversations.setup import worker_settings
from tests.fakes.headrace import Headrace, Tree, answers, wait_until

BASE = "/durable/v1/conversations"


def flat(settings: Any, under: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in fields(settings):
        value = getattr(settings, one.name)
        if is_dataclass(value):
            found |= flat(value, f"{one.name}.")
        else:
            found[under + one.name] = value
    return found


def test_without_a_word_in_the_file_the_defaults_are_those_of_the_code() -> None:
    assert worker_settings(Durable()) == WorkerSettings()
    said = Durable()
    assert Limits() == Limits(
        payload_bytes=said.max_payload_bytes, unapplied_signals=said.max_unapplied_signals
    )


def test_every_setting_of_a_worker_is_one_of_the_file() -> None:
    said = Durable.model_validate(
        {
            "leaseSeconds": 7,
            "repairEverySeconds": 8,
            "turnsAtOnce": 9,
            "modelMaxAttempts": 10,
            "retryPauseSeconds": 11,
            "taskMaxFailures": 12,
            "redispatchAfterSeconds": 13,
            "repairScanLimit": 14,
            "failureBackoffMaxSeconds": 15,
            "keepRepliesDays": 16,
            "keepConversationsDays": 17,
        }
    )
    changed = {
        name: value
        for name, value in flat(worker_settings(said)).items()
        if value != flat(WorkerSettings())[name]
    }

    assert changed == {
        "lease_seconds": 7,
        "loop_throttle_seconds": 8,
        "turns_at_once": 9,
        "model_max_attempts": 10,
        "retry_pause_seconds": 11,
        "task_max_failures": 12,
        "repair.redispatch_after_seconds": 13,
        "repair.scan_limit": 14,
        "repair.failure_backoff_max_seconds": 15,
        "retention.record_days": 16,
        "retention.conversation_days": 17,
    }


def strict(root: Path) -> Tree:
    tree = Tree(
        root,
        durable={
            "maxPayloadBytes": 100,
            "maxUnappliedSignals": 2,
            "maxWaitingReaders": 0,
            "modelMaxAttempts": 1,
            "turnsAtOnces": 3,
        },
    )
    tree.workflow("talk", [answers("Broken")])
    tree.scripted(
        "Broken", rules=[{"match": "Break", "fail": {"status": 500, "message": "no"}, "reply": ""}]
    )
    return tree.write("Conversations/desk.json", {"workflow": "talk"})


def send(live: Headrace, id: str, text: str) -> Any:
    return live.ask("POST", f"{BASE}/{id}/signals/message", {"arguments": [text]})


@pytest.mark.slow
def test_a_server_keeps_to_what_its_user_file_says(tmp_path: Path) -> None:
    with strict(tmp_path).serve() as live:
        id = live.ask("POST", BASE, {"profile": "refund-desk"}).json["conversation_id"]
        too_long = send(live, id, "x" * 100)
        send(live, id, "Please refund my order")
        wait_until(lambda: live.ask("GET", f"{BASE}/{id}/status").json["pending_proposal"])
        unapplied = [send(live, id, "and then?").status for _ in range(3)]
        reader = live.ask("GET", f"{BASE}/{id}/events")

        broken = live.ask("POST", BASE, {"profile": "desk", "message": "Break"}).json
        path = f"{BASE}/{broken['conversation_id']}"
        wait_until(lambda: live.ask("GET", f"{path}/status").json["turn_count"] == 1)
        events = live.ask("GET", f"{path}/history").json["events"]
        told = [problem for problem in live.problems() if "durable" in problem]

    assert too_long.status == 413
    assert unapplied == [202, 202, 429]
    assert reader.status == 503
    assert [event["type"] for event in events].count("activity_failed") == 1
    assert len(told) == 1
    assert "durable.turnsAtOnces" in told[0]
    assert "turnsAtOnce" in told[0]
