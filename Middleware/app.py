"""The composition root: builds the parts, hands them to each other, freezes the registries."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flask import Blueprint

from Middleware import __version__
from Middleware.api.admission import Keys
from Middleware.api.background import Background
from Middleware.api.catalogue import Catalogue
from Middleware.api.delivery import Delivery
from Middleware.api.doors.anthropic import anthropic_door
from Middleware.api.doors.background_responses import BackgroundResponses, Life
from Middleware.api.doors.conversations import conversations_door
from Middleware.api.doors.durable_conversations import DurableConversations
from Middleware.api.doors.durable_responses import ConversationResponses, Places
from Middleware.api.doors.embeddings import embeddings_door
from Middleware.api.doors.kept_conversations import KeptConversations
from Middleware.api.doors.kept_responses import Kept
from Middleware.api.doors.ollama import ollama_door
from Middleware.api.doors.openai import openai_door
from Middleware.api.doors.responses import responses_door
from Middleware.api.durable import durable_door
from Middleware.api.durable_chat import ProfileAnswers
from Middleware.api.durable_events import Waits
from Middleware.api.durable_models import with_profiles
from Middleware.api.errors import ErrorShapes
from Middleware.api.gate import RequestGate
from Middleware.api.health import health
from Middleware.api.metrics import metrics_door
from Middleware.api.openapi.door import openapi_door
from Middleware.api.options import ServerOptions, logging_directory
from Middleware.api.pulse import Pulse
from Middleware.api.runs import runs_door
from Middleware.api.serving import Application
from Middleware.api.site import Site, SiteParts
from Middleware.api.twins import Twins
from Middleware.api.workflows import workflows_door
from Middleware.config.check import check_files
from Middleware.config.locations import Locations
from Middleware.config.problems import Problem, without_echoes
from Middleware.config.selection import find_model, model_names, user_of
from Middleware.config.store import ConfigStore
from Middleware.config.user import User
from Middleware.conversations.check import check_profiles
from Middleware.conversations.service import Conversations
from Middleware.conversations.setup import build_conversations, database_url, durable_settings
from Middleware.conversations.workflow_runs import WorkflowRuns
from Middleware.core.clock import Clock, SystemClock
from Middleware.core.errors import ConfigError
from Middleware.llm.backend import backend_types
from Middleware.llm.check import check_models
from Middleware.llm.pool import BackendPool
from Middleware.runs.history import History
from Middleware.runs.metrics import Metrics
from Middleware.runs.recorder import Recorder, Several
from Middleware.runs.retention import Keep
from Middleware.runs.run_log import RunLog
from Middleware.runs.saving import close_interrupted_runs
from Middleware.runs.spans import span_writer
from Middleware.runs.writer import WriterParts
from Middleware.storage.locks import SqliteLocks, WorkflowLocks
from Middleware.storage.responses import ResponseStore
from Middleware.storage.urls import is_postgres
from Middleware.wire import anthropic_messages, ollama_chat, openai_chat
from Middleware.workflows.check import check_workflows
from Middleware.workflows.handlers import impl as impl
from Middleware.workflows.handlers.base.node_handler import node_types
from Middleware.workflows.managers.embedding_runner import EmbeddingRunner
from Middleware.workflows.managers.request_runner import RequestRunner
from Middleware.workflows.models.server_parts import ServerParts

if TYPE_CHECKING:
    from Middleware.storage.postgres import Postgres

INSTALL = Path(__file__).resolve().parent.parent
"""The checkout: what ships with the server is found from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The server without its doors: what commands of the terminal use as well."""

    store: ConfigStore
    backends: BackendPool
    runner: RequestRunner
    recorder: Recorder
    run_log: RunLog
    clock: Clock
    server: ServerParts

    def close(self) -> None:
        """Once, after the last request."""
        self.run_log.close()
        self.backends.close()
        self.server.close()


def build_store(options: ServerOptions, clock: Clock | None = None) -> ConfigStore:
    """The configuration that the options point at. Raises ConfigError for folders and users that
    are not there."""
    locations = Locations.find(
        INSTALL,
        public=_text(options.public_directory),
        configs=_text(options.config_directory),
        workflows=_text(options.workflows_directory),
    )
    locations.require()
    return ConfigStore(locations, options.users, clock=clock)


def build_parts(
    options: ServerOptions, *, recorder: Recorder | None = None, clock: Clock | None = None
) -> Parts:
    """``recorder`` is told of all runs beside the run log."""
    node_types.freeze()
    backend_types.freeze()
    clock = clock or SystemClock()
    store = build_store(options, clock)
    store.require_users()
    backends = BackendPool(
        slots=options.concurrency if options.concurrency_level == "endpoint" else 0,
        wait_seconds=options.concurrency_timeout_seconds,
    )
    database = _postgres(options)
    server = ServerParts(
        install=INSTALL,
        discussion_directory=options.discussion_directory,
        sqlite_directory=options.sqlite_directory,
        allow_inline_python=options.allow_inline_python,
        workflow_locks=_locks(database),
        database=database,
    )
    server.start(store.snapshot(name) for name in store.user_names)
    run_log = build_run_log(store, server, clock)
    recorder = Several(recorder, run_log) if recorder else run_log
    return Parts(
        store=store,
        backends=backends,
        runner=RequestRunner(store, backends, recorder, clock, server),
        recorder=recorder,
        run_log=run_log,
        clock=clock,
        server=server,
    )


def _locks(database: "Postgres | None") -> WorkflowLocks:
    if database is None:
        return SqliteLocks()
    from Middleware.storage.postgres_locks import PostgresLocks  # the driver takes time to load

    return PostgresLocks(database)


def _postgres(options: ServerOptions) -> "Postgres | None":
    """What several servers share; None where each has files of its own."""
    url = options.database
    if url is None or not is_postgres(url):
        return None
    from Middleware.storage.postgres import Postgres  # as above

    return Postgres(url)


def build_run_log(store: ConfigStore, server: ServerParts, clock: Clock) -> RunLog:
    return RunLog(
        WriterParts(
            keep=partial(_keep, store, server),
            users=lambda: store.user_names,
            clock=clock,
            metrics=Metrics(),
            end_of_tree=span_writer(),
        )
    )


def build_history(options: ServerOptions) -> History:
    """What has run, for a command that reads while a server may be writing. Runs that a crash has
    left open are closed first."""
    clock = SystemClock()
    store = build_store(options, clock)
    server = ServerParts(sqlite_directory=options.sqlite_directory, database=_postgres(options))
    keeps = [_keep(store, server, user) for user in store.user_names]
    places = [keep.place for keep in keeps if keep is not None]
    close_interrupted_runs(places, clock)
    return History(lambda: places, server.close)


def _keep(store: ConfigStore, server: ServerParts, user: str) -> Keep | None:
    """Where and how long runs are kept, as the user's file says at the moment."""
    try:
        config = store.snapshot(user)
        place = server.run_log(config)
    except ConfigError:
        return None
    wanted = config.user.run_log
    return Keep(
        place=place,
        enabled=wanted.enabled,
        max_runs=wanted.max_runs,
        max_days=wanted.max_days,
        max_megabytes=wanted.max_megabytes,
    )


def create_app(options: ServerOptions, parts: Parts | None = None) -> Application:
    """The WSGI application and what its server must know of it."""
    parts = parts or build_parts(options)
    if parts.server.database is not None:
        parts.server.database.require()
    store = parts.store
    pulse, background = Pulse(), Background()
    talks = _conversations(options, parts)
    limits = durable_settings(store)
    places = Places(
        waits=Waits(most=limits.max_waiting_readers), seconds=limits.response_wait_seconds
    )
    delivery = Delivery(
        answers=ProfileAnswers(
            others=parts.runner,
            conversations=talks,
            user=partial(_first_user, store),
            places=places,
        ),
        pulse=pulse,
        background=background,
        gate=_gate(options),
        twins=Twins(background),
    )
    shapes = error_shapes()
    responses = ResponseStore(
        parts.server.database or _data_folder(options, store) / "responses.sqlite", parts.clock
    )
    life = Life(responses.place, parts.clock.new_id())
    site = Site(
        SiteParts(
            blueprints=(
                *front_doors(parts, delivery, responses, talks, places, life),
                durable_door(talks, places.waits),
                runs_door(parts.run_log),
                workflows_door(parts.runner, parts.run_log, background),
                metrics_door(parts.run_log.metrics, lambda: parts.run_log.running),
                health(__version__, store.problems, _catalogue(store).names),
                openapi_door(shapes, __version__),
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
            refusals=parts.run_log.metrics.refusals,
            cors=options.cors,
            max_body_bytes=options.max_body_megabytes * 1024 * 1024,
        )
    )
    parts.run_log.start()
    # Opening a store takes a while, and nobody waits for what was left open.
    resuming = talks.resume_when_needed
    threading.Thread(target=resuming, name="resume-conversations", daemon=True).start()
    users = store.user_names
    single = store.snapshot(users[0]).user if len(users) == 1 else None
    return Application(
        site=site,
        users=users,
        port=single.port if single else None,
        log_directory=_log_directory(options, store, single.use_file_logging if single else False),
        problems=partial(check_everything, store),
        close=partial(_close_all, talks.stop, life.close, responses.close, parts.close),
    )


def _conversations(options: ServerOptions, parts: Parts) -> Conversations:
    url = database_url(options.database, parts.store.locations.public, options.sqlite_directory)
    run = WorkflowRuns(parts.store, parts.backends, parts.recorder, parts.clock, parts.server)
    return build_conversations(url, parts.store, run)


def front_doors(
    parts: Parts,
    delivery: Delivery,
    responses: ResponseStore,
    talks: Conversations,
    places: Places,
    life: Life,
) -> tuple[Blueprint, ...]:
    """Everything that speaks as a model server."""
    store, clock = parts.store, parts.clock
    catalogue = with_profiles(_catalogue(store), talks, partial(_first_user, store))
    durable = ConversationResponses(talks, places)
    conversations = KeptConversations(store=responses, clock=clock)
    kept = Kept(store=responses, clock=clock, conversations=conversations)
    background = BackgroundResponses(delivery=delivery, kept=kept, waits=places.waits, life=life)
    return (
        openai_door(delivery, catalogue, clock),
        responses_door(catalogue, kept, background, durable),
        conversations_door(DurableConversations(talks), kept.conversations),
        anthropic_door(delivery),
        ollama_door(delivery, catalogue, clock),
        embeddings_door(delivery, EmbeddingRunner(store, parts.backends), clock),
    )


def _catalogue(store: ConfigStore) -> Catalogue:
    return Catalogue(
        listed=partial(model_names, store),
        found=partial(find_model, store),
        owner=partial(user_of, store),
    )


def _first_user(store: ConfigStore) -> User:
    """Whose workflows conversations run."""
    return store.snapshot().user


def error_shapes() -> ErrorShapes:
    """Who finds errors in which shape: OpenAI's, unless path or header say otherwise."""
    shapes = ErrorShapes(openai_chat.encode_error)
    for path in ("/v1/messages", "/messages"):
        shapes.register(path, anthropic_messages.encode_error)
    shapes.register("/api/", ollama_chat.encode_error)
    for path in ("/api/runs", "/api/workflows"):
        shapes.register(path, openai_chat.encode_error)
    shapes.register_header("HTTP_ANTHROPIC_VERSION", anthropic_messages.encode_error)
    return shapes


def _gate(options: ServerOptions) -> RequestGate | None:
    """Around whole requests; the level ``endpoint`` has its gate around model calls."""
    if options.concurrency == 0 or options.concurrency_level != "wilmer":
        return None
    return RequestGate(options.concurrency, options.concurrency_timeout_seconds)


def _data_folder(options: ServerOptions, store: ConfigStore) -> Path:
    """Where databases of the whole server are (decisions §8)."""
    return options.sqlite_directory or store.locations.public / "SqlLiteDBs"


def _close_all(*closings: Callable[[], None]) -> None:
    for close in closings:
        close()


def check_everything(store: ConfigStore) -> list[Problem]:
    """What every `check.py` has to say about the whole tree."""
    return without_echoes(
        [
            *check_files(store),
            *check_models(store),
            *check_workflows(store),
            *check_profiles(store),
        ]
    )


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
