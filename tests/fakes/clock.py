"""A clock that runs as the real one does and can be put forward."""

from datetime import datetime

from Middleware.core.clock import SystemClock


class ShiftedClock(SystemClock):
    """Files that a test writes carry the real time; ``advance`` lets them become old at once."""

    def __init__(self, today: datetime | None = None) -> None:
        super().__init__()
        self.ahead = 0.0
        """Seconds."""
        self._today = today

    def now(self) -> datetime:
        return self._today or super().now()

    def timestamp(self) -> float:
        return super().timestamp() + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead

    def advance(self, seconds: float) -> None:
        self.ahead += seconds
