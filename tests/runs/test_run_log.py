"""The log as a whole: what is told on one side is found on the other."""

import logging
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from Middleware.core.errors import MiddlewareError
from Middleware.core.messages import Message
from Middleware.runs import saving, writer
from Middleware.runs.errors import RunStillRunning, UnknownRun
from Middleware.runs.reader import Query
from Middleware.storage.places import Place
from Middleware.workflows.models.workflow_context import WorkflowPayload
from tests.fakes.live_site import wait_until
from tests.fakes.recorded import FakeLog, a_caller, a_step, file_of, run_log, used

TOKENS = {"prompt": 3, "completion": 4, "total": 7, "estimated": False}


def test_a_finished_run_is_found_as_it_was(place: Place) -> None:
    with run_log(place) as log:
        run = log.begin("assistant", request_id="q1")
        run.context.global_variables["question"] = "Who?"
        log.step(run, "node_1", {"claim": 12}, endpoint="Main", usage=used(3, 4), cost=0.5)
        run.first_token_ms = 2.5
        log.end(run)

        shown = log.shown(run)

    assert shown["context"] == run.to_dict()["context"]
    told = {key: shown[key] for key in ("id", "status", "tokens", "cost", "firstTokenMs")}
    assert told == {
        "id": run.id,
        "status": "succeeded",
        "tokens": TOKENS,
        "cost": 0.5,
        "firstTokenMs": 2.5,
    }
    assert [moment["nodeName"] for moment in shown["timeline"]] == ["node_1"]
    assert shown["timeline"][0]["startedAt"] < shown["timeline"][0]["finishedAt"]


def test_a_running_run_is_seen_with_the_steps_it_has_and_the_words_so_far(place: Place) -> None:
    with run_log(place) as log:
        run = log.begin()
        log.step(run, "node_1", "one")
        log.start_step(run, "node_2")
        log.say(run, "Hel", "lo")

        shown = log.shown(run)

        assert log.ids(status="running") == [run.id]
        assert shown["status"] == "running"
        assert shown["durationMs"] is None
        assert shown["partialText"] == "Hello"
        assert shown["context"]["currentStepNodeId"] == "node_2"
        nodes = [(moment["nodeName"], moment["status"]) for moment in shown["timeline"]]
        assert nodes == [("node_1", "succeeded"), ("node_2", "running")]

        log.end_step(run, "node_2", "Hello")
        log.end(run)
        assert log.shown(run)["context"] == run.to_dict()["context"]
        assert log.ids(status="running") == []


def test_a_failed_run_is_complete_up_to_where_it_stopped(place: Place) -> None:
    with run_log(place) as log:
        run = log.begin()
        log.step(run, "node_1", "one")
        log.step(run, "node_2", "half", error="It broke.", resolved_prompt=(Message("user", "?"),))
        run.partial_text = "half"
        log.end(run, "failed", "It broke.")

        shown = log.shown(run)

    assert (shown["status"], shown["error"], shown["partialText"]) == (
        "failed",
        "It broke.",
        "half",
    )
    assert shown["context"]["error"] == "It broke."
    assert [moment["status"] for moment in shown["timeline"]] == ["succeeded", "failed"]
    assert shown["context"]["steps"][1]["meta"]["resolvedPrompt"] == [
        {"role": "user", "content": "?"}
    ]


def test_sub_workflows_are_nested_and_their_tokens_are_counted_in(place: Place) -> None:
    with run_log(place) as log:
        top = log.begin("top")
        log.start_step(top, "call")
        middle = log.below(top, "middle")
        inner = log.below(middle, "inner")
        log.step(inner, "node_1", "x", usage=used(1, 2), cost=0.25)
        log.end(inner)
        log.step(middle, "node_1", "y", usage=used(10, 20, estimated=True), child_run_id=inner.id)
        log.end(middle)
        log.end_step(top, "call", "y", child_run_id=middle.id)
        log.end(top)

        shown = log.shown(top)

        assert log.ids() == [top.id]
        assert log.ids(workflow="inner") == [inner.id]
        assert log.shown(inner)["children"] == []
    (child,) = shown["children"]
    (grandchild,) = child["children"]
    assert (child["id"], child["parentId"]) == (middle.id, top.id)
    assert grandchild["id"] == inner.id
    assert grandchild["tokens"]["total"] == 3
    assert child["tokens"] == {"prompt": 11, "completion": 22, "total": 33, "estimated": True}
    assert shown["tokens"] == child["tokens"]
    assert shown["cost"] == 0.25


def test_steps_that_are_sorted_afterwards_are_sorted_in_the_log_too(place: Place) -> None:
    with run_log(place) as log:
        run = log.begin()
        log.step(run, "node_2", "two")
        assert [s["nodeName"] for s in log.shown(run)["context"]["steps"]] == ["node_2"]
        log.step(run, "node_1", "one")
        run.context.steps.reverse()
        log.step(run, "node_3", "three")
        assert log.shown(run)["context"] == run.to_dict()["context"]
        # A node may also take steps away, or add some by itself.
        run.context.steps.pop(0)
        run.context.add_to_history("made_up", "four")
        log.end(run)

        assert log.shown(run)["context"] == run.to_dict()["context"]


def test_a_run_without_texts_is_kept_without_texts(tmp_path: Path) -> None:
    with run_log(tmp_path) as log:
        run = log.begin(private=True)
        run.context.global_variables["question"] = "secret question"
        log.step(run, "node_1", "secret answer", resolved_prompt="secret prompt", thinking="secret")
        log.start_step(run, "node_2")
        log.say(run, "secret words")
        assert log.shown(run)["partialText"] == ""
        run.partial_text = "secret words"
        log.end(run, "failed", "secret error")

        shown = log.shown(run)

    assert "secret" not in str(shown)
    assert shown["partialText"] == "[redacted: 12 characters]"
    assert b"secret" not in file_of(tmp_path).read_bytes()


def test_who_wants_no_log_gets_none(tmp_path: Path) -> None:
    with run_log(tmp_path) as log:
        log.keep(enabled=False)
        run = log.finished()

        assert log.ids() == []
        with pytest.raises(UnknownRun):
            log.shown(run)
        assert log.log.metrics.runs
    assert not file_of(tmp_path).exists()


def test_runs_of_a_user_who_is_gone_do_no_harm(tmp_path: Path) -> None:
    with run_log(tmp_path) as log:
        log.finished(user="nobody")
        run = log.finished()

        assert log.ids() == [run.id]


def test_runs_that_are_too_many_go(place: Place) -> None:
    with run_log(place) as log:
        log.keep(max_runs=3)
        runs = [log.finished().id for _ in range(10)]

        assert log.ids() == [*reversed(runs)][:3]


def test_old_runs_go_although_nothing_new_comes(place: Place) -> None:
    with run_log(place) as log:
        log.keep(max_days=2)
        log.finished()
        assert len(log.ids()) == 1

        log.clock.advance(3 * 86_400)

        wait_until(lambda: not log.ids())


def test_a_run_is_deleted_with_what_it_started_and_not_while_it_runs(place: Place) -> None:
    with run_log(place) as log:
        top = log.begin()
        child = log.below(top)
        other = log.finished()
        with pytest.raises(RunStillRunning):
            log.log.delete(top.id)
        log.end(child)
        log.end(top)

        log.log.delete(top.id)

        assert log.ids() == [other.id]
        for gone in (top.id, child.id, "never was"):
            with pytest.raises(UnknownRun):
                log.log.delete(gone)


def test_a_sub_workflow_can_be_deleted_alone(place: Place) -> None:
    with run_log(place) as log:
        top = log.begin()
        first, second = log.below(top, "first"), log.below(top, "second")
        inner = log.below(first, "inner")
        for run in (inner, first, second, top):
            log.end(run)

        log.log.delete(first.id)

        assert [child["id"] for child in log.shown(top)["children"]] == [second.id]
        assert log.ids(workflow="inner") == []


def test_with_keys_runs_of_others_do_not_exist(place: Place) -> None:
    with run_log(place) as log:
        jane, joe = a_caller("tester", "jane"), a_caller("tester", "joe")
        run = log.finished(caller=jane)

        assert log.log.find(run.id, jane)["id"] == run.id
        assert log.log.find(run.id, a_caller("", "--api-key"))["id"] == run.id
        for what in (log.log.find, log.log.delete, log.log.follow):
            with pytest.raises(UnknownRun):
                what(run.id, joe)


def test_a_server_that_ended_has_left_its_runs_interrupted(place: Place) -> None:
    with run_log(place) as dead:
        run = dead.begin()
        dead.step(run, "node_1", "one")
        dead.start_step(run, "node_2")
        dead.log.flush()
        dead.log.close()

        with run_log(place) as log:
            shown = log.shown(run)

    assert shown["status"] == "interrupted"
    assert shown["error"] == shown["context"]["error"]
    assert shown["error"] == "The server ended while this ran, at node 'node_2'."
    nodes = [(moment["nodeName"], moment["status"]) for moment in shown["timeline"]]
    assert nodes == [("node_1", "succeeded"), ("node_2", "interrupted")]


def test_another_server_that_lives_keeps_its_runs(place: Place) -> None:
    with run_log(place) as one:
        run = one.begin()
        one.log.flush()
        with run_log(place) as other:
            assert other.shown(run)["status"] == "running"
            mine = other.finished()
            one.end(run)
            assert one.shown(run)["status"] == "succeeded"
            assert other.ids() == [mine.id, run.id]


def test_a_server_that_goes_on_notices_that_another_is_gone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Looked at four times a minute.
    monkeypatch.setattr(saving, "_LOOK_AT_OTHERS_SECONDS", 0.01)
    with run_log(place) as dead, run_log(place) as log:
        lost, mine = dead.begin(), log.begin()
        dead.log.flush()
        assert set(log.ids(status="running")) == {lost.id, mine.id}
        dead.log.close()

        wait_until(lambda: log.ids(status="interrupted") == [lost.id])
        assert log.ids(status="running") == [mine.id]


def test_users_with_folders_of_their_own_are_listed_together(tmp_path: Path) -> None:
    users = {"alice": tmp_path / "a" / "runs.sqlite", "bob": tmp_path / "b" / "runs.sqlite"}
    with run_log(tmp_path, users=users) as log:
        runs = [log.finished(user=user).id for user in ("alice", "bob", "alice")]

        assert log.ids() == [*reversed(runs)]
        first = log.log.newest(Query(limit=2))
        assert [run["id"] for run in first.runs] == [runs[2], runs[1]]
        second = log.log.newest(Query(limit=2, before=int(first.next or 0)))
        assert [run["id"] for run in second.runs] == [runs[0]]
        assert second.next is None
        log.log.delete(runs[1])
        assert log.ids() == [runs[2], runs[0]]
    assert all(path.exists() for path in users.values())


def test_a_locked_file_holds_nobody_up_and_nothing_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with run_log(tmp_path) as log:
        first = log.finished()
        assert log.ids() == [first.id]
        with closing(sqlite3.connect(file_of(tmp_path), isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            runs = [log.finished().id for _ in range(5)]
            assert log.ids() == [first.id]
            more = log.begin()
            log.step(more, "node_1", "one")
            assert log.log.flush()
            assert log.log.flush()
            other.execute("ROLLBACK")

        assert log.ids() == [more.id, *reversed(runs), first.id]
        assert len(log.shown(more)["context"]["steps"]) == 1
    said = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(said) == 2
    assert said[0].startswith("the run log cannot be written")
    assert said[1] == "the run log is written again; 0 runs are missing from it"


def test_what_does_not_fit_into_memory_while_the_file_is_locked_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # The limit is a constant of its module: to reach it takes 32 MB.
    monkeypatch.setattr(saving, "MOST_UNSAVED_BYTES", 10_000)
    monkeypatch.setattr(saving, "_BUSY_SECONDS", 0.01)
    with run_log(tmp_path) as log:
        begun = log.begin()
        log.step(begun, "node_1", "one")
        assert log.ids() == [begun.id]
        with closing(sqlite3.connect(file_of(tmp_path), isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            log.end(begun)
            _finish(log, 30)
            still = log.begin()
            log.step(still, "node_1", "one")
            _finish(log, 30)
            other.execute("ROLLBACK")
        newest = log.finished()

        assert log.ids()[0] == newest.id
        assert log.log.metrics.dropped_runs >= 30
        # Its end was lost; one that still runs comes again with all its steps.
        assert log.shown(begun)["status"] == "interrupted"
        assert [s["nodeName"] for s in log.shown(still)["context"]["steps"]] == ["node_1"]
        assert log.shown(still)["status"] == "running"
    assert "runs are missing from it" in caplog.text


def _finish(log: FakeLog, runs: int) -> None:
    for _ in range(runs):
        log.finished()
        assert log.log.flush()


def test_more_than_the_queue_holds_is_counted_and_nothing_seems_to_run_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer, "MOST_WAITING", 10)
    with run_log(tmp_path) as log:
        runs = [log.begin() for _ in range(5)]
        assert len(log.ids(status="running")) == 5
        with log.busy():
            for run in runs[:2]:
                log.end(run)
            lost = [log.finished() for _ in range(20)]
            # Of these the end does not even get into the queue.
            for run in runs[2:]:
                log.end(run)
        assert log.ids(status="running") == []
        last = log.finished()
        listed = set(log.ids())
        assert {last.id, *(run.id for run in runs)} <= listed
        assert len(listed & {run.id for run in lost}) < 20
        assert log.log.metrics.dropped_runs > 0
    assert "refused" not in caplog.text


class Silly(WorkflowPayload):
    def to_dict(self) -> dict[str, Any]:
        raise RuntimeError("no")


def test_a_record_that_cannot_be_read_does_not_end_the_log(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with run_log(place) as log:
        broken = log.begin()
        # As the output of a node that somebody wrote in Python may be.
        broken.context.steps.append(replace(a_step("node_1"), output_data=Silly()))
        log.end(broken)
        run = log.finished()

        assert run.id in log.ids()
    assert "could not be recorded" in caplog.text


def test_what_cannot_be_read_is_told_as_an_error_of_ours(tmp_path: Path) -> None:
    file_of(tmp_path).parent.mkdir()
    file_of(tmp_path).write_bytes(b"no database " * 100)
    with run_log(tmp_path, start=False) as log, pytest.raises(MiddlewareError) as caught:
        log.listed()

    assert (caught.value.status, caught.value.code) == (503, "run_log_unavailable")


def test_nothing_is_kept_by_a_log_that_was_never_started(tmp_path: Path) -> None:
    with run_log(tmp_path, start=False) as log:
        log.finished()

        assert not log.log.flush()
    assert not file_of(tmp_path).exists()


def test_what_waits_is_written_when_the_server_stops(tmp_path: Path) -> None:
    with run_log(tmp_path) as log:
        run = log.finished()
        log.log.close()
        log.log.close()

    with run_log(tmp_path) as again:
        assert again.ids() == [run.id]
