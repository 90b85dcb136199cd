"""Kept responses: whose they are, how long they stay, and what they go on from."""

from pathlib import Path

from Middleware.storage.places import Place
from Middleware.storage.responses import KeptResponse, ResponseStore
from tests.fakes.clock import ShiftedClock


def kept(id: str, scope: str = "me", created_at: int | None = None, **others: str) -> KeptResponse:
    at = int(ShiftedClock().timestamp()) if created_at is None else created_at
    items = [{"type": "message", "id": f"item_{id}"}]
    return KeptResponse(
        id=id, scope=scope, created_at=at, body={"id": id, "é": "🌊"}, items=items, **others
    )


def test_a_response_is_found_by_its_owner_only(place: Place) -> None:
    store = ResponseStore(place, ShiftedClock())
    store.put(kept("a"))

    found = store.get("me", "a")
    assert found is not None
    assert found.body == {"id": "a", "é": "🌊"}
    assert found.items == [{"type": "message", "id": "item_a"}]
    assert store.get("you", "a") is None
    assert not store.delete("you", "a")
    assert store.delete("me", "a")
    assert not store.delete("me", "a")
    store.close()


def test_looking_makes_no_database(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "responses.sqlite", ShiftedClock())

    assert store.get("me", "a") is None
    assert store.chain("me", "a") == []
    assert not store.delete("me", "a")
    assert list(tmp_path.iterdir()) == []


def test_a_chain_is_told_oldest_first_and_ends_where_nothing_is_kept(place: Place) -> None:
    store = ResponseStore(place, ShiftedClock())
    store.put(kept("b", previous_id="a"))
    store.put(kept("c", previous_id="b"))

    assert [one.id for one in store.chain("me", "c")] == ["b", "c"]
    store.put(kept("b", previous_id="c"))
    assert [one.id for one in store.chain("me", "c")] == ["b", "c"]
    store.close()


def test_what_is_old_is_gone_before_it_is_deleted(place: Place) -> None:
    clock = ShiftedClock()
    store = ResponseStore(place, clock, keep_days=1)
    store.put(kept("a"))
    clock.advance(86400 + 60)

    assert store.get("me", "a") is None
    store.close()


def test_only_so_many_stay(place: Place) -> None:
    store = ResponseStore(place, ShiftedClock(), most=5)
    now = int(ShiftedClock().timestamp())
    for number in range(102):
        store.put(kept(f"r{number}", created_at=now - 200 + number))

    left = [number for number in range(102) if store.get("me", f"r{number}") is not None]
    assert left[0] >= 95
    assert left[-1] == 101
    store.close()


def test_it_survives_being_opened_again(place: Place) -> None:
    first = ResponseStore(place, ShiftedClock())
    first.put(kept("a"))
    first.close()
    second = ResponseStore(place, ShiftedClock())

    assert second.get("me", "a") is not None
    second.close()
