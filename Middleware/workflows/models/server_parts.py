"""What the server has beside its models and its files: where it keeps data, and its locks."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from Middleware.config.files import Snapshot
from Middleware.core.errors import ConfigError
from Middleware.memory.agents import AgentThreads
from Middleware.storage.discussions import DiscussionFolder, DiscussionKey, DiscussionRoot
from Middleware.storage.files import PathLocks
from Middleware.storage.locks import SqliteLocks, WorkflowLocks
from Middleware.storage.places import Place

if TYPE_CHECKING:
    from Middleware.storage.postgres import Postgres

INSTALL = Path(__file__).resolve().parents[3]
"""The checkout: scripts and old data are looked for here too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerParts:
    """One a server; the defaults are those of a server that was given no options."""

    install: Path = INSTALL
    discussion_directory: Path | None = None
    """``--DiscussionDirectory``; wins over the user's ``discussionDirectory``."""
    sqlite_directory: Path | None = None
    """``--UserLevelSqlLiteDirectory``; wins over the user's ``sqlLiteDirectory``."""
    allow_inline_python: bool = False
    """``--allow-inline-python``: code in workflow files may be run."""
    database: "Postgres | None" = None
    """``--database postgresql://…``: what several servers share; None where each has files."""
    workflow_locks: WorkflowLocks = field(default_factory=SqliteLocks)
    path_locks: PathLocks = field(default_factory=PathLocks)

    def discussion(
        self, config: Snapshot, discussion_id: str | None, api_key: str | None
    ) -> DiscussionFolder | None:
        """The folder of a conversation; None for one without an id (or with an empty one)."""
        if not discussion_id:
            return None
        user = config.user
        key = DiscussionKey(api_key=api_key, user=user.name, encrypts=user.encrypt_using_api_key)
        root = DiscussionRoot(
            path=self.discussion_directory
            or _folder(user.discussion_directory)
            or config.store.locations.public / "DiscussionIds",
            legacy=self.install / "Public" / "DiscussionIds",
            locks=self.path_locks,
        )
        return root.folder(discussion_id, key)

    def agent_threads(self, config: Snapshot) -> AgentThreads:
        """What Agent nodes remember of users."""
        return AgentThreads(self.database or self._data_folder(config) / "agents.sqlite")

    def run_log(self, config: Snapshot) -> Place:
        """The database of the user's runs."""
        return self.database or self._data_folder(config) / "runs.sqlite"

    def _data_folder(self, config: Snapshot) -> Path:
        return (
            self.sqlite_directory
            or _folder(config.user.sql_lite_directory)
            or config.store.locations.public / "SqlLiteDBs"
        )

    def lock_database(self, config: Snapshot) -> Path:
        """The database of the user's locks; an old one is used while there is no new one."""
        user = config.user
        name = f"WilmerDb.{user.name}.sqlite"
        path = self._data_folder(config) / name
        if not path.exists():
            for old in (Path.cwd() / name, self.install / name):
                if old.is_file():
                    return old
        return path

    def lock_place(self, config: Snapshot) -> Hashable:
        """Where the user's locks are: see :attr:`WorkflowLocks.shared`."""
        return config.user.name if self.workflow_locks.shared else self.lock_database(config)

    def start(self, configs: Iterable[Snapshot]) -> None:
        """Before the first request, with the configuration of every user: what processes that
        are gone have locked becomes free."""
        self.workflow_locks.clean_up([self.lock_place(config) for config in configs])

    def close(self) -> None:
        self.workflow_locks.close()
        if self.database:
            self.database.close()


def _folder(text: str) -> Path | None:
    if not text.strip():
        return None
    try:
        return Path(text.strip()).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"The folder {text!r} names a home that nobody has.") from error
