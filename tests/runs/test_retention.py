import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from Middleware.runs.retention import Keep, close_interrupted, give_back, is_too_much, prune
from Middleware.runs.rows import first_number
from Middleware.runs.store import Rows, Store
from tests.runs.test_store import NUMBERS, a_row, a_step_row, newest, store_of

NOW = 1010.0
"""``a`` began at second 1000, ``b`` a second later and so on."""


def keep(folder: Path, **settings: float) -> Keep:
    return replace(Keep(path=folder / "runs.sqlite"), **settings)  # type: ignore[arg-type]


def prune_all(store: Store, keep: Keep, now: float = NOW, user: str = "tester") -> None:
    with store.transaction() as connection:
        prune(connection, user, keep, now)
    assert not is_too_much(store.open(), user, keep, now)


def test_the_newest_runs_are_kept(tmp_path: Path) -> None:
    with store_of(tmp_path, *map(a_row, "abcdef")) as store:
        wanted = keep(tmp_path, max_runs=4)

        assert is_too_much(store.open(), "tester", wanted, NOW)
        prune_all(store, wanted)

        assert newest(tmp_path) == ["f", "e", "d", "c"]


def test_runs_that_are_too_old_go(tmp_path: Path) -> None:
    with store_of(tmp_path, *map(a_row, "abcdef")) as store:
        seconds = 7.5
        wanted = keep(tmp_path, max_days=seconds / 86_400)

        assert is_too_much(store.open(), "tester", wanted, NOW)
        prune_all(store, wanted)

        assert newest(tmp_path) == ["f", "e", "d"]


def test_runs_go_until_the_rest_is_small_enough(tmp_path: Path) -> None:
    rows = [a_row(run, bytes=300_000) for run in "abcdef"]
    with store_of(tmp_path, *rows) as store:
        wanted = keep(tmp_path, max_megabytes=1)

        assert is_too_much(store.open(), "tester", wanted, NOW)
        prune_all(store, wanted)

        assert newest(tmp_path) == ["f", "e", "d"]


def test_sub_workflows_and_steps_go_with_their_run_and_count_as_one(tmp_path: Path) -> None:
    child = a_row("b", parent_id="a", root=NUMBERS["a"])
    steps = tuple(a_step_row(run, 0) for run in "abc")
    with store_of(tmp_path, a_row("a"), child, a_row("c"), steps=steps) as store:
        assert not is_too_much(store.open(), "tester", keep(tmp_path, max_runs=2), NOW)
        prune_all(store, keep(tmp_path, max_runs=1))

        left = store.open().execute("SELECT run FROM steps").fetchall()

    assert newest(tmp_path) == ["c"]
    assert left == [(NUMBERS["c"],)]


def test_what_still_runs_and_what_belongs_to_others_stays(tmp_path: Path) -> None:
    rows = (a_row("a", status="running"), a_row("b", user="bob"), a_row("c"), a_row("d"))
    with store_of(tmp_path, *rows) as store:
        prune_all(store, keep(tmp_path, max_runs=1))

        # One that runs can make it one too many.
        assert newest(tmp_path) == ["b", "a"]


def test_a_long_list_is_deleted_in_portions(tmp_path: Path) -> None:
    runs = [
        a_row("a", id=f"r{at}", number=first_number(1000 + at), root=first_number(1000 + at))
        for at in range(1200)
    ]
    portions = 0
    with store_of(tmp_path, *runs) as store:
        more = True
        while more:
            with store.transaction() as connection:
                more = prune(connection, "tester", keep(tmp_path, max_runs=10), 2000)
            portions += 1

    assert portions == 3
    assert len(newest(tmp_path)) == 10


def test_the_file_becomes_smaller(tmp_path: Path) -> None:
    steps = tuple(a_step_row(run, at, body="x" * 10_000) for run in "abcd" for at in range(100))
    with store_of(tmp_path, *map(a_row, "abcd"), steps=steps) as store:
        before = _size(store)
        prune_all(store, keep(tmp_path, max_runs=1))
        give_back(store.open())

        assert _size(store) < before / 2


def _size(store: Store) -> int:
    store.open().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return store.path.stat().st_size


def test_runs_of_a_process_that_is_gone_are_interrupted(tmp_path: Path) -> None:
    at_node = '{"currentStepNodeId": "node_20"}'
    rows = (
        a_row("a", status="running", process="gone", context=at_node),
        a_row("b", status="running", process="here"),
        a_row("c", process="gone"),
    )
    with store_of(tmp_path, *rows) as store:
        with store.transaction() as connection:
            marked = close_interrupted(connection, lambda process: process == "here")

        assert marked == 1
        assert newest(tmp_path, status="interrupted") == ["a"]
        assert newest(tmp_path, status="running") == ["b"]
        with closing(sqlite3.connect(store.path)) as file:
            told = file.execute("SELECT error FROM runs WHERE id = 'a'").fetchone()
    assert told == ("The server ended while this ran, at node 'node_20'.",)


def test_a_run_whose_end_was_lost_does_not_run_for_ever(tmp_path: Path) -> None:
    rows = (a_row("a", status="running"), a_row("b", status="running"))
    with store_of(tmp_path, *rows) as store:
        with store.transaction() as connection:
            close_interrupted(connection, lambda process: process != "p", still_runs=["b"])

        assert newest(tmp_path, status="interrupted") == ["a"]
        assert newest(tmp_path, status="running") == ["b"]


def test_nothing_is_too_much_in_an_empty_file(tmp_path: Path) -> None:
    with store_of(tmp_path) as store:
        assert not is_too_much(store.open(), "tester", keep(tmp_path, max_runs=1), NOW)
        store.write(Rows())
        prune_all(store, keep(tmp_path, max_runs=1))
