import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.runs.reader import Query, Reader
from Middleware.runs.rows import RUN_COLUMNS, STEP_COLUMNS, Row, called, first_number
from Middleware.runs.store import Rows, Store
from Middleware.runs.stores import reading, store_at
from Middleware.storage.places import Place
from Middleware.storage.sqlite import DatabaseBusy, DatabaseDamaged, DatabaseUnavailable

NUMBERS = {name: first_number(float(at)) for at, name in enumerate("abcdefgh", start=1000)}


def a_row(run_id: str, **values: Any) -> Row:
    number = NUMBERS[run_id]
    row: dict[str, Any] = {
        **dict.fromkeys(RUN_COLUMNS),
        "number": number,
        "id": run_id,
        "root": number,
        "owner": "tester/",
        "user": "tester",
        "workflow": "w",
        "folder": "",
        "status": "succeeded",
        "door": "openai",
        "request_id": "",
        "started_at": 1000.0,
        "process": "p",
        "bytes": 100,
        "partial_text": "",
        "context": "{}",
        **values,
    }
    row["name"] = called(row["workflow"], row["folder"])
    return tuple(row.values())


def a_step_row(run_id: str, position: int, **values: Any) -> Row:
    row = {
        **dict.fromkeys(STEP_COLUMNS),
        "run": NUMBERS[run_id],
        "position": position,
        "body": f'{{"at": {position}}}',
        **values,
    }
    return tuple(row.values())


@contextmanager
def store_of(place: Place, *runs: Row, steps: tuple[Row, ...] = ()) -> Iterator[Store]:
    store = store_at(place, wait_seconds=0.01)
    store.write(Rows(runs=list(runs), steps=list(steps)))
    try:
        yield store
    finally:
        store.close()


def newest(place: Place, **query: Any) -> list[str]:
    with reading(place) as reader:
        assert reader is not None
        return [row["id"] for row in reader.newest(Query(**query))]


RUNS = (
    a_row("a"),
    a_row("b", workflow="_DefaultWorkflow", folder="_shared/assistant", owner="alice/laptop"),
    a_row("c", status="failed", error="no", session="s-1"),
    a_row("d", parent_id="c", root=NUMBERS["c"], workflow="Child", folder="tester", session="s-1"),
    a_row("e", status="running", owner="alice/"),
)


@dataclass(frozen=True)
class Listing:
    id: str
    query: dict[str, Any]
    expected: list[str]


LISTINGS = [
    Listing("everything but sub-workflows, newest first", {}, ["e", "c", "b", "a"]),
    Listing("a page", {"limit": 2}, ["e", "c"]),
    Listing("the page after it", {"limit": 2, "before": NUMBERS["c"]}, ["b", "a"]),
    Listing("a status", {"status": "failed"}, ["c"]),
    Listing("a session", {"session": "s-1"}, ["c"]),
    Listing("a sub-workflow of it", {"session": "s-1", "workflow": "Child"}, ["d"]),
    Listing("a time", {"since": 1001.0}, ["e", "c", "b"]),
    Listing("a shared workflow", {"workflow": "assistant"}, ["b"]),
    Listing("with its folder", {"workflow": "_shared/assistant"}, ["b"]),
    Listing("with its file", {"workflow": "_shared/assistant/_DefaultWorkflow"}, ["b"]),
    Listing("by its file alone", {"workflow": "_DefaultWorkflow"}, ["b"]),
    Listing("a sub-workflow", {"workflow": "Child"}, ["d"]),
    Listing("a sub-workflow in its folder", {"workflow": "tester/Child"}, ["d"]),
    Listing("not that of another folder", {"workflow": "other/Child"}, []),
    Listing("of two owners", {"owners": ("alice/laptop", "alice/")}, ["e", "b"]),
    Listing("of two owners, a page", {"owners": ("alice/laptop", "alice/"), "limit": 1}, ["e"]),
    Listing("of nobody", {"owners": ("bob/",)}, []),
    Listing("all at once", {"workflow": "w", "status": "succeeded", "since": 1000.0}, ["a"]),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in LISTINGS])
def test_runs_are_listed(place: Place, case: Listing) -> None:
    with store_of(place, *RUNS):
        assert newest(place, **case.query) == case.expected


PLANS = [
    Listing("everything", {}, []),
    Listing("a page further on", {"before": 5}, []),
    Listing("a status", {"status": "failed"}, []),
    Listing("a status nobody has", {"status": "cancelled"}, []),
    Listing("a session", {"session": "s-1"}, []),
    Listing("a workflow", {"workflow": "assistant"}, []),
    Listing("a folder and a workflow", {"workflow": "_shared/assistant"}, []),
    Listing("an owner", {"owners": ("a/",)}, []),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in PLANS])
def test_no_listing_sorts_or_reads_the_whole_table(tmp_path: Path, case: Listing) -> None:
    said: list[str] = []
    with (
        store_of(tmp_path / "runs.sqlite", *RUNS),
        closing(sqlite3.connect(tmp_path / "runs.sqlite")) as file,
    ):
        file.set_trace_callback(said.append)
        file.row_factory = sqlite3.Row
        Reader(file).newest(Query(**case.query))
        file.set_trace_callback(None)
        plan = [row[3] for text in said for row in file.execute(f"EXPLAIN QUERY PLAN {text}")]

    assert plan
    assert not any("TEMP B-TREE" in step for step in plan)
    # Without a condition the newest are read from the end of the table, and only as many.
    assert case.id == "everything" or all("SEARCH" in step for step in plan)


def test_a_row_that_comes_again_takes_the_place_of_the_old_one(place: Place) -> None:
    with store_of(place, a_row("a", status="running"), steps=(a_step_row("a", 0),)) as store:
        again = Rows(
            runs=[a_row("a", status="failed", error="no", workflow="other")],
            steps=[a_step_row("a", 1, body='{"at": "end"}')],
            cuts=[(NUMBERS["a"], 1)],
        )
        store.write(again)
        store.write(again)
        with reading(store.place) as reader:
            assert reader is not None
            run = reader.find("a")
            assert run is not None
            steps = [stored.step for stored in reader.steps(run)]

    assert (run["status"], run["error"]) == ("failed", "no")
    # What a run is does not change.
    assert run["workflow"] == "w"
    assert steps == [{"at": 0}, {"at": "end"}]


def test_a_row_that_cannot_be_stored_does_not_take_the_others_with_it(place: Place) -> None:
    rows = Rows(runs=[a_row("a"), a_row("b", prompt_tokens=10**30), a_row("c", context=None)])
    with store_of(place) as store:
        refused = store.write(rows)

        assert refused == 2
        assert newest(place) == ["a"]


def test_many_rows_are_written_in_few_statements_and_none_is_lost(place: Place) -> None:
    def numbered(at: int, **values: Any) -> Row:
        number = first_number(float(at))
        return a_row("a", id=f"r{at}", number=number, root=number, **values)

    rows = [numbered(at) for at in range(1, 41)]
    rows[20] = numbered(21, prompt_tokens=10**30)
    with store_of(place, *(numbered(at) for at in range(101, 141))) as store:
        assert store.write(Rows(runs=rows)) == 1

        assert len(newest(place, limit=500)) == 79


def test_a_run_of_another_process_is_never_overwritten(place: Place) -> None:
    twin = a_row("a", id="of another process", number=NUMBERS["b"], status="failed")
    with store_of(place, a_row("b")) as store:
        store.write(Rows(runs=[twin]))

        assert newest(place) == ["b"]
        assert newest(place, status="failed") == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_nobody_else_can_read_the_files(tmp_path: Path) -> None:
    with store_of(tmp_path / "runs.sqlite", a_row("a")):
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}

    assert modes == dict.fromkeys(("runs.sqlite", "runs.sqlite-wal", "runs.sqlite-shm"), 0o600)


def test_a_file_that_somebody_takes_away_is_begun_anew(tmp_path: Path) -> None:
    with store_of(tmp_path / "runs.sqlite", a_row("a")) as store:
        for path in tmp_path.iterdir():
            path.unlink()
        store.write(Rows(runs=[a_row("b")]))

        assert newest(tmp_path / "runs.sqlite") == ["b"]


def test_a_file_that_is_no_database_is_kept_aside(tmp_path: Path) -> None:
    (tmp_path / "runs.sqlite").write_text("my shopping list " * 100, encoding="utf-8")

    with store_of(tmp_path / "runs.sqlite", a_row("a")):
        assert newest(tmp_path / "runs.sqlite") == ["a"]
    kept = (tmp_path / "runs.sqlite.damaged").read_text(encoding="utf-8")
    assert kept.startswith("my shopping list")


def test_a_database_that_turns_out_to_be_damaged_is_kept_aside(tmp_path: Path) -> None:
    many = tuple(a_step_row("a", number, body="x" * 5000) for number in range(100))
    with store_of(tmp_path / "runs.sqlite", a_row("a"), steps=many):
        pass
    path = tmp_path / "runs.sqlite"
    good = path.read_bytes()
    path.write_bytes(good[:4096] + b"\1" * (len(good) - 4096))

    with store_of(tmp_path / "runs.sqlite") as store:
        with pytest.raises(DatabaseDamaged):
            store.write(Rows(runs=[a_row("b")]))
        store.write(Rows(runs=[a_row("c")]))

        assert newest(tmp_path / "runs.sqlite") == ["c"]
    assert (tmp_path / "runs.sqlite.damaged").exists()


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 99")
    before = path.read_bytes()

    with (
        pytest.raises(DatabaseUnavailable, match="newer version"),
        store_of(tmp_path / "runs.sqlite", a_row("a")),
    ):
        pass
    with pytest.raises(DatabaseUnavailable, match="newer version"), reading(path):
        pass
    assert path.read_bytes()[:16] == before[:16]


def test_who_cannot_have_the_lock_is_told_soon_and_writes_nothing(tmp_path: Path) -> None:
    with store_of(tmp_path / "runs.sqlite", a_row("a")) as store:
        with closing(sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(DatabaseBusy):
                store.write(Rows(runs=[a_row("b")]))
            # A reader does not wait for anybody.
            assert newest(tmp_path / "runs.sqlite") == ["a"]
            other.execute("ROLLBACK")
        store.write(Rows(runs=[a_row("b")]))

        assert newest(tmp_path / "runs.sqlite") == ["b", "a"]


def test_reading_what_is_not_there_makes_nothing(tmp_path: Path) -> None:
    with reading(tmp_path / "runs.sqlite") as reader:
        assert reader is None
    assert list(tmp_path.iterdir()) == []
