"""Starting and sending, on both databases, without any worker."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, func, select

from Middleware.conversations import rules, tables
from Middleware.conversations.closing import close_conversation
from Middleware.conversations.database import Database
from Middleware.conversations.inbox import Inbox, Send, Start, Started
from Middleware.conversations.models import Options, Receipt, Refusal, State
from Middleware.conversations.page import Page
from Middleware.conversations.reading import Reader
from Middleware.core.errors import MalformedRequest


class RecordingQueue:
    """Remembers what was queued; breaks when it is told to."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.broken = False

    def enqueue(self, connection: Connection, conversation_id: str, task_id: str) -> None:
        if self.broken:
            raise ZeroDivisionError
        self.tasks.append(task_id)


class Talk:
    def __init__(self, url: str, limits: rules.Limits) -> None:
        self.database = Database(url)
        self.queue = RecordingQueue()
        self.inbox = Inbox(self.database, self.queue, limits)
        self.reader = Reader(self.database)

    def start(self, **values: object) -> Started | Refusal:
        start = {"profile": "p", "options": Options(), "conversation_id": "c", **values}
        return self.inbox.start(Start(**start))  # type: ignore[arg-type]

    def send(self, text: object = "hi", **values: object) -> Receipt | Refusal:
        send = {"name": "message", "arguments": {"text": text}, **values}
        return self.inbox.send("c", Send(**send))  # type: ignore[arg-type]

    def outcome_of(self, answer: Receipt | Refusal | Started) -> str:
        return answer.outcome if isinstance(answer, Refusal) else "accepted"

    def state(self) -> State:
        state = self.reader.state("c")
        assert state is not None
        return state

    def end(self) -> None:
        with self.database.locked("c") as locked:
            assert locked is not None
            close_conversation(locked, "ended")

    def count(self, table: str) -> int:
        with self.database.transaction() as connection:
            chosen = tables.metadata.tables[table]
            return connection.execute(select(func.count()).select_from(chosen)).scalar_one()


@pytest.fixture
def talk(database_url: str) -> Iterator[Talk]:
    talk = Talk(database_url, rules.Limits(payload_bytes=1000, unapplied_signals=5))
    yield talk
    talk.database.close()


def test_a_start_makes_a_conversation_one_run_and_nothing_else(talk: Talk) -> None:
    started = talk.start()

    assert isinstance(started, Started)
    assert (started.new, started.signal) == (True, None)
    assert talk.queue.tasks == []
    assert (talk.count("conversations"), talk.count("conversation_runs")) == (1, 1)
    assert talk.state().phase == "waiting_for_input"


def test_an_id_that_is_taken_is_refused_or_given_back(talk: Talk) -> None:
    talk.start()

    again = talk.start()
    existing = talk.start(return_existing_active=True)
    talk.inbox.cancel("c")
    ended = talk.start(return_existing_active=True)

    assert talk.outcome_of(again) == "rejected_duplicate"
    assert isinstance(existing, Started)
    assert not existing.new
    assert talk.outcome_of(ended) == "rejected_duplicate"
    assert talk.count("conversations") == 1


def test_an_open_conversation_is_not_entered_by_way_of_another_profile(talk: Talk) -> None:
    """Who may send is a matter of the profile, and was asked of the one that was named."""
    talk.start()

    answer = talk.start(profile="another", message="/end", return_existing_active=True)

    assert talk.outcome_of(answer) == "rejected_duplicate"
    assert talk.count("conversation_signals") == 0


def test_a_start_with_a_message_is_all_or_nothing(talk: Talk) -> None:
    talk.queue.broken = True
    with pytest.raises(ZeroDivisionError):
        talk.start(message="hi")
    names = ("conversations", "conversation_runs", "conversation_signals", "conversation_history")
    nothing = [talk.count(name) for name in names]
    talk.queue.broken = False
    started = talk.start(message="hi")

    assert sum(nothing) == 0
    assert isinstance(started, Started)
    assert started.signal is not None
    assert talk.queue.tasks == ["c/t1"]


def test_a_start_whose_message_is_refused_starts_nothing(talk: Talk) -> None:
    answer = talk.start(message="x" * 1001)

    assert talk.outcome_of(answer) == "rejected_structural_limit"
    assert talk.count("conversations") == 0


def test_a_repeated_start_finds_what_the_first_one_made(talk: Talk) -> None:
    first = talk.start(conversation_id=None, message="hi", request_id="r", sender="me")
    again = talk.start(conversation_id=None, message="hi", request_id="r", sender="me")
    other = talk.start(conversation_id=None, message="hi", request_id="r", sender="you")

    assert isinstance(first, Started)
    assert isinstance(again, Started)
    assert isinstance(other, Started)
    assert again.state.id == first.state.id != other.state.id
    assert (first.new, again.new) == (True, False)
    assert again.signal is not None
    assert again.signal.duplicate


def test_a_badly_written_id_is_refused(talk: Talk) -> None:
    with pytest.raises(MalformedRequest):
        talk.start(conversation_id="../c")


def test_a_receipt_names_what_was_accepted(talk: Talk) -> None:
    talk.start()

    receipt = talk.send(request_id="r1", sender="me")

    assert isinstance(receipt, Receipt)
    assert receipt == Receipt(
        signal_id=receipt.signal_id,
        sequence=1,
        conversation_id="c",
        run_id=talk.state().run_id,
        request_id="r1",
    )
    shown = talk.reader.signals("c", Page())
    assert shown is not None
    assert [(s["sender"], s["status"], s["arguments"]) for s in shown["signals"]] == [
        ("me", "received", {"text": "hi"})
    ]


def test_numbers_go_on_over_both_names_and_only_one_task_is_made(talk: Talk) -> None:
    talk.start()

    answers = [
        talk.send(),
        talk.send(name="decision", arguments=["p", True, "r"]),
        talk.send(arguments=["listed"]),
    ]

    assert [answer.sequence for answer in answers if isinstance(answer, Receipt)] == [1, 2, 3]
    assert talk.queue.tasks == ["c/t1"]
    assert (talk.state().buffered_messages, talk.state().buffered_decisions) == (2, 1)


def test_a_decision_alone_wakes_nobody_who_waits_for_a_message(talk: Talk) -> None:
    talk.start()

    talk.send(name="decision", arguments=["p", True, "r"])

    assert talk.queue.tasks == []


def test_a_repeated_send_gets_the_first_receipt(talk: Talk) -> None:
    talk.start()
    first = talk.send(request_id="r")

    again = talk.send(request_id="r")
    as_list = talk.send(request_id="r", arguments=["hi"])
    other_text = talk.send("ho", request_id="r")
    other_name = talk.send(name="decision", arguments=["p", True, "r"], request_id="r")
    other_target = talk.send(request_id="r", target_run=talk.state().run_id)
    talk.end()
    after_the_end = talk.send(request_id="r")

    assert isinstance(first, Receipt)
    for answer in (again, as_list, after_the_end):
        assert isinstance(answer, Receipt)
        assert (answer.signal_id, answer.sequence, answer.duplicate) == (first.signal_id, 1, True)
    outcomes = [talk.outcome_of(one) for one in (other_text, other_name, other_target)]
    assert outcomes == ["request_id_conflict"] * 3
    assert talk.count("conversation_signals") == 1


def test_without_a_request_id_every_send_is_new(talk: Talk) -> None:
    talk.start()

    answers = [talk.send(), talk.send()]

    assert [answer.sequence for answer in answers if isinstance(answer, Receipt)] == [1, 2]


def test_the_same_request_id_in_two_conversations_is_two_signals(talk: Talk) -> None:
    talk.start()
    talk.start(conversation_id="d")
    send = Send(name="message", arguments=["hi"], request_id="r")

    answers = [talk.inbox.send("c", send), talk.inbox.send("d", send)]

    assert all(isinstance(one, Receipt) and not one.duplicate for one in answers)


def test_the_first_check_that_fails_decides(talk: Talk) -> None:
    assert talk.outcome_of(talk.send()) == "rejected_not_started"
    talk.start()
    run = talk.state().run_id

    assert talk.outcome_of(talk.send(target_run="run-x", name="poke")) == "rejected_unknown_run"
    assert talk.outcome_of(talk.send(name="poke", arguments=1)) == "rejected_unknown_signal"
    assert talk.outcome_of(talk.send(1)) == "rejected_invalid_arguments"
    assert talk.outcome_of(talk.send("x" * 1001)) == "rejected_structural_limit"
    assert talk.outcome_of(talk.send(request_id="")) == "rejected_invalid_arguments"
    assert talk.outcome_of(talk.send(request_id="x" * 201)) == "rejected_invalid_arguments"
    assert talk.outcome_of(talk.send(target_run=run)) == "accepted"
    talk.end()
    assert talk.outcome_of(talk.send(name="poke")) == "rejected_not_active"
    assert talk.outcome_of(talk.send(target_run=run)) == "rejected_not_active"


def test_the_limit_of_unapplied_signals_changes_nothing_else(talk: Talk) -> None:
    talk.start()

    answers = [talk.outcome_of(talk.send()) for _ in range(7)]

    assert answers == ["accepted"] * 5 + ["rejected_structural_limit"] * 2
    assert talk.state().next_sequence == 6


def test_refusals_are_kept_in_the_command_log_and_not_in_the_inbox(talk: Talk) -> None:
    talk.start()

    talk.send(1, sender="me", request_id="r")

    (kept,) = talk.reader.refusals("c", Page())
    assert (kept["name"], kept["sender"], kept["outcome"], kept["reason"]) == (
        "message",
        "me",
        "rejected_invalid_arguments",
        "text must be a string",
    )
    assert talk.count("conversation_signals") == 0


def test_an_acceptance_that_does_not_commit_leaves_no_trace(talk: Talk) -> None:
    talk.start()
    talk.queue.broken = True
    with pytest.raises(ZeroDivisionError):
        talk.send(request_id="r")
    talk.queue.broken = False

    answer = talk.send(request_id="r")

    assert isinstance(answer, Receipt)
    assert (answer.sequence, answer.duplicate) == (1, False)


def test_cancelling_a_waiting_conversation_ends_it_at_once(talk: Talk) -> None:
    talk.start()
    talk.send(name="decision", arguments=["p", True, "r"])

    answer = talk.inbox.cancel("c")
    again = talk.inbox.cancel("c")
    unknown = talk.inbox.cancel("d")

    assert isinstance(answer, State)
    assert (answer.phase, answer.closed_reason) == ("completed", "cancelled")
    assert isinstance(again, Refusal)
    assert again.outcome == "rejected_not_active"
    assert isinstance(unknown, Refusal)
    assert unknown.outcome == "rejected_not_started"
    (signal,) = talk.reader.signals("c", Page())["signals"]  # type: ignore[index]
    assert (signal["status"], signal["reason"]) == ("rejected", "run_closed_before_signal_applied")
    assert signal["closed_at"] is not None
