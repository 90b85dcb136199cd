"""Names used in configuration files -> the class that implements them."""

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Generic, TypeVar

from Middleware.core.errors import ConfigError

T = TypeVar("T")


def nearest(name: str, known: "Iterator[str] | list[str] | tuple[str, ...]") -> str | None:
    """The known name that was probably meant, ignoring case; None when nothing is close."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


class Registry(Generic[T]):
    """Maps a name used in files to the class that implements it.

    Names are added by decorator while modules are imported, and never after :meth:`freeze`,
    so what the editor shows is what the server runs.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}
        self._frozen = False

    def register(self, *names: str) -> Callable[[T], T]:
        def add(entry: T) -> T:
            for name in names:
                if self._frozen:
                    raise RuntimeError(f"{self.kind} {name!r} was registered after start-up")
                if name in self._entries:
                    raise RuntimeError(f"{self.kind} {name!r} is registered twice")
                self._entries[name] = entry
            return entry

        return add

    def find(self, name: str) -> T | None:
        return self._entries.get(name)

    def get(self, name: str) -> T:
        """The entry; raises ConfigError with the nearest name when there is none."""
        entry = self._entries.get(name)
        if entry is None:
            close = nearest(name, list(self._entries))
            raise ConfigError(
                f"Unknown {self.kind} {name!r}.",
                remedy=f"Did you mean {close!r}?"
                if close
                else f"Known are: {', '.join(self.names())}.",
            )
        return entry

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._entries))

    def freeze(self) -> None:
        self._frozen = True

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return iter(sorted(self._entries.items()))
