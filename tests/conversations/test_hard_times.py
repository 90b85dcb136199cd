"""A full disk, a database that stands still, and two people at one conversation."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from Middleware.conversations.page import Page
from tests.fakes import postgres
from tests.fakes.conversation_client import Client
from tests.fakes.conversation_worker import Job, Outside, wait_for, worker
from tests.fakes.headrace import Tree, static
from tests.fakes.own_process import own_process

BASE = "/durable/v1/conversations"
ROOT = Path(__file__).resolve().parent.parent.parent

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")


@contextmanager
def full_disk(pid: int) -> Iterator[None]:
    """No file of the process takes anything behind its first bytes."""
    free = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (20_000, free[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, free)


@linux
@pytest.mark.slow
def test_with_a_full_disk_nothing_is_accepted_and_nothing_is_lost(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow("say", [static("Good.")])
    tree.write("Conversations/desk.json", {"workflow": "say"})
    with own_process(tree.public) as server:
        path = f"{BASE}/c"
        server.ask("POST", BASE, {"profile": "desk", "conversation_id": "c", "message": "first"})
        wait_for(lambda: server.ask("GET", f"{path}/status").json["turn_count"] == 1)
        send = {"arguments": ["second"]}
        with full_disk(server.process.pid):
            refused = server.ask(
                "POST", f"{path}/signals/message", send, **{"Idempotency-Key": "k"}
            )
            begun = server.ask("POST", BASE, {"profile": "desk", "message": "x"})
            seen = server.ask("GET", f"{path}/transcript")
        accepted = server.ask("POST", f"{path}/signals/message", send, **{"Idempotency-Key": "k"})
        wait_for(lambda: server.ask("GET", f"{path}/status").json["turn_count"] == 2)
        turns = server.ask("GET", f"{path}/transcript").json["turns"]
        listed = server.ask("GET", BASE).json["conversations"]

    assert [refused.status, begun.status, seen.status, accepted.status] == [503, 503, 200, 202]
    assert refused.json["error"]["code"] == "storage_unavailable"
    assert refused.headers["retry-after"]
    assert accepted.json["duplicate"] is False
    assert [turn["text"] for turn in turns] == ["first", "second"]
    assert len(listed) == 1


@linux
@pytest.mark.slow
def test_a_disk_that_is_full_again_and_again_under_load_loses_no_turn(
    file_url: str, outside: Outside
) -> None:
    client = Client(file_url)
    names = [client.start(f"talk{number}", turns_per_run=3) for number in range(4)]
    with worker(Job(url=file_url, folder=str(outside.folder), lease_seconds=30)) as process:
        wait_for(lambda: outside.notes("ready"))
        for count in range(6):
            for name in names:
                client.message(name, f"{count}")
            before = len(outside.notes("model"))
            with full_disk(process.pid or 0):
                # The notes are few, and go on.
                threading.Event().wait(0.1 * count)
            wait_for(partial(has_more_calls, outside, before))
        for name in names:
            client.settle(name, seconds=90)

    for name in names:
        transcript = client.reader.transcript(name, Page(limit=100))
        assert transcript is not None
        assert [turn["text"] for turn in transcript["turns"]] == [f"{n}" for n in range(6)]
        assert {turn["outcome"] for turn in transcript["turns"]} == {"replied"}
    client.close()


def has_more_calls(outside: Outside, before: int) -> bool:
    return len(outside.notes("model")) > before


def processes_of(cluster: postgres.Cluster) -> list[int]:
    """The server that was started and all that it has started itself."""
    first = (cluster.folder / "data" / "postmaster.pid").read_text().split()[0]
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
    return [int(first), *(pid for pid, parent in parents.items() if parent == int(first))]


@linux
@pytest.mark.slow
def test_a_database_that_stands_still_for_ten_seconds_under_load(
    cluster: postgres.Cluster, outside: Outside
) -> None:
    """Longer than the leases. `cluster` says whether there is PostgreSQL; this test has its own."""
    own = postgres.make_cluster()
    try:
        url = own.new_database()
        job = Job(url=url, folder=str(outside.folder), lease_seconds=3, model_seconds=0.1)
        client = Client(url)
        with worker(job), worker(job):
            wait_for(lambda: len(outside.notes("ready")) == 2)
            names = [client.start(f"talk{number}") for number in range(4)]

            def send(name: str) -> None:
                for count in range(8):
                    client.message(name, f"{count}", request_id=f"{count}")

            senders = [threading.Thread(target=send, args=(name,)) for name in names]
            for thread in senders:
                thread.start()
            wait_for(lambda: len(outside.notes("model")) >= 3)
            frozen = processes_of(own)
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            try:
                threading.Event().wait(10)
            finally:
                for pid in frozen:
                    os.kill(pid, signal.SIGCONT)
            for thread in senders:
                thread.join()
            for name in names:
                client.settle(name, seconds=60)

        for name in names:
            transcript = client.reader.transcript(name, Page(limit=100))
            assert transcript is not None
            assert [turn["text"] for turn in transcript["turns"]] == [f"{n}" for n in range(8)]
        client.close()
    finally:
        own.stop()
        shutil.rmtree(own.folder, ignore_errors=True)


@pytest.mark.slow
def test_two_runners_on_one_conversation_get_a_turn_for_each_of_their_messages(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'durable.sqlite'}"
    command = [
        *(sys.executable, "-m", "Middleware", "conversation", "--database", url),
        *("--UserLevelSqlLiteDirectory", str(tmp_path)),
        *("--conversation-id", "c", "--keep-open", "--turns-per-run", "2"),
    ]
    runners = [
        subprocess.Popen(
            [*command, *(word for n in range(3) for word in ("--message", f"{who}{n} refund"))],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        for who in "ab"
    ]
    said = [runner.communicate(timeout=120) for runner in runners]
    client = Client(url)
    transcript = client.reader.transcript("c", Page(limit=100))
    assert transcript is not None
    texts = [turn["text"] for turn in transcript["turns"]]

    assert [runner.returncode for runner in runners] == [0, 0], said
    for who, (out, _) in zip("ab", said, strict=True):
        mine = [f"{who}{number} refund" for number in range(3)]
        assert [text for text in texts if text.startswith(who)] == mine
        assert all(f"issued for '{text}'" in out for text in mine), out
    assert len(texts) == 6
    assert {turn["outcome"] for turn in transcript["turns"]} == {"approved"}
    client.close()
