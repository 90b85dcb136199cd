"""Every configuration file parsed once, and again only when it has changed."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

from Middleware.config.lookup import (
    Listing,
    ListingOf,
    Place,
    WatchedFolder,
    ambiguous,
    find,
    other_case,
)
from Middleware.config.problems import BrokenFile, Problem
from Middleware.config.watched_file import Parse, Shows, WatchedFile
from Middleware.config.watched_file import Source as Source
from Middleware.core.clock import Clock

T = TypeVar("T")

_MOST_DERIVED = 4096
_FORGET_SECONDS = 3600.0
"""A deleted file, one that never was good, or a badly written name is no longer a problem when
nobody asks for it."""


class FileCache:
    """All files and folders that were looked at since the server started."""

    def __init__(self, folders: Shows, clock: Clock) -> None:
        self._shows = folders
        self._clock = clock
        self._folders: dict[Path, WatchedFolder] = {}
        self._files: dict[Path, dict[Parse[Any], WatchedFile[Any]]] = {}
        self._last: dict[Place, Path] = {}
        self._odd: dict[Place, float] = {}
        self._derived: dict[tuple[Hashable, ...], tuple[tuple[object, ...], Any]] = {}

    def folder(self, path: Path) -> WatchedFolder:
        found = self._folders.get(path)
        return found or self._folders.setdefault(path, WatchedFolder(path, self._clock))

    def file(self, path: Path, parse: Parse[T]) -> WatchedFile[T]:
        by_parse = self._files.get(path)
        if by_parse is None:
            by_parse = self._files.setdefault(path, {})
        found = by_parse.get(parse)
        if found is None:
            found = by_parse.setdefault(parse, WatchedFile(path, self._clock, self._shows, parse))
        return found

    def listing_now(self, path: Path) -> Listing:
        """The names in a folder, half a second old at most."""
        folder = self.folder(path)
        folder.refresh()
        return folder.versions[0].value

    def load_now(self, path: Path, parse: Parse[T]) -> T:
        """The newest version, for those who stand outside of any request."""
        file = self.file(path, parse)
        file.refresh()
        newest = file.newest
        if newest is None:
            raise file.error()
        return newest.value.value

    def locate(
        self, listing_of: ListingOf, tries: Iterable[tuple[Place, bool]], *, lost: bool = True
    ) -> Path | None:
        """The file at the first of the places (with whether its case must be exact) that has
        one; else, if ``lost`` ones count, the file that was there before.
        """
        passed: list[Place] = []
        for place, exact in tries:
            path = self._at(listing_of, place, exact)
            if path is not None:
                for other in passed:
                    # What was there once is not missed: there is something in its stead.
                    if other != place:
                        self._last.pop(other, None)
                return path
            passed.append(place)
        before = (self._last_good(place) for place in passed if lost)
        return next((path for path in before if path is not None), None)

    def _at(self, listing_of: ListingOf, place: Place, exact: bool) -> Path | None:
        found = find(listing_of, place, exact=exact)
        if found is None:
            return None
        if found.twins or not exact:
            self._odd[place] = self._clock.monotonic()
        if not found.twins:
            self._last[place] = found.path
            return found.path
        last = self._last_good(place)
        if last is None:
            raise BrokenFile((ambiguous(found, self._shows.show, using_last_good=False),))
        return last

    def _last_good(self, place: Place) -> Path | None:
        """Where a name was found before, if what was there could be read."""
        path = self._last.get(place)
        if path is None or not any(file.versions for file in self._files.get(path, {}).values()):
            return None
        return path

    def derived(self, key: Hashable, sources: tuple[object, ...], build: Callable[[], T]) -> T:
        """What ``build`` makes of loaded values, built once while they are the same objects.

        ``key`` says what is built; it must name everything that ``build`` uses besides the
        sources. The sources are kept alive, so that their identity stays theirs.
        """
        full = (key, *map(id, sources))
        known = self._derived.get(full)
        if known is not None:
            return cast(T, known[1])
        value = build()
        if len(self._derived) >= _MOST_DERIVED:
            # Old versions of files are in here; what is still used is soon built again.
            self._derived = {}
        return cast(T, self._derived.setdefault(full, (sources, value))[1])

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong now with files that are in use, or were good before."""
        now = self._clock.monotonic()
        found: list[Problem] = []
        for by_parse in list(self._files.values()):
            for file in list(by_parse.values()):
                found.extend(self._problems_of(file, now))
        found.extend(self._odd_names(now))
        return tuple(dict.fromkeys(found))

    def _problems_of(self, file: WatchedFile[Any], now: float) -> Iterator[Problem]:
        file.refresh()
        idle = now - file.used_at
        if file.gone and (idle > _FORGET_SECONDS or file.path not in self._last.values()):
            return
        if file.versions or idle <= _FORGET_SECONDS:
            yield from file.failure
        if file.newest is not None and idle < float("inf"):
            yield from file.newest.value.problems

    def _odd_names(self, now: float) -> Iterator[Problem]:
        show = self._shows.show
        for place, asked in list(self._odd.items()):
            exact = find(self.listing_now, place, exact=True)
            found = exact or find(self.listing_now, place, exact=False)
            if found is None or now - asked > _FORGET_SECONDS:
                self._odd.pop(place, None)
            elif found.twins:
                good = self._last_good(place) is not None
                yield ambiguous(found, show, using_last_good=good)
            elif exact is None:
                yield other_case(place, found.path, show)
