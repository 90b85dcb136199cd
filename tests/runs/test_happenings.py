"""What happens in a run, watched while it happens and told again afterwards."""

from pathlib import Path
from typing import Any

import pytest

from Middleware.core.events import TextDelta
from Middleware.runs.errors import UnknownRun
from Middleware.runs.happenings import Happened, Watching, told_again
from Middleware.runs.live import Live
from Middleware.workflows.models.run import Run
from tests.fakes.clock import ShiftedClock
from tests.fakes.recorded import FakeLog, a_caller, a_step, run_log


class Scene:
    """A run that is watched; words are ``run:node text``."""

    def __init__(self, **settings: Any) -> None:
        self.live = Live(ShiftedClock())
        self.top = self.begin("top", **settings)

    def begin(self, run_id: str, **settings: Any) -> Run:
        run = Run(id=run_id, workflow=f"the {run_id}", folder="", user="tester", **settings)
        self.live.start(run)
        return run

    def start(self, run: Run, node: str) -> None:
        run.context.current_step_node_id = node
        self.live.step_started(run, node)

    def answer(self, run: Run) -> None:
        run.begin_answer(run.context.current_step_node_id)

    def say(self, text: str, *runs: Run) -> None:
        """The innermost run says it first."""
        for run in runs:
            assert run.said is not None
            run.said.add(TextDelta(text))

    def finish(self, run: Run, node: str, said: str = "", **notes: Any) -> None:
        self.live.step_finished(run, a_step(node, said, **notes))

    def watch(self, run: Run | None = None) -> Watching:
        found = self.live.find((run or self.top).id)
        assert found is not None
        return Watching(*found)


def told(news: list[Happened]) -> list[str]:
    """Short forms of events."""
    return [
        f"{data['runId']} {name} {data['nodeName']}"
        + (f": {data['text']}" if "text" in data else "")
        for name, data in news
    ]


def test_who_comes_late_hears_everything_in_order() -> None:
    scene = Scene()
    scene.start(scene.top, "one")
    scene.finish(scene.top, "one", "x")
    scene.start(scene.top, "two")
    scene.answer(scene.top)
    scene.say("Hel", scene.top)

    watching = scene.watch()
    first = told(watching.news())
    scene.say("lo", scene.top)
    second = told(watching.news())
    scene.say("!", scene.top)
    scene.finish(scene.top, "two", "Hello!")
    third = told(watching.news())

    assert first == ["top step_started one", "top step_finished one", "top step_started two"]
    assert second == ["top delta two: Hello"]
    assert third == ["top delta two: !", "top step_finished two"]
    assert watching.news() == []
    assert not watching.over


def test_it_is_over_when_the_run_is() -> None:
    scene = Scene()
    watching = scene.watch()
    scene.live.finish(scene.top)

    assert watching.news() == []
    assert watching.over
    assert scene.live.find("top") is None
    assert len(scene.live) == 0


def test_a_sub_workflow_that_answers_is_heard_once() -> None:
    scene = Scene()
    watching = scene.watch()
    scene.start(scene.top, "call")
    scene.answer(scene.top)
    watching.news()
    child = scene.begin("child", parent_id="top", answers_client=True)
    scene.start(child, "inner")
    scene.answer(child)
    scene.say("Hel", child, scene.top)
    heard = told(watching.news())
    scene.say("lo", child, scene.top)
    scene.finish(child, "inner", "Hello")
    scene.live.finish(child)
    scene.finish(scene.top, "call", "Hello")
    heard += told(watching.news())

    assert heard == [
        "child step_started inner",
        "child delta inner: Hello",
        "child step_finished inner",
        "top step_finished call",
    ]


def test_a_sub_workflow_that_does_not_answer_does_not_silence_its_caller() -> None:
    scene = Scene()
    watching = scene.watch()
    child = scene.begin("child", parent_id="top", answers_client=False)
    scene.start(child, "inner")
    scene.finish(child, "inner", "x")
    scene.live.finish(child)
    scene.start(scene.top, "answer")
    scene.answer(scene.top)
    watching.news()
    scene.say("Hello", scene.top)

    assert told(watching.news()) == ["top delta answer: Hello"]


def test_a_sub_workflow_can_be_watched_alone() -> None:
    scene = Scene()
    scene.start(scene.top, "call")
    child = scene.begin("child", parent_id="top")
    watching = scene.watch(child)
    scene.start(child, "inner")
    inner = scene.begin("inner", parent_id="child")
    scene.start(inner, "deep")
    scene.live.finish(inner)
    scene.live.finish(child)

    assert told(watching.news()) == ["child step_started inner", "inner step_started deep"]
    assert watching.over


def test_another_try_begins_from_nothing() -> None:
    scene = Scene()
    scene.start(scene.top, "one")
    watching = scene.watch()
    watching.news()
    scene.answer(scene.top)
    scene.say("Hel", scene.top)
    first = told(watching.news())
    scene.answer(scene.top)
    scene.say("Goodbye", scene.top)
    second = told(watching.news())

    assert first + second == ["top delta one: Hel", "top delta one: Goodbye"]


def test_a_model_that_gives_its_answer_whole_is_heard_when_it_has_finished() -> None:
    scene = Scene()
    watching = scene.watch()
    scene.finish(scene.top, "draft", "Hello", endpoint="Main")
    scene.finish(scene.top, "silent", "", endpoint="Main")
    scene.finish(scene.top, "join", "Hello!")

    assert told(watching.news()) == [
        "top delta draft: Hello",
        "top step_finished draft",
        "top step_finished silent",
        "top step_finished join",
    ]


def test_of_a_run_without_texts_no_words_are_heard() -> None:
    scene = Scene(private=True)
    scene.start(scene.top, "one")
    watching = scene.watch()
    watching.news()
    scene.answer(scene.top)
    scene.say("secret", scene.top)
    words = watching.news()
    scene.finish(scene.top, "one", "secret")
    (finished,) = watching.news()
    scene.finish(scene.top, "two", "secret", endpoint="Main")
    (other,) = watching.news()

    assert words == []
    assert "secret" not in str([finished, other])


def play(log: FakeLog) -> Run:
    top = log.begin("top")
    log.start_step(top, "call")
    child = log.below(top)
    log.step(child, "inner", "x")
    log.end(child)
    log.end_step(top, "call", "x", child_run_id=child.id)
    log.step(top, "last", "y")
    return log.end(top)


def test_a_run_that_is_over_is_told_as_it_happened(tmp_path: Path) -> None:
    with run_log(tmp_path) as log:
        top = play(log)
        (portion,) = log.log.follow(top.id)
        record = log.shown(top)

    *steps, (name, last) = portion
    assert (name, last) == ("run_finished", record)
    nodes = [f"{name} {data['nodeName']}" for name, data in steps]
    assert nodes == [
        "step_started call",
        "step_started inner",
        "step_finished inner",
        "step_finished call",
        "step_started last",
        "step_finished last",
    ]
    assert list(told_again(record)) == portion


def test_a_running_run_is_followed_to_its_end(tmp_path: Path) -> None:
    with run_log(tmp_path) as log:
        top = log.begin("top")
        log.start_step(top, "one")
        portions = log.log.follow(top.id)
        events = list(next(portions))
        log.end_step(top, "one", "x")
        log.end(top)
        for portion in portions:
            events.extend(portion)
        record = log.shown(top)

    names = [name for name, _ in events]
    assert names == ["step_started", "step_finished", "run_finished"]
    assert events[-1][1] == record
    step = events[1][1]
    assert step == {
        "runId": top.id,
        "parentId": None,
        "workflow": "top",
        **record["context"]["steps"][0],
    }


def test_a_run_that_is_not_kept_can_be_followed_while_it_runs(tmp_path: Path) -> None:
    with run_log(tmp_path) as log:
        log.keep(enabled=False)
        top = log.begin("top", private=True)
        portions = log.log.follow(top.id)
        next(portions)
        log.step(top, "one", "secret")
        log.end(top)
        events = [event for portion in portions for event in portion]

        with pytest.raises(UnknownRun):
            log.log.follow(top.id)
    assert [name for name, _ in events] == ["step_started", "step_finished", "run_finished"]
    assert events[-1][1]["status"] == "succeeded"
    assert len(events[-1][1]["context"]["steps"]) == 1
    assert "secret" not in str(events)


def test_a_reader_is_sent_home_when_the_server_stops(tmp_path: Path) -> None:
    with run_log(tmp_path) as log:
        portions = log.log.follow(log.begin().id)
        next(portions)
        log.log.close()

        assert [*portions] == []


def test_a_live_run_of_somebody_else_cannot_be_followed(tmp_path: Path) -> None:
    with run_log(tmp_path) as log:
        run = log.begin(caller=a_caller("tester", "jane"))
        log.log.flush()

        with pytest.raises(UnknownRun):
            log.log.follow(run.id, a_caller("tester", "joe"))
        assert next(log.log.follow(run.id, a_caller("tester", "jane"))) == []
