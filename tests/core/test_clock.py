import re
from datetime import datetime

from Middleware.core.clock import Clock, SystemClock


def test_ids_are_32_hex_digits_and_all_different() -> None:
    clock = SystemClock()

    ids = [clock.new_id() for _ in range(100)]

    assert len(set(ids)) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)


def test_the_wall_clock_is_local_and_has_no_zone() -> None:
    clock: Clock = SystemClock()

    before, shown, after = datetime.now(), clock.now(), datetime.now()

    assert shown.tzinfo is None
    assert before <= shown <= after
    assert abs(shown.timestamp() - clock.timestamp()) < 60


def test_the_other_clock_never_goes_back() -> None:
    clock = SystemClock()

    readings = [clock.monotonic() for _ in range(100)]

    assert readings == sorted(readings)
