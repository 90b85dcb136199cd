import re

from Middleware.core.clock import SystemClock


def test_ids_are_hex_and_none_is_given_twice() -> None:
    clock, other_process = SystemClock(), SystemClock()

    ids = [clock.new_id() for _ in range(100)] + [other_process.new_id() for _ in range(100)]

    assert len(set(ids)) == 200
    assert all(re.fullmatch("[0-9a-f]{32}", id) for id in ids)
