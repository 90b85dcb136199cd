"""One request's view of the configuration."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from Middleware.config import loaders
from Middleware.config.cache import FileCache as FileCache
from Middleware.config.locations import Locations
from Middleware.config.lookup import Listing, Place, find_folder, missing
from Middleware.config.models import (
    ApiType,
    Endpoint,
    McpServer,
    PromptTemplate,
    RoutingFile,
    User,
)
from Middleware.config.paths import UnsafeName, is_plain_name, parts_of
from Middleware.config.prices import FILE as PRICES
from Middleware.config.prices import NO_PRICES, Prices, parse_prices
from Middleware.config.watch import Watched
from Middleware.config.watched_file import Parse
from Middleware.config.watched_file import Source as Source
from Middleware.core.errors import ConfigError

T = TypeVar("T")

_SHARED_SECONDS = 60.0
"""How long what was looked up is handed on from snapshot to snapshot before it is looked up
again, so that nothing is kept that nobody asks for."""
_MOST_KEPT = 2048


class Store(Protocol):
    """What a snapshot must know of the store it belongs to."""

    @property
    def cache(self) -> FileCache: ...

    @property
    def locations(self) -> Locations: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPreset:
    """The generation parameters that a node asked for, not yet translated (config-files §7.1).

    At most one of ``samplers`` and ``native`` is set. The same object as long as the files are
    the same.
    """

    samplers: Mapping[str, Any] | None = None
    """Canonical names, to be translated for the API type."""
    native: Mapping[str, Any] | None = None
    """Fields of the payload, as they are."""
    appended: Mapping[str, Any] | None = None
    """Fields of the payload that are merged over the others."""


class Snapshot:
    """What one request sees: every file as it was when the request began.

    Bound to one user, and shared by all requests that begin within half a second. Safe to use
    from any thread. Whatever is missing or broken raises ConfigError with the path that was
    tried, the field and the remedy.
    """

    __slots__ = ("_born", "_memo", "_newest_only", "_seen", "_started", "store", "user")

    user: User

    def __init__(self, store: Store, started: float, load_user: "Callable[[Snapshot], User]"):
        self.store = store
        self._started = self._born = started
        self._memo: dict[Hashable, Any] = {}
        self._seen: dict[Watched[Any], int] = {}
        self._newest_only = True
        self.user = load_user(self)

    def renewed(self, started: float) -> "Snapshot | None":
        """The same for requests that begin now; None when a file has changed."""
        for watched in tuple(self._seen):
            watched.refresh(older_than=0.25)
        if started - self._born > _SHARED_SECONDS or not self._newest_only:
            return None
        if any(watched.changes != seen for watched, seen in tuple(self._seen.items())):
            return None
        again: Snapshot = object.__new__(Snapshot)
        again.store, again.user = self.store, self.user
        again._started, again._born = started, self._born
        again._memo, again._seen = dict(self._memo), dict(self._seen)
        again._newest_only = True
        return again

    def endpoint(self, name: str) -> Endpoint:
        """``Endpoints/<the user's sub-folder>/<name>``; there is no second place to look."""
        folder = self.user.endpoint_configs_sub_directory
        return self._file(("Endpoints", folder), name, loaders.parse_endpoint)

    def api_type(self, name: str) -> ApiType:
        return self._file(("ApiTypes",), name, loaders.parse_api_type)

    def prompt_template(self, name: str) -> PromptTemplate:
        return self._file(("PromptTemplates",), name, loaders.parse_prompt_template)

    def routing(self, name: str) -> RoutingFile:
        return self._file(("Routing",), name, loaders.parse_routing)

    def structured_output(self, name: str) -> Mapping[str, Any]:
        """A JSON Schema for answers, as its file has it."""
        return self._load(self.structured_output_file(name), loaders.parse_structured_output)

    def structured_output_file(self, name: str) -> Path:
        """In the user's sub-folder, then in ``StructuredOutputs/`` itself. Plain names only."""
        _require_plain(name, "StructuredOutputs")
        places = (
            self._place(("StructuredOutputs", self.user.structured_output_folder), name),
            self._place(("StructuredOutputs",), name),
        )
        return self._find(places)

    def mcp_server(self, name: str) -> McpServer:
        """Plain names only: files in sub-folders are examples (config-files §16)."""
        _require_plain(name, "MCPServers")
        return self._file(("MCPServers",), name, loaders.parse_mcp_server)

    def preset(self, endpoint: Endpoint, api_type: ApiType, name: str | None) -> ChosenPreset:
        """What the preset ``name`` of a node means for this endpoint; without a name the
        endpoint's own samplers (nodes, S1).
        """
        key = ("preset", id(endpoint), id(api_type), name)
        known = self._memo.get(key)
        if known is None:
            # The memo keeps both objects alive, so that their ids stay theirs.
            known = self._pin(key, (self._choose(endpoint, api_type, name), endpoint, api_type))
        return cast(ChosenPreset, known[0])

    def preset_file(self, api_type: ApiType, name: str) -> Path:
        """The file that :meth:`preset` reads for a name: of an endpoint or of a preset."""
        return self._preset_found(api_type, name)[0]

    def prices(self) -> Prices:
        """What models cost; the same object while the file is the same. A file that never was
        good counts as none: a list of prices must not keep a model from answering.
        """
        return self.once("prices", self._load_prices)

    def _load_prices(self) -> Prices:
        place = Place(self.store.locations.configs, (PRICES,))
        try:
            path = self.store.cache.locate(self.listing, [(place, True)])
            return NO_PRICES if path is None else self._load(path, parse_prices)
        except ConfigError:
            # `/health` and `check` tell of it.
            return NO_PRICES

    def workflow_file(self, name: str, folder: str | None = None) -> Path:
        """The file of a workflow, or of settings that lie among workflows.

        ``folder`` is below ``Workflows/``; None means the user's own. ``name`` may hold ``/``.
        """
        key = ("workflow", name, folder)
        known = self._memo.get(key)
        if known is None:
            below = self.user.workflow_folder if folder is None else folder
            known = self._pin(key, self._find((self._place(("Workflows", below), name),)))
        return cast(Path, known)

    def shared_workflow(self, name: str) -> str | None:
        """The folder, below ``Workflows/``, of the workflow that a client calls ``name``."""
        key = ("shared", name)
        known = self._memo.get(key)
        if known is None:
            shared = self._shared_folder() if is_plain_name(name) else None
            found = self.listing(shared).folder_like(name) if shared else None
            if found is None:
                # Not kept: clients may make up any number of names.
                return None
            known = self._pin(key, f"{self.user.shared_folder}/{found}")
        return cast(str, known)

    def shared_workflows(self) -> tuple[str, ...]:
        """The names of those that are listed, sorted: names that begin with ``_`` are not."""
        shared = self._shared_folder()
        names = self.listing(shared).folders if shared else ()
        return tuple(sorted(name for name in names if not name.startswith(("_", "."))))

    def _shared_folder(self) -> Path | None:
        place = self._place(("Workflows",), self.user.shared_folder)
        return find_folder(self.listing, place.root, place.parts, exact=False)

    def listing(self, folder: Path) -> Listing:
        """The names in a folder."""
        listing = self._look(self.store.cache.folder(folder))
        assert listing is not None, "a folder always has a listing"
        return listing

    def load(self, path: Path, parse: Parse[T]) -> T:
        """What ``parse`` made of the file. ``parse`` must be a function of a module."""
        key = (path, parse)
        known = self._memo.get(key)
        if known is None:
            known = self._pin(key, self._load(path, parse))
        return cast(T, known)

    def derived(self, key: Hashable, sources: tuple[object, ...], build: Callable[[], T]) -> T:
        """A value computed from loaded ones, computed once while these are the same objects."""
        return self.store.cache.derived(key, sources, build)

    def once(self, key: Hashable, build: Callable[[], T]) -> T:
        """A value computed from this snapshot alone, kept until something that it looked at
        changes. Not None.
        """
        known = self._memo.get(key)
        return cast(T, known) if known is not None else self._pin(key, build())

    # How it is found

    def _pin(self, key: Hashable, value: T) -> T:
        """Two threads of a request may come here at once: both get the first one's value."""
        if len(self._memo) >= _MOST_KEPT:
            return value
        return cast(T, self._memo.setdefault(key, value))

    def _place(self, folders: tuple[str, ...], name: str) -> Place:
        """``folders`` begins with the kind of file; the others come from files of the user."""
        kind, *below = folders
        locations = self.store.locations
        root = locations.workflows if kind == "Workflows" else locations.configs / kind
        try:
            return Place(root, parts_of(*below, name))
        except UnsafeName as error:
            shown = "/".join((*filter(None, below), name)) if name else name
            shown = shown if len(shown) < 80 else f"{shown[:80]}…"
            raise ConfigError(f"The name {shown!r} in {kind} {error}.") from None

    def _file(self, folders: tuple[str, ...], name: str, parse: Parse[T]) -> T:
        key = (parse, name)
        known = self._memo.get(key)
        if known is None:
            path = self._find((self._place(folders, name),))
            known = self._pin(key, self._load(path, parse))
        return cast(T, known)

    def _find(self, places: tuple[Place, ...]) -> Path:
        """The first place that has the name as written, else the first in any case."""
        tries = [(place, exact) for exact in (True, False) for place in places]
        path = self.store.cache.locate(self.listing, tries)
        if path is None:
            raise missing(places, self.listing, self.store.locations.show)
        return path

    def _load(self, path: Path, parse: Parse[T]) -> T:
        file = self.store.cache.file(path, parse)
        loaded = self._look(file)
        file.use(self._started)
        if loaded is None:
            raise file.error()
        return loaded.value

    def _look(self, watched: Watched[T]) -> T | None:
        """The version of this snapshot; remembers what the snapshot depends on."""
        watched.refresh()
        seen = watched.changes
        version = watched.version_at(self._started)
        self._seen.setdefault(watched, seen)
        if version is None:
            return None
        if version is not watched.newest:
            self._newest_only = False
        return version.value

    def _choose(self, endpoint: Endpoint, api_type: ApiType, name: str | None) -> ChosenPreset:
        own = endpoint.preset_samplers or None
        samplers, native = self._named(api_type, name) if name else (own, None)
        appended: Mapping[str, Any] | None = None
        if endpoint.append_preset_name:
            places = self._preset_places(api_type, endpoint.append_preset_name)
            appended = self._load(self._find(places), loaders.parse_preset)
        return self.derived(
            "chosen preset",
            (samplers, native, appended),
            lambda: ChosenPreset(samplers=samplers, native=native, appended=appended),
        )

    def _named(
        self, api_type: ApiType, name: str
    ) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
        path, samplers = self._preset_found(api_type, name)
        return (samplers, None) if samplers else (None, self._load(path, loaders.parse_preset))

    def _preset_found(self, api_type: ApiType, name: str) -> tuple[Path, Mapping[str, Any] | None]:
        """An endpoint of that name lends its samplers; otherwise it is a file of presets."""
        donors: tuple[Place, ...] = ()
        if is_plain_name(name):
            folder = self.user.endpoint_configs_sub_directory
            donors = (self._place(("Endpoints", folder), name),)
        presets = self._preset_places(api_type, name)
        for exact, lost in ((True, False), (False, False), (True, True)):
            donor = self._locate(donors, exact=exact, lost=lost)
            if donor is not None:
                samplers = self._load(donor, loaders.parse_endpoint).preset_samplers
                if samplers:
                    return donor, samplers
            path = self._locate(presets, exact=exact, lost=lost)
            if path is not None:
                return path, None
        raise missing(presets, self.listing, self.store.locations.show)

    def _locate(self, places: tuple[Place, ...], *, exact: bool, lost: bool) -> Path | None:
        tries = [(place, exact) for place in places]
        return self.store.cache.locate(self.listing, tries, lost=lost)

    def _preset_places(self, api_type: ApiType, name: str) -> tuple[Place, ...]:
        kind = api_type.preset_type
        return (
            self._place(("Presets", kind, self.user.preset_folder), name),
            self._place(("Presets", kind), name),
        )


def _require_plain(name: str, kind: str) -> None:
    if not is_plain_name(name):
        raise ConfigError(
            f"The name {name[:80]!r} in {kind} is no plain file name.",
            remedy="Write the name of the file without folder and suffix.",
        )
