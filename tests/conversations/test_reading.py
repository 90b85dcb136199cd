"""All that can be asked, on either database: each has SQL of its own ideas."""

import pytest

from Middleware.conversations.page import Page
from tests.fakes.conversation_client import Client
from tests.fakes.conversation_worker import Job, Outside, worker


@pytest.mark.slow
def test_every_question_is_answered_on_either_database(database_url: str, outside: Outside) -> None:
    client = Client(database_url)
    for name in ("first", "second"):
        client.start(name, turns_per_run=1)
        client.message(name, "Hello")
        client.message(name, "Please refund my order")
    client.message("first", "/end")
    with worker(Job(url=database_url, folder=str(outside.folder), lease_seconds=30)):
        client.settle("first")
        client.settle("second")
    refused = client.message("first", "too late")
    reader, page = client.reader, Page()

    listed = reader.conversations(page)
    assert listed["counts"] == {"running": 1, "completed": 1, "failed": 0}
    newest = [one["conversation_id"] for one in listed["conversations"]]
    assert newest == ["second", "first"]
    assert [
        one["conversation_id"]
        for status in ("running", "completed", "failed")
        for one in reader.conversations(page, status=status, profile="refund-desk")["conversations"]
    ] == ["second", "first"]
    rest = reader.conversations(Page(after="second"))
    assert [one["conversation_id"] for one in rest["conversations"]] == ["first"]

    described = reader.describe("first")
    assert described is not None
    assert described["liveness"] == "closed"
    runs = [run["run_id"] for run in described["runs"]]
    assert [run["previous_run"] for run in described["runs"]] == [None, *runs[:-1]]
    assert [run["next_run"] for run in described["runs"]] == [*runs[1:], None]
    closed = reader.status("first", runs[0])
    assert closed is not None
    assert closed["turn_count"] == 1

    exported = reader.export("first")
    assert exported is not None
    assert [turn["outcome"] for turn in exported["turns"]] == ["replied", "approved"]
    assert [signal["status"] for signal in exported["signals"]] == ["applied"] * 4
    assert [one["outcome"] for one in exported["refusals"]] == ["rejected_not_active"]
    assert not refused.accepted
    history = reader.history("first", page, run_id=runs[1])
    assert history is not None
    assert {event["run_id"] for event in history["events"]} == {runs[1]}
    client.close()
