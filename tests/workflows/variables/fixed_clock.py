"""A clock that stands still, and counts how often it was asked."""

from datetime import datetime


class FixedClock:
    def __init__(self, now: datetime = datetime(2025, 9, 1, 20, 5)) -> None:
        self._now = now
        self.asked = 0

    def now(self) -> datetime:
        self.asked += 1
        return self._now

    def timestamp(self) -> float:
        return self._now.timestamp()

    def monotonic(self) -> float:
        return 0.0

    def new_id(self) -> str:
        return "0" * 32
