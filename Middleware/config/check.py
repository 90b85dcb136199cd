"""The pass over the files of a configuration: everything that is wrong, at once.

``workflows/check.py`` and ``llm/check.py`` add what only they can know.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from Middleware.config import loaders
from Middleware.config.lookup import Found, ambiguous, differ_by_case
from Middleware.config.models import Endpoint, RoutingFile, User
from Middleware.config.prices import FILE as PRICES
from Middleware.config.prices import parse_prices
from Middleware.config.problems import BrokenFile
from Middleware.config.problems import Problem as Problem
from Middleware.config.references import (
    endpoint_problems,
    routing_problems,
    user_problems,
)
from Middleware.config.store import CURRENT_USER_FILE, ConfigStore
from Middleware.config.watched_file import Parse, WatchedFile
from Middleware.core.errors import ConfigError

CODES: dict[str, str] = {
    "bad_encoding": "The file is not UTF-8.",
    "bad_syntax": "The file is no JSON, or no YAML.",
    "bad_url": "No model server can be reached under this address.",
    "differ_by_case": "Names of two files differ only in upper and lower case.",
    "duplicate_key": "A key is given twice in one object.",
    "foreign_path": "A path of another operating system.",
    "incomplete": "Settings that belong together are not all there.",
    "invalid_value": "A value is of the wrong kind, or outside its limits.",
    "missing_file": "A file that is needed does not exist, or was deleted while in use.",
    "missing_folder": "A folder that a setting names does not exist.",
    "missing_key": "A key that is needed is not there.",
    "missing_reference": "A file names another file that does not exist.",
    "missing_variable": "An environment variable is not set.",
    "name_case": "A name matches only when upper and lower case are the same.",
    "no_user": "There is no user to answer for.",
    "outside_folder": "A link leads out of the configuration folder.",
    "two_files_of_one_name": "Two files of one folder differ in their suffix only.",
    "unknown_key": "Nothing reads this key.",
    "unreadable_file": "The file cannot be read.",
}
"""What each code means. The checks of other packages add theirs."""

_DEEPEST = 12

_KINDS: tuple[tuple[str, Parse[Any]], ...] = (
    ("Endpoints", loaders.parse_endpoint),
    ("ApiTypes", loaders.parse_api_type),
    ("Presets", loaders.parse_preset),
    ("PromptTemplates", loaders.parse_prompt_template),
    ("Routing", loaders.parse_routing),
    ("StructuredOutputs", loaders.parse_structured_output),
    ("MCPServers", loaders.parse_mcp_server),
)


def check_files(store: ConfigStore) -> list[Problem]:
    """Every problem of users, endpoints, API types, presets, templates, routing and MCP files.

    Reads what has changed since the last time and nothing else, so it is cheap to repeat.
    Afterwards every file is known, so a later edit of any of them that breaks it does no harm.
    """
    problems: list[Problem] = []
    users = _Users(store)
    problems.extend(users.problems())
    problems.extend(_of_the_prices(store))
    for kind, parse in _KINDS:
        folder = store.locations.configs / kind
        problems.extend(twins(store, folder))
        for path in files_below(store, folder):
            file = store.cache.file(path, parse)
            problems.extend(own_problems(file))
            if file.newest is not None:
                problems.extend(users.problems_of_use(path, file.newest.value.value))
    return sorted(
        dict.fromkeys(filter(users.matters, problems)),
        key=lambda one: (one.severity, one.file, one.place),
    )


def _of_the_prices(store: ConfigStore) -> Iterator[Problem]:
    """The one file that lies beside the folders."""
    folder = store.locations.configs
    for file in store.cache.listing_now(folder).by_name.get(PRICES, ()):
        yield from own_problems(store.cache.file(folder / file, parse_prices))


def files_below(store: ConfigStore, root: Path, *, deepest: int = _DEEPEST) -> Iterator[Path]:
    """Every JSON and YAML file below ``root``, sorted; hidden ones are left out."""
    listing = store.cache.listing_now(root)
    for files in sorted(listing.by_name.values()):
        yield from (root / file for file in files if not file.startswith("."))
    if deepest:
        for folder in sorted(listing.folders):
            if not folder.startswith("."):
                yield from files_below(store, root / folder, deepest=deepest - 1)


def twins(store: ConfigStore, root: Path, *, deepest: int = _DEEPEST) -> Iterator[Problem]:
    """Files below ``root`` whose names can be taken for each other's."""
    listing = store.cache.listing_now(root)
    for files in listing.by_name.values():
        if len(files) > 1:
            paths = tuple(root / file for file in files)
            found = Found(paths[0], paths)
            yield ambiguous(found, store.locations.show, using_last_good=False)
    yield from differ_by_case(listing, root, store.locations.show)
    if deepest:
        for folder in listing.folders:
            yield from twins(store, root / folder, deepest=deepest - 1)


def own_problems(file: WatchedFile[Any]) -> Iterator[Problem]:
    """What is wrong with a file by itself; looks at the disk first."""
    file.refresh()
    if file.gone and file.newest is None:
        return
    yield from file.failure
    if file.newest is not None:
        yield from file.newest.value.problems


class _Users:
    """The users of a tree, and what they make of the other files."""

    def __init__(self, store: ConfigStore) -> None:
        self._store = store
        self._folder = store.locations.configs / "Users"
        self._all: list[tuple[str, User]] = []
        """File and value of each that can be read."""

    def problems(self) -> Iterator[Problem]:
        yield from self._of_the_choice()
        yield from twins(self._store, self._folder, deepest=0)
        for path in files_below(self._store, self._folder, deepest=0):
            if path.stem == CURRENT_USER_FILE:
                continue
            file = self._store.cache.file(path, loaders.parse_user)
            yield from own_problems(file)
            if file.newest is not None:
                name = self._store.locations.show(path)
                user = self._as_typed(file.newest.value.value)
                self._all.append((name, user))
                yield from user_problems(self._store, name, user)

    def _of_the_choice(self) -> Iterator[Problem]:
        try:
            names = self._store.user_names
        except ConfigError as error:
            yield _of_error(error, "no_user")
            return
        for name in names:
            try:
                self._store.snapshot(name)
            except ConfigError as error:
                # What is wrong inside a file comes with the file.
                problem = _of_error(error, "no_user")
                if problem.code in ("no_user", "missing_file"):
                    yield problem

    def _as_typed(self, user: User) -> User:
        """Folders are named after the user as typed on the command line."""
        try:
            names = self._store.user_names
        except ConfigError:
            names = ()
        typed = next((name for name in names if name.lower() == user.name.lower()), user.name)
        return user.model_copy(update={"name": typed})

    def problems_of_use(self, path: Path, value: Any) -> Iterator[Problem]:
        """What a file that is in order by itself refers to and does not get."""
        name = self._store.locations.show(path)
        if isinstance(value, Endpoint):
            yield from endpoint_problems(self._store, path, value)
        elif isinstance(value, RoutingFile):
            users = [user for _, user in self._all if user.routing_config == value.name]
            yield from routing_problems(self._store, name, value, users)

    def matters(self, problem: Problem) -> bool:
        """An endpoint that lies where no user looks first may lack its key: it is an example.
        Whoever uses it all the same, by a name with its folder, is told there (C-33).
        """
        if problem.code != "missing_variable" or not problem.file.startswith("Endpoints/"):
            return True
        folder = problem.file.rpartition("/")[0].lower()
        return folder in {
            "/".join(("Endpoints", *user.endpoint_configs_sub_directory.strip("/").split("/")))
            .rstrip("/")
            .lower()
            for _, user in self._all
        }


def _of_error(error: ConfigError, code: str) -> Problem:
    if isinstance(error, BrokenFile):
        return error.problems[0]
    return Problem(
        code=code,
        severity="error",
        file=error.file or "Users",
        place=error.where or "",
        message=error.problem,
        remedy=error.remedy,
    )
