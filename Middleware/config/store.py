"""The configuration of one server: its folders, its users, and what is wrong with them."""

import logging
import threading
from pathlib import Path

from Middleware.config import loaders
from Middleware.config.cache import FileCache
from Middleware.config.files import Snapshot
from Middleware.config.locations import Locations as Locations
from Middleware.config.lookup import ListingOf, Place, missing
from Middleware.config.models import User
from Middleware.config.paths import UnsafeName, parts_of
from Middleware.config.problems import Problem
from Middleware.config.watch import CHECK_SECONDS
from Middleware.core.clock import Clock, SystemClock
from Middleware.core.errors import ConfigError

logger = logging.getLogger(__name__)

CURRENT_USER_FILE = "_current-user"


class _Slot:
    """The newest snapshot of one user."""

    __slots__ = ("fresh_until", "lock", "snapshot")

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.fresh_until = float("-inf")
        self.lock = threading.Lock()


class ConfigStore:
    """One a server, shared by all threads. Making one reads nothing."""

    def __init__(
        self, locations: Locations, users: tuple[str, ...] = (), *, clock: Clock | None = None
    ) -> None:
        self.locations = locations
        self.clock: Clock = clock or SystemClock()
        self.cache = FileCache(locations, self.clock)
        self._given = tuple(dict.fromkeys(name.strip() for name in users if name.strip()))
        self._slots: dict[str, _Slot] = {}
        self._names: tuple[float, tuple[str, ...]] = (float("-inf"), ())
        self._warned: set[str] = set()

    @property
    def user_names(self) -> tuple[str, ...]:
        """The users of the command line, each once, else the one of ``_current-user.json``.

        Raises ConfigError when there is neither.
        """
        fresh_until, names = self._names
        now = self.clock.monotonic()
        if now >= fresh_until:
            names = self._look_for_users()
            self._names = (now + CHECK_SECONDS, names)
        return names

    def _look_for_users(self) -> tuple[str, ...]:
        if len(self._given) < 2:
            return self._given or (self._current_user(),)
        by_file: dict[object, str] = {}
        for name in self._given:
            try:
                # Two spellings of one file are one user (config-files, Surprise 25).
                by_file.setdefault(self._find_user(name, self.cache.listing_now), name)
            except ConfigError:
                by_file.setdefault(name, name)
        return tuple(by_file.values())

    @property
    def default_user(self) -> str:
        """Who answers when a request names nobody: the first one."""
        return self.user_names[0]

    def require_users(self) -> None:
        """Raise ConfigError for the first user whose file is missing or broken."""
        for name in self.user_names:
            self.snapshot(name)

    def snapshot(self, user: str | None = None) -> Snapshot:
        """What a request that begins now sees; None stands for the default user."""
        name = self.default_user if user is None else user
        slot = self._slots.get(name)
        if slot is not None and self.clock.monotonic() < slot.fresh_until:
            assert slot.snapshot is not None
            return slot.snapshot
        return self._renew(name)

    def _renew(self, name: str) -> Snapshot:
        slot = self._slots.get(name) or _Slot()
        # While one thread reads what has changed, the others go on with what there is.
        if not slot.lock.acquire(blocking=slot.snapshot is None):
            assert slot.snapshot is not None
            return slot.snapshot
        try:
            started = self.clock.monotonic()
            fresh = slot.snapshot and slot.snapshot.renewed(started)
            # Only a user who exists gets a slot: names may come from clients.
            slot.snapshot = fresh or Snapshot(
                self, started, lambda snapshot: self._load_user(snapshot, name)
            )
            slot.fresh_until = started + CHECK_SECONDS
            self._slots.setdefault(name, slot)
            return slot.snapshot
        finally:
            slot.lock.release()

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong now with files that are in use, or that were good before an edit."""
        return self.cache.problems()

    def shared_workflows(self, user: str) -> tuple[str, ...]:
        """Names of the workflows that a client may be shown (whether it is, the user says)."""
        return self.snapshot(user).shared_workflows()

    def warn_once(self, text: str) -> None:
        """Log a warning that would otherwise come with every request."""
        if text not in self._warned and len(self._warned) < 1000:
            self._warned.add(text)
            logger.warning("%s", text)

    # Users

    def _current_user(self) -> str:
        place = self._user_place(CURRENT_USER_FILE)
        path = self.cache.locate(self.cache.listing_now, [(place, True)])
        name = self.cache.load_now(path, loaders.parse_current_user) if path else ""
        if name:
            return name
        raise ConfigError(
            "No user is named." if path else "There is no such file, and no user was given.",
            file=self.locations.show(path or place.path),
            where="currentUser" if path else None,
            remedy="Start the server with --User NAME, or name one in this file.",
        )

    def _user_place(self, name: str) -> Place:
        try:
            (part,) = parts_of(name)
        except (UnsafeName, ValueError):
            raise ConfigError(f"The user name {name[:80]!r} is no plain file name.") from None
        return Place(self.locations.configs / "Users", (part,))

    def _find_user(self, name: str, listing_of: ListingOf) -> Path:
        """As typed, in lower case, in any case (config-files, Surprise 1)."""
        typed, lower = self._user_place(name), self._user_place(name.lower())
        tries = ((typed, True), (lower, True), (typed, False))
        path = self.cache.locate(listing_of, tries)
        if path is not None:
            return path
        raise missing((typed,), listing_of, self.locations.show)

    def _load_user(self, snapshot: Snapshot, name: str) -> User:
        loaded = snapshot.load(self._find_user(name, snapshot.listing), loaders.parse_user)
        return self.cache.derived(
            ("user", name), (loaded,), lambda: loaded.model_copy(update={"name": name})
        )
