"""Live text reaches readers of servers that do not run the turn (MAP-6), on either database."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from Middleware.conversations import tables
from Middleware.conversations.live_rows import LiveRows
from tests.fakes.conversation_client import Client
from tests.fakes.conversation_worker import Job, Outside, wait_for, worker
from tests.fakes.headrace import Tree
from tests.fakes.live_site import Client as Connection

EVENTS = "/durable/v1/conversations/talk/events"


@contextmanager
def reader(folder: Path, client: Client, url: str) -> Iterator[Connection]:
    """Reads the events at a server that never works: nothing was ever sent to it."""
    with Tree(folder).serve(database=url) as live, live.connect() as connection:
        wait_for(lambda: live.ask("GET", "/durable/v1/conversations").status == 200)
        client.start("talk")
        connection.send("GET", EVENTS)
        connection.read_until(b": open")
        yield connection


def frames(seen: bytes, kind: str) -> list[Any]:
    """The data of the events of this kind."""
    found = [frame.split("\n") for frame in seen.decode().split("\n\n")]
    return [
        json.loads(lines[-1].removeprefix("data: ")) for lines in found if f"event: {kind}" in lines
    ]


def live_rows(client: Client) -> list[Any]:
    with client.database.transaction() as connection:
        return list(connection.execute(select(tables.live)).mappings())


@pytest.mark.slow
def test_a_reader_is_shown_what_another_process_hears_and_that_it_begins_anew(
    database_url: str, tmp_path: Path, outside: Outside
) -> None:
    folder = str(outside.folder)
    first = Job(url=database_url, folder=folder, says=("Once ", "upon "))
    second = Job(url=database_url, folder=folder, says=("Twice ", "told"))
    with ExitStack() as opened:
        client = Client(database_url)
        server = opened.enter_context(reader(tmp_path / "tree", client, database_url))
        with worker(first) as killed:
            client.message("talk", "Hello")
            seen = server.read_until(b"upon ")
            killed.kill()
            killed.join()
        with worker(second):
            seen += server.read_until(b"told")
            while_it_speaks = live_rows(client)
            (outside.folder / "go on").touch()
            seen += server.read_until(b"event: reply_recorded")
            client.settle("talk")
            afterwards = live_rows(client)
            client.message("talk", "/end")
            server.read_until(b"event: run_completed")

    attempts = frames(seen, "attempt")
    assert attempts == [
        {"turn": 1, "attempt": 1, "discard": True},
        {"turn": 1, "attempt": 2, "discard": True},
    ]
    shown = frames(seen, "text")
    assert "".join(one["text"] for one in shown if one["attempt"] == 1) == "Once upon "
    assert "".join(one["text"] for one in shown if one["attempt"] == 2) == "Twice told"
    assert [(row["turn"], row["attempt"], row["text"]) for row in while_it_speaks] == [
        (1, 2, "Twice told")
    ]
    # REP-2: once the turn is done, no table but that of the records has words of the reply.
    assert [row["text"] for row in afterwards] == [None]
    client.close()


@pytest.mark.slow
def test_nothing_is_written_where_nobody_reads_and_a_late_reader_gets_all_of_it(
    database_url: str, outside: Outside
) -> None:
    client = Client(database_url)
    client.start("talk")
    client.message("talk", "Hello")
    job = Job(url=database_url, folder=str(outside.folder), says=("All ", "of ", "it"))
    rows = LiveRows(client.database)
    with worker(job):
        wait_for(lambda: outside.notes("model"))
        unread = live_rows(client)
        wait_for(lambda: rows.read("talk", 1) == (1, "All of it"))
        (outside.folder / "go on").touch()
        client.settle("talk")

    assert unread == []
    assert rows.read("talk", 1) is None
    with client.database.transaction() as connection:
        assert connection.execute(select(func.count()).select_from(tables.live)).scalar() == 1
    client.close()
