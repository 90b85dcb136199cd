"""The composition root: builds the parts, hands them to each other, freezes the registries."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from Middleware import __version__
from Middleware.api.admission import Keys
from Middleware.api.background import Background
from Middleware.api.delivery import Delivery
from Middleware.api.doors.openai import openai_door
from Middleware.api.errors import ErrorShapes
from Middleware.api.health import health
from Middleware.api.options import ServerOptions, logging_directory
from Middleware.api.pulse import Pulse
from Middleware.api.serving import Application
from Middleware.api.site import Site, SiteParts
from Middleware.config.check import check_files
from Middleware.config.locations import Locations
from Middleware.config.problems import Problem
from Middleware.config.selection import model_names
from Middleware.config.store import ConfigStore
from Middleware.core.clock import Clock, SystemClock
from Middleware.llm.backend import backend_types
from Middleware.llm.pool import BackendPool
from Middleware.runs.recorder import MemoryRecorder, Recorder
from Middleware.wire import openai_chat
from Middleware.workflows.check import check_workflows
from Middleware.workflows.handlers import impl as impl
from Middleware.workflows.handlers.base.node_handler import node_types
from Middleware.workflows.managers.request_runner import RequestRunner
from Middleware.workflows.models.server_parts import ServerParts

INSTALL = Path(__file__).resolve().parent.parent
"""The checkout: what ships with the server is found from here."""

RECENT_RUNS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The server without its doors: what commands of the terminal use as well."""

    store: ConfigStore
    backends: BackendPool
    runner: RequestRunner
    recorder: Recorder
    clock: Clock
    server: ServerParts

    def close(self) -> None:
        """Once, after the last request."""
        self.backends.close()
        self.server.close()


def build_store(options: ServerOptions, clock: Clock | None = None) -> ConfigStore:
    """The configuration that the options point at. Raises ConfigError for a user without file."""
    locations = Locations.find(
        INSTALL,
        public=_text(options.public_directory),
        configs=_text(options.config_directory),
        workflows=_text(options.workflows_directory),
    )
    return ConfigStore(locations, options.users, clock=clock)


def build_parts(
    options: ServerOptions, *, recorder: Recorder | None = None, clock: Clock | None = None
) -> Parts:
    node_types.freeze()
    backend_types.freeze()
    clock = clock or SystemClock()
    store = build_store(options, clock)
    store.require_users()
    backends = BackendPool()
    recorder = recorder or MemoryRecorder(RECENT_RUNS)
    server = ServerParts(
        install=INSTALL,
        discussion_directory=options.discussion_directory,
        sqlite_directory=options.sqlite_directory,
        allow_inline_python=options.allow_inline_python,
    )
    server.start(store.snapshot(name) for name in store.user_names)
    return Parts(
        store=store,
        backends=backends,
        runner=RequestRunner(store, backends, recorder, clock, server),
        recorder=recorder,
        clock=clock,
        server=server,
    )


def create_app(options: ServerOptions, parts: Parts | None = None) -> Application:
    """The WSGI application and what its server must know of it."""
    parts = parts or build_parts(options)
    store = parts.store
    pulse, background = Pulse(), Background()
    delivery = Delivery(answers=parts.runner, pulse=pulse, background=background)
    shapes = ErrorShapes(openai_chat.encode_error)
    site = Site(
        SiteParts(
            blueprints=(
                openai_door(delivery, partial(model_names, store), parts.clock),
                health(__version__, store.problems),
            ),
            shapes=shapes,
            pulse=pulse,
            background=background,
            keys=Keys(
                lambda: [store.snapshot(name).user for name in store.user_names],
                extra_key=options.api_key,
                off=options.no_auth,
            ),
            new_id=parts.clock.new_id,
            cors=options.cors,
            max_body_bytes=options.max_body_megabytes * 1024 * 1024,
        )
    )
    users = store.user_names
    single = store.snapshot(users[0]).user if len(users) == 1 else None
    return Application(
        site=site,
        users=users,
        port=single.port if single else None,
        log_directory=_log_directory(options, store, single.use_file_logging if single else False),
        problems=partial(check_everything, store),
        close=parts.close,
    )


def check_everything(store: ConfigStore) -> list[Problem]:
    """What every `check.py` has to say about the whole tree."""
    return [*check_files(store), *check_workflows(store)]


def _log_directory(options: ServerOptions, store: ConfigStore, user_wants: bool) -> Path | None:
    """Where log files go; None when nobody asked for them (config-files §2)."""
    if not (options.file_logging or user_wants):
        return None
    users = store.user_names
    folder, _ = logging_directory(
        options, store.locations.public, users[0] if len(users) == 1 else None
    )
    return folder


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
