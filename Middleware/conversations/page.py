"""A part of a list that may be long."""

from dataclasses import dataclass

MOST_LISTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """At most ``limit`` rows behind ``after``, which is what the part before gave as `next`."""

    limit: int = 100
    after: str | None = None

    @property
    def size(self) -> int:
        return max(1, min(self.limit, MOST_LISTED))

    @property
    def number(self) -> int:
        """``after`` where rows are numbered. Anything else is before the first."""
        after = self.after or ""
        return int(after) if after.isdecimal() and len(after) < 10 else 0
