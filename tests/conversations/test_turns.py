"""Sections 4 to 10 and 12 of the specification, a step at a time and with a clock of our own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from Middleware.conversations import rules, tables
from Middleware.conversations.inbox import Send, Start, Started
from Middleware.conversations.models import (
    Action,
    BadOutcome,
    ModelCall,
    ModelOutcome,
    Options,
    Receipt,
    Refusal,
)
from Middleware.conversations.page import Page
from Middleware.conversations.profiles import FAKE_PROFILE, ActionFile, FixedProfiles, Profile
from tests.fakes.stepping import SteppingEngine

PROFILE = Profile(
    name="desk",
    recent_turns=2,
    actions={
        "refund": FAKE_PROFILE.actions["refund"],
        "note": ActionFile.model_validate({"approval": False}),
    },
)


class Talk:
    def __init__(self, folder: Path) -> None:
        self.engine = SteppingEngine(
            folder,
            FixedProfiles((PROFILE, FAKE_PROFILE)),
            limits=rules.Limits(unapplied_signals=10_000),
        )
        self.reader = self.engine.reader

    def start(self, profile: str = "refund-desk", **options: Any) -> None:
        start = Start(profile=profile, options=Options.parse(options), conversation_id="c")
        assert isinstance(self.engine.inbox.start(start), Started)

    def message(self, text: str, **more: Any) -> Receipt | Refusal:
        return self.engine.inbox.send("c", Send(name="message", arguments=[text], **more))

    def decide(self, proposal: str, *, approved: bool = True, **more: Any) -> Receipt | Refusal:
        arguments = [proposal, approved, "Ann"]
        return self.engine.inbox.send("c", Send(name="decision", arguments=arguments, **more))

    def say(self, text: str) -> None:
        self.message(text)
        self.engine.run()

    def pass_(self, seconds: float) -> None:
        """Time goes by, and what is due by then is done."""
        self.engine.clock.pass_(seconds)
        self.engine.repairer.wake_due()
        self.engine.run()

    @property
    def status(self) -> dict[str, Any]:
        status = self.reader.status("c")
        assert status is not None
        return status

    @property
    def proposal(self) -> str:
        proposal: str = self.status["pending_proposal"]["id"]
        return proposal

    def turns(self) -> list[dict[str, Any]]:
        found = self.reader.transcript("c", Page(limit=1000))
        assert found is not None
        turns: list[dict[str, Any]] = found["turns"]
        return turns

    def signals(self) -> list[tuple[Any, ...]]:
        found = self.reader.signals("c", Page(limit=1000))
        assert found is not None
        return [(s["name"], s["status"], s["reason"], s["applied_turn"]) for s in found["signals"]]

    def events(self, type_: str) -> list[dict[str, Any]]:
        found = self.reader.history("c", Page(limit=1000))
        assert found is not None
        return [event for event in found["events"] if event["type"] == type_]

    def phases(self) -> list[str]:
        return [event["phase"] for event in self.events("phase_changed")]


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(tmp_path)
    yield talk
    talk.engine.database.close()


def test_a_turn_from_message_to_reply(talk: Talk) -> None:
    talk.start()

    talk.say("Hello")

    assert talk.turns()[0] | {"run_id": ""} == {
        "turn": 1,
        "generation": 1,
        "run_id": "",
        "text": "Hello",
        "sender": None,
        "reply": "Turn 1: you said 'Hello'.",
        "reference": "c:1",
        "expired": False,
        "outcome": "replied",
        "error": None,
        "action": None,
    }
    assert talk.phases() == ["thinking", "recording_reply", "waiting_for_input"]
    assert talk.status["latest_reply_reference"] == "c:1"


def test_messages_while_nobody_works_get_a_turn_each_in_their_order(talk: Talk) -> None:
    talk.start(turns_per_run=10)
    for text in ("a", "b", "c"):
        talk.message(text)

    talk.engine.run()

    assert [(turn["turn"], turn["text"]) for turn in talk.turns()] == [(1, "a"), (2, "b"), (3, "c")]


def test_setting_the_clock_back_changes_no_order(talk: Talk) -> None:
    talk.start()
    talk.message("first")
    talk.engine.clock.pass_(-10_000)
    talk.message("second")

    talk.engine.run()

    assert [turn["text"] for turn in talk.turns()] == ["first", "second"]


def test_the_end_comes_in_the_second_generation_after_two_turns_of_the_first(talk: Talk) -> None:
    talk.start(turns_per_run=2)
    for text in ("A", "B", " /end ", "too late"):
        talk.message(text)

    talk.engine.run()

    status = talk.status
    assert (status["phase"], status["closed_reason"]) == ("completed", "ended")
    assert (status["generation"], status["turn_count"], status["turns_this_run"]) == (2, 2, 0)
    assert talk.signals()[2:] == [
        ("message", "applied", None, None),
        ("message", "rejected", "run_closed_before_signal_applied", None),
    ]
    answer = talk.message("later")
    assert isinstance(answer, Refusal)
    assert answer.outcome == "rejected_not_active"


def test_the_inactivity_clock_starts_anew_at_each_wait(talk: Talk) -> None:
    talk.start(inactivity_seconds=100)
    talk.pass_(90)
    talk.say("Hello")

    talk.pass_(90)
    still = talk.status["phase"]
    talk.pass_(20)

    assert still == "waiting_for_input"
    assert talk.status["closed_reason"] == "inactivity"
    assert talk.events("timeout_fired")[0]["wait"] == "message"


def test_a_message_that_was_accepted_before_the_end_was_recorded_is_applied(talk: Talk) -> None:
    talk.start(inactivity_seconds=100)
    talk.engine.clock.pass_(500)
    talk.message("late, but there")

    talk.engine.repairer.wake_due()
    talk.engine.run()

    assert talk.status["turn_count"] == 1
    assert talk.status["phase"] == "waiting_for_input"


def test_with_no_inactivity_allowed_it_ends_as_soon_as_nothing_is_buffered(talk: Talk) -> None:
    talk.start(inactivity_seconds=0, decision_timeout_seconds=5, turns_per_run=1)
    talk.message("a")
    talk.message("b")

    talk.engine.run()
    talk.pass_(0)

    assert talk.status["turn_count"] == 2
    assert talk.status["closed_reason"] == "inactivity"


def test_an_approved_proposal_runs_its_action_once_and_then_replies(talk: Talk) -> None:
    talk.start()
    talk.say("Please refund my order")
    status = talk.status
    assert status["phase"] == "awaiting_approval"
    assert status["pending_proposal"] | {"id": "", "deadline": 0} == {
        "id": "",
        "action": "refund",
        "arguments": {"request": "Please refund my order"},
        "turn": 1,
        "deadline": 0,
    }

    talk.decide(talk.proposal, sender="default/ann")
    talk.engine.run()

    assert talk.status["pending_proposal"] is None
    assert [call.reference for call in talk.engine.actions.calls] == ["c:1:action"]
    (turn,) = talk.turns()
    assert turn["outcome"] == "approved"
    assert turn["action"] | {"proposal_id": ""} == {
        "name": "refund",
        "arguments": {"request": "Please refund my order"},
        "proposal_id": "",
        "decision": "approved",
        "reviewer": "Ann",
        "decided_by": "default/ann",
    }
    assert talk.phases() == [
        "thinking",
        "awaiting_approval",
        "applying_action",
        "recording_reply",
        "waiting_for_input",
    ]


def test_a_declined_proposal_starts_no_action(talk: Talk) -> None:
    talk.start()
    talk.say("refund")

    talk.decide(talk.proposal, approved=False)
    talk.engine.run()

    assert talk.turns()[0]["outcome"] == "declined"
    assert talk.turns()[0]["reply"] == "Turn 1: the refund was declined for 'refund'."
    assert talk.engine.actions.calls == []
    assert talk.engine.rows(tables.actions) == []


def test_a_decision_that_does_not_come_is_a_no_and_ignored_ones_do_not_move_the_deadline(
    talk: Talk,
) -> None:
    talk.start(decision_timeout_seconds=60, inactivity_seconds=10_000)
    talk.say("refund")
    deadline = talk.status["pending_proposal"]["deadline"]

    talk.engine.clock.pass_(50)
    talk.decide("prop-other")
    talk.engine.run()
    assert talk.status["pending_proposal"]["deadline"] == deadline
    talk.pass_(11)

    assert talk.turns()[0]["outcome"] == "timed_out"
    assert talk.engine.actions.calls == []
    assert talk.signals()[1] == ("decision", "ignored", "proposal_mismatch", 1)


def test_a_matching_decision_accepted_before_the_timeout_was_recorded_wins(talk: Talk) -> None:
    talk.start(decision_timeout_seconds=60, inactivity_seconds=10_000)
    talk.say("refund")
    talk.engine.clock.pass_(500)
    talk.decide(talk.proposal)

    talk.engine.run()

    assert talk.turns()[0]["outcome"] == "approved"


def test_of_two_decisions_the_lower_number_wins(talk: Talk) -> None:
    talk.start()
    talk.say("refund")
    talk.decide(talk.proposal, approved=False)
    talk.decide(talk.proposal, approved=True)

    talk.engine.run()
    talk.say("refund again")

    assert talk.turns()[0]["outcome"] == "declined"
    # The other one is looked at when the next decision is waited for, and names nothing.
    assert talk.signals()[2] == ("decision", "ignored", "proposal_mismatch", 2)
    assert talk.status["phase"] == "awaiting_approval"


def test_an_early_decision_is_ignored_and_messages_wait_behind_the_proposal(talk: Talk) -> None:
    talk.start()
    talk.decide("prop-guessed")
    talk.say("refund")
    talk.message("next")
    talk.engine.run()

    assert talk.status["buffered"] == {"message": 1, "decision": 0}
    talk.decide(talk.proposal)
    talk.engine.run()

    assert [turn["outcome"] for turn in talk.turns()] == ["approved", "replied"]


def test_an_action_that_needs_no_approval_is_carried_out_at_once(talk: Talk) -> None:
    talk.engine.model.outcome = lambda call: ModelOutcome(
        reply="", action=Action(name="note", arguments={"x": 1})
    )
    talk.start("desk")

    talk.say("note it")

    assert talk.turns()[0]["outcome"] == "approved"
    assert talk.phases()[:3] == ["thinking", "applying_action", "recording_reply"]
    assert talk.turns()[0]["action"]["decision"] is None


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (Action(name="rob", arguments={}), "Turn 1 failed: The model proposed 'rob'"),
        (
            Action(name="refund", arguments={"request": 1}),
            "Turn 1 failed: The arguments of 'refund' do not fit: request: 1 is not of type",
        ),
    ],
)
def test_an_action_that_may_not_be_proposed_ends_the_turn(
    talk: Talk, action: Action, told: str
) -> None:
    talk.engine.model.outcome = lambda call: ModelOutcome(reply="", action=action)
    talk.start("desk")

    talk.say("do it")

    assert talk.turns()[0]["outcome"] == "failed"
    assert talk.turns()[0]["reply"].startswith(told)
    assert len(talk.engine.model.calls) == 1


def test_a_failing_model_is_asked_three_times_and_then_the_turn_has_failed(talk: Talk) -> None:
    talk.start()
    talk.engine.model.failures = 3

    talk.say("Hello")
    talk.say("again")

    first, second = talk.turns()
    assert (first["outcome"], second["outcome"]) == ("failed", "replied")
    assert first["reply"] == "Turn 1 failed: an internal error (ValueError)"
    assert [event["attempt"] for event in talk.events("activity_failed")] == [1, 2, 3]
    assert talk.status["turn_count"] == 2


def test_a_model_that_fails_twice_has_not_failed(talk: Talk) -> None:
    talk.start()
    talk.engine.model.failures = 2

    talk.say("Hello")

    assert talk.turns()[0]["outcome"] == "replied"
    assert {call.idempotency_key for call in talk.engine.model.calls} == {"c:1:model"}
    assert [call.attempt for call in talk.engine.model.calls] == [1, 2, 3]


def test_a_failing_action_is_tried_three_times_and_the_reply_says_so(talk: Talk) -> None:
    talk.start()
    talk.say("refund")
    talk.engine.actions.failures = 3

    talk.decide(talk.proposal)
    talk.engine.run()

    assert talk.turns()[0]["outcome"] == "action_failed"
    assert "failed" in talk.turns()[0]["reply"]
    assert len(talk.engine.actions.calls) == 3
    assert talk.engine.rows(tables.actions) == []


def test_what_the_model_is_given(talk: Talk) -> None:
    talk.start("desk", turns_per_run=3)
    for text in ("one", "two", "three", "four"):
        talk.say(text)

    call = talk.engine.model.calls[-1]

    assert isinstance(call, ModelCall)
    assert (call.turn, call.generation, call.text, call.attempt) == (4, 2, "four", 1)
    assert [past.text for past in call.recent] == ["two", "three"]
    assert call.summary == "Turn 1: one\nTurn 2: two\nTurn 3: three"


def test_reply_text_is_found_in_the_record_table_only(talk: Talk) -> None:
    secret = "only once in the world"
    talk.engine.model.outcome = lambda call: ModelOutcome(
        reply=secret,
        action=Action(name="refund", arguments={"request": "x"}) if call.turn == 2 else None,
        replies={"approved": secret, "declined": secret},
    )
    talk.start()
    talk.say("one")
    talk.say("two")
    talk.decide(talk.proposal)
    talk.engine.run()

    assert [row["text"] for row in talk.engine.rows(tables.records)] == [secret, secret]
    assert secret not in talk.engine.everything()


def test_an_unknown_reference_is_not_found(talk: Talk) -> None:
    talk.start()
    talk.say("Hello")

    assert talk.reader.record("c", 1)["text"] == "Turn 1: you said 'Hello'."  # type: ignore[index]
    assert talk.reader.record("c", 2) is None
    assert talk.reader.record("d", 1) is None


def test_what_crosses_into_the_next_generation_and_nothing_else(talk: Talk) -> None:
    talk.start(turns_per_run=1, summary_max_chars=30)
    for number in range(3):
        talk.say(f"message {number}")

    described = talk.reader.describe("c")
    assert described is not None
    runs = described["runs"]

    assert [run["reason"] for run in runs] == ["continued"] * 3 + [None]
    assert [run["previous_run"] for run in runs[1:]] == [run["run_id"] for run in runs[:-1]]
    assert [run["next_run"] for run in runs[:-1]] == [run["run_id"] for run in runs[1:]]
    assert runs[3]["state_in"] == {
        "generation": 4,
        "turn_count": 3,
        "summary": "Turn 1: message 0\nTurn 2: message 1\nTurn 3: message 2"[-30:],
        "latest_reply_reference": "c:3",
        "options": Options(turns_per_run=1, summary_max_chars=30).to_dict(),
    }


def test_signals_move_on_and_those_for_one_run_do_not(talk: Talk) -> None:
    talk.start(turns_per_run=1)
    run = talk.status["run_id"]
    for text, target in (("a", None), ("b", run), ("c", None)):
        talk.message(text, target_run=target)
    talk.decide("prop-x")

    talk.engine.run()

    assert talk.signals() == [
        ("message", "applied", None, 1),
        ("message", "rejected", "run_closed_before_signal_applied", None),
        ("message", "applied", None, 2),
        ("decision", "received", None, None),
    ]
    old = talk.message("d", target_run=run)
    assert isinstance(old, Refusal)
    assert old.outcome == "rejected_not_current"


def test_an_old_run_is_shown_as_it_closed(talk: Talk) -> None:
    talk.start(turns_per_run=1)
    run = talk.status["run_id"]
    talk.say("a")
    talk.say("b")

    shown = talk.reader.status("c", run)

    assert shown is not None
    assert (shown["generation"], shown["phase"], shown["turn_count"]) == (1, "completed", 1)
    assert shown["latest_reply_reference"] == "c:1"
    assert talk.reader.status("c", "run-x") is None


def test_asking_changes_nothing(talk: Talk) -> None:
    talk.start()
    talk.say("refund")
    before = talk.engine.everything()

    for _ in range(100):
        assert talk.status["phase"] == "awaiting_approval"
        talk.turns()
        talk.reader.describe("c")
        talk.reader.export("c")

    assert talk.engine.everything() == before


def test_a_cancelled_turn_is_no_turn_and_its_outcome_is_discarded(talk: Talk) -> None:
    talk.start()
    talk.say("first")
    talk.message("second")

    def cancel_in_the_model(place: str) -> bool:
        if place == "think:answered":
            talk.engine.inbox.cancel("c")
        return False

    talk.engine.kill_at = cancel_in_the_model
    talk.engine.run()

    assert (talk.status["closed_reason"], talk.status["turn_count"]) == ("cancelled", 1)
    assert [row["turn"] for row in talk.engine.rows(tables.records)] == [1]
    assert len(talk.events("activity_discarded")) == 1
    assert talk.turns()[1]["outcome"] is None


def test_cancelling_after_the_reply_was_recorded_keeps_the_turn(talk: Talk) -> None:
    talk.start()
    talk.message("Hello")

    def cancel(place: str) -> bool:
        if place == "reply:committed":
            talk.engine.inbox.cancel("c")
        return False

    talk.engine.kill_at = cancel
    talk.engine.run()

    assert (talk.status["closed_reason"], talk.status["turn_count"]) == ("cancelled", 1)


def test_repair_leaves_the_healthy_alone(talk: Talk) -> None:
    talk.start()
    waiting = talk.engine.repairer.repair("c")
    talk.say("refund")
    approving = talk.engine.repairer.repair("c")
    other_run = talk.engine.repairer.repair("c", "run-x")
    talk.engine.inbox.cancel("c")

    assert (waiting, approving) == ("repair_not_needed", "repair_not_needed")
    assert other_run == "rejected_not_current"
    assert talk.engine.repairer.repair("c") == "rejected_not_active"
    assert talk.engine.repairer.repair("d") is None
    assert talk.engine.repairer.run() == 0


def test_liveness_in_words(talk: Talk) -> None:
    def word() -> str:
        described = talk.reader.describe("c")
        assert described is not None
        liveness: str = described["liveness"]
        return liveness

    talk.start()
    seen = [word()]
    talk.message("Hello")
    seen.append(word())
    found = talk.engine.next_task()
    assert found is not None
    execution = talk.engine.begin(*found)
    execution.step()
    seen.append(word())
    talk.engine.clock.pass_(31)
    seen.append(word())
    talk.engine.recover()
    talk.say("/end")
    seen.append(word())

    assert seen == ["healthy waiting", "ready", "leased", "needs repair", "closed"]


def test_everything_can_be_exported_and_removed_replies_are_shown_as_expired(talk: Talk) -> None:
    talk.start(turns_per_run=1)
    for number in range(3):
        talk.say(f"message {number}")
    before = talk.reader.export("c")
    with talk.engine.database.transaction() as connection:
        connection.execute(tables.records.delete())

    after = talk.reader.export("c")

    assert before is not None
    assert after is not None
    assert json.loads(json.dumps(before)) == before
    assert [turn["expired"] for turn in after["turns"]] == [True] * 3
    assert after["events"] == before["events"]
    assert len(before["signals"]) == 3


def test_lists_and_counts(talk: Talk) -> None:
    for name in ("a", "b", "c"):
        start = Start(profile="refund-desk", options=Options(), conversation_id=name)
        talk.engine.inbox.start(start)
    talk.engine.inbox.cancel("b")

    first = talk.reader.conversations(Page(limit=2))
    second = talk.reader.conversations(Page(limit=2, after=first["next"]))
    running = talk.reader.conversations(Page(), status="running")

    assert [one["conversation_id"] for one in first["conversations"]] == ["c", "b"]
    assert [one["conversation_id"] for one in second["conversations"]] == ["a"]
    assert second["next"] is None
    assert [one["conversation_id"] for one in running["conversations"]] == ["c", "a"]
    assert running["counts"] == {"running": 2, "completed": 1, "failed": 0}


def test_a_profile_that_is_gone_fails_the_turn_and_not_the_conversation(talk: Talk) -> None:
    start = Start(profile="gone", options=Options(), conversation_id="c")
    talk.engine.inbox.start(start)

    talk.say("Hello")

    assert talk.turns()[0]["reply"] == ("Turn 1 failed: There is no conversation profile 'gone'.")
    assert talk.status["phase"] == "waiting_for_input"


def test_an_outcome_that_cannot_be_used_is_not_asked_for_again(talk: Talk) -> None:
    def bad(call: ModelCall) -> ModelOutcome:
        raise BadOutcome("two actions at once")

    talk.engine.model.outcome = bad
    talk.start()

    talk.say("Hello")

    assert talk.turns()[0]["reply"] == "Turn 1 failed: two actions at once"
    assert len(talk.engine.model.calls) == 1


def test_the_state_that_crosses_does_not_grow(talk: Talk) -> None:
    """CAN-3, CAN-9, with every generation one turn long."""
    talk.start(turns_per_run=1, summary_max_chars=200)

    def size_after(turns: int) -> int:
        while talk.status["turn_count"] < turns:
            talk.say("the same words every time")
        (run,) = [run for run in talk.engine.rows(tables.runs) if run["status"] == "open"]
        return len(run["state_in"])

    early = size_after(20)
    late = size_after(100)

    assert late - early <= 10
    per_run = [event["run_id"] for event in talk.events("phase_changed")]
    assert max(per_run.count(run) for run in set(per_run)) <= 5
