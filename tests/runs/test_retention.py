from dataclasses import replace
from pathlib import Path

from Middleware.runs.retention import Keep, close_interrupted, is_too_much, prune
from Middleware.runs.rows import first_number
from Middleware.runs.store import Rows, Store
from Middleware.storage.places import Place
from tests.runs.test_store import NUMBERS, a_row, a_step_row, newest, store_of

NOW = 1010.0
"""``a`` began at second 1000, ``b`` a second later and so on."""


def keep(place: Place, **settings: float) -> Keep:
    return replace(Keep(place=place), **settings)  # type: ignore[arg-type]


def too_much(store: Store, keep: Keep, now: float = NOW, user: str = "tester") -> bool:
    with store.looking() as connection:
        return is_too_much(connection, user, keep, now)


def prune_all(store: Store, keep: Keep, now: float = NOW, user: str = "tester") -> None:
    with store.transaction() as connection:
        prune(connection, user, keep, now)
    assert not too_much(store, keep, now, user)


def test_the_newest_runs_are_kept(place: Place) -> None:
    with store_of(place, *map(a_row, "abcdef")) as store:
        wanted = keep(place, max_runs=4)

        assert too_much(store, wanted)
        prune_all(store, wanted)

        assert newest(place) == ["f", "e", "d", "c"]


def test_runs_that_are_too_old_go(place: Place) -> None:
    with store_of(place, *map(a_row, "abcdef")) as store:
        seconds = 7.5
        wanted = keep(place, max_days=seconds / 86_400)

        assert too_much(store, wanted)
        prune_all(store, wanted)

        assert newest(place) == ["f", "e", "d"]


def test_runs_go_until_the_rest_is_small_enough(place: Place) -> None:
    rows = [a_row(run, bytes=300_000) for run in "abcdef"]
    with store_of(place, *rows) as store:
        wanted = keep(place, max_megabytes=1)

        assert too_much(store, wanted)
        prune_all(store, wanted)

        assert newest(place) == ["f", "e", "d"]


def test_sub_workflows_and_steps_go_with_their_run_and_count_as_one(place: Place) -> None:
    child = a_row("b", parent_id="a", root=NUMBERS["a"])
    steps = tuple(a_step_row(run, 0) for run in "abc")
    with store_of(place, a_row("a"), child, a_row("c"), steps=steps) as store:
        assert not too_much(store, keep(place, max_runs=2))
        prune_all(store, keep(place, max_runs=1))

        with store.looking() as connection:
            left = connection.execute("SELECT run FROM steps").fetchall()

    assert newest(place) == ["c"]
    assert left == [(NUMBERS["c"],)]


def test_what_still_runs_and_what_belongs_to_others_stays(place: Place) -> None:
    rows = (a_row("a", status="running"), a_row("b", user="bob"), a_row("c"), a_row("d"))
    with store_of(place, *rows) as store:
        prune_all(store, keep(place, max_runs=1))

        # One that runs can make it one too many.
        assert newest(place) == ["b", "a"]


def test_a_long_list_is_deleted_in_portions(place: Place) -> None:
    runs = [
        a_row("a", id=f"r{at}", number=first_number(1000 + at), root=first_number(1000 + at))
        for at in range(1200)
    ]
    portions = 0
    with store_of(place, *runs) as store:
        more = True
        while more:
            with store.transaction() as connection:
                more = prune(connection, "tester", keep(place, max_runs=10), 2000)
            portions += 1

    assert portions == 3
    assert len(newest(place)) == 10


def test_the_file_becomes_smaller(tmp_path: Path) -> None:
    steps = tuple(a_step_row(run, at, body="x" * 10_000) for run in "abcd" for at in range(100))
    with store_of(tmp_path / "runs.sqlite", *map(a_row, "abcd"), steps=steps) as store:
        before = _size(store)
        prune_all(store, keep(store.place, max_runs=1))
        store.give_back()

        assert _size(store) < before / 2


def _size(store: Store) -> int:
    assert isinstance(store.place, Path)
    with store.looking() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return store.place.stat().st_size


def test_runs_of_a_process_that_is_gone_are_interrupted(place: Place) -> None:
    at_node = '{"currentStepNodeId": "node_20"}'
    rows = (
        a_row("a", status="running", process="gone", context=at_node),
        a_row("b", status="running", process="here"),
        a_row("c", process="gone"),
    )
    with store_of(place, *rows) as store:
        with store.transaction() as connection:
            marked = close_interrupted(connection, lambda process: process == "here")

        assert marked == 1
        assert newest(place, status="interrupted") == ["a"]
        assert newest(place, status="running") == ["b"]
        with store.looking() as connection:
            told = connection.execute("SELECT error FROM runs WHERE id = 'a'").fetchone()
    assert told == ("The server ended while this ran, at node 'node_20'.",)


def test_a_run_whose_end_was_lost_does_not_run_for_ever(place: Place) -> None:
    rows = (a_row("a", status="running"), a_row("b", status="running"))
    with store_of(place, *rows) as store:
        with store.transaction() as connection:
            close_interrupted(connection, lambda process: process != "p", still_runs=["b"])

        assert newest(place, status="interrupted") == ["a"]
        assert newest(place, status="running") == ["b"]


def test_nothing_is_too_much_in_an_empty_file(place: Place) -> None:
    with store_of(place) as store:
        assert not too_much(store, keep(place, max_runs=1))
        store.write(Rows())
        prune_all(store, keep(place, max_runs=1))
