"""Finding a name among the files of a folder: as written, then in any case (Surprise 2)."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from Middleware.config.problems import BrokenFile, Problem
from Middleware.config.syntax import SUFFIXES
from Middleware.config.watch import SETTLED_SECONDS, Watched, changed_at, stamp_of
from Middleware.core.registry import nearest


@dataclass(frozen=True, slots=True)
class Listing:
    """The names in one folder. A missing folder is an empty one."""

    folders: frozenset[str]
    by_name: Mapping[str, tuple[str, ...]]
    """Name without suffix -> the files of that name."""
    by_lower_name: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, folders: Iterable[str], files: Iterable[str]) -> "Listing":
        by_name: dict[str, list[str]] = {}
        by_lower: dict[str, list[str]] = {}
        for file in sorted(files):
            name, dot, suffix = file.rpartition(".")
            if name and dot + suffix.lower() in SUFFIXES:
                by_name.setdefault(name, []).append(file)
                by_lower.setdefault(name.lower(), []).append(file)
        return cls(
            frozenset(folders),
            {name: tuple(found) for name, found in by_name.items()},
            {name: tuple(found) for name, found in by_lower.items()},
        )

    def folder_like(self, name: str) -> str | None:
        if name in self.folders:
            return name
        lower = name.lower()
        return min((one for one in self.folders if one.lower() == lower), default=None)


EMPTY = Listing.of((), ())


class WatchedFolder(Watched[Listing]):
    """The names in a folder, read again when the folder's time stamp has changed."""

    _seen: tuple[int, ...] | None = None

    def _look(self) -> None:
        try:
            stat = self.path.stat()
            stamp = stamp_of(stat)
            if stamp == self._seen:
                return
            folders: list[str] = []
            files: list[str] = []
            with os.scandir(self.path) as entries:
                for entry in entries:
                    (folders if entry.is_dir() else files).append(entry.name)
            listing, changed = Listing.of(folders, files), changed_at(stat)
            settled = self._clock.timestamp() - changed > SETTLED_SECONDS
            self._seen = stamp if settled else None
        except OSError:
            listing, changed = EMPTY, self._clock.timestamp()
            self._seen = None
        if self.newest is None or self.newest.value != listing:
            self._add(listing, changed)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name may be: the parts of its path below ``root``, without suffix."""

    root: Path
    parts: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The JSON file of that name, for messages."""
        return self.root.joinpath(*self.parts[:-1], f"{self.parts[-1]}.json")


@dataclass(frozen=True, slots=True)
class Found:
    """``twins`` are all files of that name when there are several."""

    path: Path
    twins: tuple[Path, ...] = ()


ListingOf = Callable[[Path], Listing]


def find(listing_of: ListingOf, place: Place, *, exact: bool) -> Found | None:
    """The file of that name, or None. Not ``exact``: parts that differ in case only match."""
    folder = find_folder(listing_of, place.root, place.parts[:-1], exact=exact)
    if folder is None:
        return None
    listing, name = listing_of(folder), place.parts[-1]
    files = listing.by_name.get(name)
    if files is None and not exact:
        files = listing.by_lower_name.get(name.lower())
    if not files:
        return None
    paths = tuple(folder / file for file in files)
    return Found(paths[0], paths if len(paths) > 1 else ())


def find_folder(
    listing_of: ListingOf, root: Path, parts: tuple[str, ...], *, exact: bool
) -> Path | None:
    """The folder below ``root``, or None; ``root`` itself is not looked for."""
    folder = root
    for part in parts:
        listing = listing_of(folder)
        name = part if part in listing.folders else None
        if name is None and not exact:
            name = listing.folder_like(part)
        if name is None:
            return None
        folder = folder / name
    return folder


def ambiguous(found: Found, show: Callable[[Path], str], *, using_last_good: bool) -> Problem:
    """Two files of one name are an error that names both (design §3)."""
    names = [show(path) for path in found.twins]
    return Problem(
        code="two_files_of_one_name",
        severity="error",
        file=names[0],
        message=f"There are several files of this name: {' and '.join(names)}.",
        remedy="Keep one of them.",
        using_last_good=using_last_good,
    )


def differ_by_case(
    listing: Listing, folder: Path, show: Callable[[Path], str]
) -> Iterator[Problem]:
    """Files whose names differ only in upper and lower case: on many systems one of them hides
    the other."""
    for files in listing.by_lower_name.values():
        if len({file.rpartition(".")[0] for file in files}) > 1:
            names = [show(folder / file) for file in files]
            yield Problem(
                code="differ_by_case",
                severity="warning",
                file=names[0],
                message=f"Names differ only in upper and lower case: {' and '.join(names)}.",
                remedy="Rename one of them: systems that do not tell them apart have only one.",
            )


def other_case(asked: Place, found: Path, show: Callable[[Path], str]) -> Problem:
    """A name that matched only because case was ignored."""
    return Problem(
        code="name_case",
        severity="warning",
        file=show(found),
        message=f"This file is asked for as {'/'.join(asked.parts)!r}.",
        remedy="Write the name as the file has it; other systems tell upper and lower case apart.",
    )


def missing(
    places: tuple[Place, ...], listing_of: ListingOf, show: Callable[[Path], str]
) -> BrokenFile:
    """Names every path that was tried, and the nearest name that exists."""
    first = places[0]
    close = next(filter(None, (_meant(listing_of, place) for place in places)), None)
    others = [show(place.path) for place in places[1:]]
    message = "There is no such file."
    if others:
        message = f"There is no such file, nor {' or '.join(others)}."
    problem = Problem(
        code="missing_file",
        severity="error",
        file=show(first.path),
        message=message,
        remedy=f"Did you mean {close}?" if close else "",
    )
    return BrokenFile((problem,))


def _meant(listing_of: ListingOf, place: Place) -> str | None:
    """The name that is nearest to the first part of a place that is not there."""
    folder = place.root
    for part in place.parts[:-1]:
        listing = listing_of(folder)
        name = listing.folder_like(part)
        if name is None:
            near = nearest(part, list(listing.folders))
            return f"the folder {near!r}" if near else None
        folder = folder / name
    near = nearest(place.parts[-1], list(listing_of(folder).by_name))
    return repr(near) if near else None
