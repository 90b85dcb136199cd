from dataclasses import dataclass, replace
from typing import Any

import pytest

from Middleware.conversations import rules
from Middleware.conversations.models import ModelOutcome, Options, Refusal, State
from Middleware.conversations.rules import Buffered, Close, Decide, Ending, Park, StartTurn
from Middleware.core.errors import MalformedRequest

NOW = 1000.0

WAITING = State(
    id="c",
    profile="p",
    options=Options(inactivity_seconds=60, decision_timeout_seconds=30),
    generation=1,
    run_id="run-1",
    phase="waiting_for_input",
    closed_reason=None,
    turn_count=0,
    turns_this_run=0,
    turn=None,
    proposal_id=None,
    wait_since=NOW - 10,
    deadline=NOW + 50,
    summary="",
    latest_reply_reference=None,
    buffered_messages=0,
    buffered_decisions=0,
    cancel_requested=False,
    next_sequence=1,
    next_event=1,
    task_id="c/t1",
    task_number=1,
    task_claim="x",
    task_owner="exec-1",
    task_enqueued_at=NOW,
    task_repairs=0,
    task_retry_at=0,
    started_by=None,
    created_at=NOW,
    updated_at=NOW,
)
AWAITING = replace(WAITING, phase="awaiting_approval", proposal_id="prop-1", turn=1)


@dataclass(frozen=True)
class Arguments:
    id: str
    name: str
    given: Any
    expected: dict[str, Any] | None = None
    errors: dict[str, str] | None = None


ARGUMENTS = [
    Arguments("object", "message", {"text": "hi"}, {"text": "hi"}),
    Arguments("list in declared order", "message", ["hi"], {"text": "hi"}),
    Arguments("empty text is a text", "message", {"text": ""}, {"text": ""}),
    Arguments("missing", "message", {}, errors={"text": "is missing"}),
    Arguments("null", "message", {"text": None}, errors={"text": "must be a string"}),
    Arguments("a number", "message", {"text": 1}, errors={"text": "must be a string"}),
    Arguments(
        "unknown field",
        "message",
        {"text": "hi", "x": 1},
        errors={"x": "is not a field of this signal"},
    ),
    Arguments("too many", "message", ["hi", 1], errors={"[1]": "is one argument too many"}),
    Arguments("text", "message", "hi", errors={"arguments": "must be an object or a list"}),
    Arguments(
        "null arguments", "message", None, errors={"arguments": "must be an object or a list"}
    ),
    Arguments(
        "half a character",
        "message",
        ["\ud800"],
        errors={"text": "has characters that no text can hold"},
    ),
    Arguments("NUL", "message", ["a\0b"], errors={"text": "has characters that no text can hold"}),
    Arguments(
        "decision",
        "decision",
        {"proposalId": "p", "approved": False, "reviewer": ""},
        {"proposalId": "p", "approved": False, "reviewer": ""},
    ),
    Arguments(
        "the word true is no truth",
        "decision",
        ["p", "true", "r"],
        errors={"approved": "must be true or false"},
    ),
    Arguments(
        "one is no truth", "decision", ["p", 1, "r"], errors={"approved": "must be true or false"}
    ),
    Arguments(
        "zero is no truth", "decision", ["p", 0, "r"], errors={"approved": "must be true or false"}
    ),
    Arguments(
        "several errors",
        "decision",
        {"proposalId": 1},
        errors={
            "proposalId": "must be a string",
            "approved": "is missing",
            "reviewer": "is missing",
        },
    ),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in ARGUMENTS])
def test_arguments_of_a_signal(case: Arguments) -> None:
    given = rules.signal_arguments(case.name, case.given)

    if case.errors is None:
        assert given == case.expected
    else:
        assert given == Refusal(outcome="rejected_invalid_arguments", errors=case.errors)


def test_an_undeclared_signal_is_refused() -> None:
    answer = rules.signal_arguments("poke", {})

    assert isinstance(answer, Refusal)
    assert answer.outcome == "rejected_unknown_signal"


def test_a_list_and_the_object_it_stands_for_are_the_same_send() -> None:
    by_list = rules.fingerprint("message", ["hi"], None)

    assert by_list == rules.fingerprint("message", {"text": "hi"}, None)
    assert by_list != rules.fingerprint("message", {"text": "hi"}, "run-1")
    assert by_list != rules.fingerprint("message", {"text": "ho"}, None)


HELLO, END = Buffered(1, text="hello"), Buffered(1, text="  /end\n")


@pytest.mark.parametrize(
    ("message", "now", "expected"),
    [
        (HELLO, NOW, StartTurn(HELLO)),
        (END, NOW, Close("ended", END)),
        (None, NOW, Park(NOW + 50)),
        (None, NOW + 50, Close("inactivity")),
        # LOOP-4: accepted before the end was recorded, however late anybody looks.
        (HELLO, NOW + 500, StartTurn(HELLO)),
    ],
    ids=["message", "end", "nothing yet", "silence", "message after the deadline"],
)
def test_what_a_wait_for_input_brings(
    message: Buffered | None, now: float, expected: object
) -> None:
    assert rules.next_input(WAITING, message, now) == expected


def test_a_wait_that_opens_now_lasts_as_long_as_the_inactivity() -> None:
    assert rules.next_input(replace(WAITING, deadline=None), None, NOW) == Park(NOW + 60)


def test_no_inactivity_allowed_means_an_end_as_soon_as_nothing_is_buffered() -> None:
    impatient = replace(WAITING, deadline=None, options=Options(inactivity_seconds=0))

    assert rules.next_input(impatient, None, NOW) == Close("inactivity")
    assert rules.next_input(impatient, HELLO, NOW) == StartTurn(HELLO)


OTHER = Buffered(1, proposal_id="prop-0", approved=True)
YES = Buffered(2, proposal_id="prop-1", approved=True)
NO = Buffered(3, proposal_id="prop-1", approved=False)


@pytest.mark.parametrize(
    ("decisions", "now", "expected"),
    [
        ([], NOW, Park(NOW + 50)),
        ([OTHER], NOW, Park(NOW + 50, (OTHER,))),
        ([OTHER, YES, NO], NOW, Decide("approved", YES, (OTHER,))),
        ([NO, YES], NOW, Decide("declined", NO)),
        ([], NOW + 50, Decide("timed_out", None)),
        ([OTHER], NOW + 50, Decide("timed_out", None, (OTHER,))),
        ([YES], NOW + 500, Decide("approved", YES)),
    ],
    ids=[
        "nothing yet",
        "only another proposal's",
        "yes before no",
        "no before yes",
        "timeout",
        "timeout with another proposal's",
        "accepted before the timeout was recorded",
    ],
)
def test_what_a_wait_for_a_decision_brings(
    decisions: list[Buffered], now: float, expected: object
) -> None:
    assert rules.next_decision(AWAITING, decisions, now) == expected


def test_which_signals_wake_a_conversation() -> None:
    parked = replace(WAITING, task_id=None)
    approving = replace(AWAITING, task_id=None)

    assert rules.is_waited_for(parked, "message")
    assert not rules.is_waited_for(parked, "decision")
    assert rules.is_waited_for(approving, "decision")
    assert not rules.is_waited_for(approving, "message")
    assert not rules.is_waited_for(WAITING, "message")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (replace(WAITING, task_id=None), False),
        (replace(WAITING, task_id=None, buffered_messages=1), True),
        (replace(WAITING, task_id=None, buffered_decisions=1), False),
        (replace(AWAITING, task_id=None, buffered_messages=1), False),
        (replace(AWAITING, task_id=None, buffered_decisions=1), True),
        (replace(WAITING, task_id=None, phase="thinking"), True),
        (replace(WAITING, task_id=None, phase="completed", buffered_messages=1), False),
    ],
)
def test_which_conversations_must_have_a_task(state: State, expected: bool) -> None:
    assert rules.must_have_task(state) is expected


def test_the_summary_is_bounded_whatever_the_model_returns() -> None:
    summary = ""
    for turn in range(1000):
        summary = rules.bounded_summary(
            summary, ModelOutcome(reply="", summary_note=f"note {turn}"), 100
        )

    assert len(summary) == 100
    assert summary.endswith("note 999")
    whole = ModelOutcome(reply="", summary="x" * 5000)
    assert rules.bounded_summary(summary, whole, 100) == "x" * 100
    assert rules.bounded_summary(summary, whole, 0) == ""
    assert rules.bounded_summary(summary, ModelOutcome(reply="r"), 100) == summary


@pytest.mark.parametrize(
    ("ending", "outcome", "text"),
    [
        (Ending(turn=1, reply="hi"), "replied", "hi"),
        (Ending(turn=1, reply=""), "replied", ""),
        (
            Ending(turn=2, reply="shall I?", action="refund", decision="approved"),
            "approved",
            "Turn 2: refund was approved and carried out.",
        ),
        (
            Ending(turn=2, reply="r", action="refund", decision="approved", action_text="sent"),
            "approved",
            "sent",
        ),
        (
            Ending(turn=2, action="refund"),
            "approved",
            "Turn 2: refund was approved and carried out.",
        ),
        (
            Ending(turn=2, action="refund", decision="declined", replies={"declined": "no!"}),
            "declined",
            "no!",
        ),
        (
            Ending(turn=2, action="refund", decision="timed_out"),
            "timed_out",
            "Turn 2: nobody decided in time, refund was not carried out.",
        ),
        (
            Ending(turn=2, action="refund", decision="approved", error="no money"),
            "action_failed",
            "Turn 2: refund was approved but failed: no money",
        ),
        (Ending(turn=3, error="no model"), "failed", "Turn 3 failed: no model"),
    ],
)
def test_the_final_words_of_a_turn(ending: Ending, outcome: str, text: str) -> None:
    assert (rules.turn_outcome(ending), rules.reply_text(ending)) == (outcome, text)


def test_options_and_their_defaults() -> None:
    assert Options.parse({}) == Options(
        turns_per_run=3,
        inactivity_seconds=3600,
        decision_timeout_seconds=3600,
        summary_max_chars=2000,
    )
    assert Options.parse({"inactivity_seconds": 5}).decision_timeout_seconds == 5
    assert Options.parse({"inactivity_seconds": 0}).inactivity_seconds == 0


@pytest.mark.parametrize(
    "given",
    [
        {"turns_per_run": 0},
        {"turns_per_run": True},
        {"turns_per_run": 1.5},
        {"inactivity_seconds": -1},
        {"inactivity_seconds": float("nan")},
        {"decision_timeout_seconds": "5"},
        {"summary_max_chars": -1},
        {"colour": 1},
    ],
    ids=str,
)
def test_options_that_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(MalformedRequest) as caught:
        Options.parse(given)

    assert caught.value.param == f"options.{next(iter(given))}"


def test_a_task_that_keeps_failing_is_handed_on_less_and_less_often() -> None:
    assert [rules.repair_backoff(count, 60) for count in (1, 2, 5, 6, 1000)] == [2, 4, 32, 60, 60]


@pytest.mark.parametrize("text", ["", "a b", "a/b", "a:b", "../x", "é", "x" * 129, "-x"])
def test_texts_that_are_no_conversation_ids(text: str) -> None:
    assert not rules.is_conversation_id(text)
