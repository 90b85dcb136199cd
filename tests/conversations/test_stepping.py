"""Whole conversations, one step at a time, stopped at every place (specification §22.2)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from Middleware.conversations.inbox import Send, Start, Started
from Middleware.conversations.models import ModelOutcome, Options
from Middleware.conversations.page import Page
from tests.conversations.test_kill import UNDISTURBED
from tests.fakes.conversation_client import MESSAGES, Outcome
from tests.fakes.stepping import Execution, Killed, SteppingEngine


class Talk:
    """What :class:`Outcome` reads from, over a stepping engine."""

    def __init__(self, engine: SteppingEngine) -> None:
        self.engine = engine
        self.database = engine.database
        self.reader = engine.reader

    def start(self, **options: float) -> None:
        chosen = Options.parse({"turns_per_run": 2, **options})
        start = Start(profile="refund-desk", options=chosen, conversation_id="talk")
        assert isinstance(self.engine.inbox.start(start), Started)

    def message(self, text: str) -> None:
        self.engine.inbox.send("talk", Send(name="message", arguments={"text": text}))

    def answer_proposal(self, *, approved: bool = True) -> bool:
        status = self.status("talk")
        if status["pending_proposal"] is None or status["buffered"]["decision"]:
            return False
        arguments = [status["pending_proposal"]["id"], approved, "tester"]
        self.engine.inbox.send("talk", Send(name="decision", arguments=arguments))
        return True

    def status(self, conversation_id: str) -> dict[str, Any]:
        status = self.reader.status(conversation_id)
        assert status is not None
        return status

    def events(self, conversation_id: str, type_: str) -> list[dict[str, Any]]:
        history = self.reader.history(conversation_id, Page(limit=1000))
        assert history is not None
        return [event for event in history["events"] if event["type"] == type_]

    def outcome(self) -> Outcome:
        return Outcome.of(self, "talk")  # type: ignore[arg-type]


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    engine = SteppingEngine(tmp_path)
    yield Talk(engine)
    engine.database.close()


def converse(talk: Talk, work: Callable[[], None]) -> None:
    """The conversation of the kill tests: ``work`` does what there is to do."""
    talk.start()
    for text in MESSAGES:
        talk.message(text)
    work()
    while talk.answer_proposal():
        work()


def test_without_any_loss(talk: Talk) -> None:
    converse(talk, talk.engine.run)

    assert talk.outcome() == UNDISTURBED
    assert len(talk.engine.model.calls) == 3


def places_of_a_conversation(folder: Path) -> list[str]:
    engine = SteppingEngine(folder)
    converse(Talk(engine), engine.run)
    engine.database.close()
    return engine.places


def at_place(engine: SteppingEngine, number: int) -> Callable[[str], bool]:
    return lambda place: len(engine.places) == number + 1


def test_a_stop_at_any_place_whatsoever_changes_nothing(tmp_path: Path) -> None:
    places = places_of_a_conversation(tmp_path)
    assert len(places) > 50

    for number, place in enumerate(places):
        folder = tmp_path / str(number)
        folder.mkdir()
        engine = SteppingEngine(folder)
        talk = Talk(engine)
        engine.kill_at = at_place(engine, number)

        def work(engine: SteppingEngine = engine) -> None:
            try:
                engine.run()
            except Killed:
                engine.recover()

        converse(talk, work)

        assert talk.outcome() == UNDISTURBED, (number, place)
        assert len(engine.model.calls) <= 4
        assert {call.reference for call in engine.actions.calls} == {"talk:2:action"}
        engine.database.close()


def test_a_worker_is_lost_at_every_place_one_after_the_other(talk: Talk) -> None:
    """Each process dies one place further on than the one before it."""
    engine = talk.engine
    died: set[str] = set()

    def dies(place: str) -> bool:
        known = f"{talk.status('talk')['turn_count']} {place}"
        if known in died:
            return False
        died.add(known)
        return True

    def work() -> None:
        while True:
            engine.kill_at = dies
            try:
                engine.run()
            except Killed:
                engine.start_process()
                engine.clock.pass_(100)
                engine.lease.take()
                engine.kill_at = lambda place: False
                engine.repairer.run()
            else:
                return

    converse(talk, work)

    outcome = talk.outcome()
    assert outcome == UNDISTURBED
    assert len(died) > 40


def test_a_second_pass_hands_nothing_on_again(talk: Talk) -> None:
    talk.start()
    talk.message("Hello")
    talk.engine.kill_at = lambda place: place == "think:started"
    with pytest.raises(Killed):
        talk.engine.run()
    talk.engine.kill_at = lambda place: False
    talk.engine.start_process()

    before = talk.engine.repairer.run()
    talk.engine.clock.pass_(31)
    talk.engine.lease.take()
    passes = [talk.engine.repairer.run() for _ in range(3)]

    assert (before, passes) == (0, [1, 0, 0])
    talk.engine.run()
    attempts = [event["attempt"] for event in talk.events("talk", "activity_started")]
    assert attempts == [1, 2]
    assert talk.status("talk")["turn_count"] == 1


def late_answer(talk: Talk, meanwhile: Callable[[], None]) -> None:
    """The first model call answers only after ``meanwhile`` has happened in other processes."""
    engine = talk.engine
    talk.start()
    talk.message("Hello")
    engine.model.outcome = lambda call: ModelOutcome(reply=f"attempt {call.attempt}")
    happened: list[str] = []

    def at(place: str) -> bool:
        if place == "think:answered" and not happened:
            happened.append(place)
            engine.start_process()
            engine.clock.pass_(31)
            engine.lease.take()
            meanwhile()
        return False

    engine.kill_at = at
    engine.run()
    engine.run()


def test_an_answer_that_comes_after_the_task_was_handed_on_is_discarded(talk: Talk) -> None:
    def meanwhile() -> None:
        talk.engine.repairer.run()

    late_answer(talk, meanwhile)

    assert [turn["reply"] for turn in transcript(talk)] == ["attempt 2"]
    discarded = talk.events("talk", "activity_discarded")
    assert [(event["turn"], event["attempt"]) for event in discarded] == [(1, 1)]


def test_an_answer_that_comes_after_another_was_recorded_is_discarded(talk: Talk) -> None:
    def meanwhile() -> None:
        talk.engine.repairer.run()
        talk.engine.run()

    late_answer(talk, meanwhile)

    assert [turn["reply"] for turn in transcript(talk)] == ["attempt 2"]
    discarded = talk.events("talk", "activity_discarded")
    assert [(event["turn"], event["attempt"]) for event in discarded] == [(1, 1)]
    assert talk.status("talk")["turn_count"] == 1


def test_an_answer_that_comes_while_another_execution_waits_for_its_own_is_discarded(
    talk: Talk,
) -> None:
    engine = talk.engine
    second: list[Execution] = []

    def meanwhile() -> None:
        engine.repairer.run()
        found = engine.next_task()
        assert found is not None
        second.append(engine.begin(*found))

    late_answer(talk, meanwhile)
    while second[0].step():
        pass

    assert [turn["reply"] for turn in transcript(talk)] == ["attempt 2"]


def transcript(talk: Talk) -> list[dict[str, Any]]:
    found = talk.reader.transcript("talk", Page())
    assert found is not None
    turns: list[dict[str, Any]] = found["turns"]
    return turns
