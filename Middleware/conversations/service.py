"""Durable conversations as doors and commands see them.

Nothing is opened, imported or started before the first use: whoever has no conversations pays
nothing for them (MAP-7).
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Middleware.conversations.live import Live
from Middleware.conversations.models import Options, Receipt, Refusal, State
from Middleware.conversations.profiles import FixedProfiles, Profile, Profiles, require_profile
from Middleware.conversations.rules import Limits
from Middleware.conversations.settings import WorkerSettings
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError, MiddlewareError

if TYPE_CHECKING:
    from Middleware.conversations.activities import ActionRunner, TurnModel
    from Middleware.conversations.database import Database
    from Middleware.conversations.inbox import Inbox, Send, Start, Started
    from Middleware.conversations.live_rows import LiveRows, LiveWriter
    from Middleware.conversations.model import RunWorkflow
    from Middleware.conversations.reading import Reader
    from Middleware.conversations.repair import Repairer
    from Middleware.conversations.segments import Segment, Segments
    from Middleware.conversations.stops import Stops
    from Middleware.conversations.worker import Worker

LOOKS_EVERY_SECONDS = 0.25
"""How often a waiting reader asks the database, in case that another process did the work."""

LOOKS_FOR_WORK_EVERY_SECONDS = 5.0
"""How often a process without conversations of its own looks whether there are any."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the conversations of a server are made with."""

    database_url: str
    profiles: Profiles = field(default_factory=FixedProfiles)
    run: "RunWorkflow | None" = None
    """Runs the workflows of profiles. None: only the fake model is there."""
    model: "TurnModel | None" = None
    actions: "ActionRunner | None" = None
    limits: Limits = field(default_factory=Limits)
    settings: WorkerSettings = field(default_factory=WorkerSettings)
    checkpoint: Callable[[str], None] = lambda place: None
    is_workflow: Callable[[str], bool] = lambda name: False
    """Whether clients mean a workflow by this name."""


class Conversations:
    """One a server. Safe to use from any thread."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.profiles = parts.profiles
        self.live = Live()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._database: Database | None = None
        self._reader: Reader | None = None
        self._segments: Segments | None = None
        self._stops: Stops | None = None
        self._worker: Worker | None = None
        self._inbox: Inbox | None = None
        self._live_writer: LiveWriter | None = None
        self._live_rows: LiveRows | None = None

    # Starting and stopping

    def resume(self) -> bool:
        """Go on with conversations that an earlier start left open; whether there are any.

        For the start of a server: a store that does not exist yet is not made.
        """
        if not self._exists():
            return False
        from sqlalchemy import select

        from Middleware.conversations import tables

        row = tables.conversations.c
        with self.database.transaction() as connection:
            found = connection.execute(select(row.id).where(row.phase != "completed").limit(1))
            is_open = found.first() is not None
        if is_open:
            self.work()
        return is_open

    def resume_when_needed(self) -> None:
        """:meth:`resume`, again and again until this process works or stops: another one may begin
        conversations, and be lost. For a thread of its own."""
        told = ""
        while True:
            try:
                if self._worker is not None or self.resume():
                    return
                told = ""
            except MiddlewareError as error:
                why = error.detail or str(error)
                if why != told:
                    logger.warning("conversations cannot be looked for: %s", why)
                told = why
            if self._stopped.wait(LOOKS_FOR_WORK_EVERY_SECONDS):
                return

    def work(self) -> None:
        """Take tasks from now on. Called by the first start or send in any case."""
        with self._lock:
            if self._worker is None:
                self._start_worker()

    def _start_worker(self) -> None:
        from Middleware.conversations.actions import ProfileActions
        from Middleware.conversations.activities import Outside
        from Middleware.conversations.inbox import Inbox
        from Middleware.conversations.live_rows import LiveWriter
        from Middleware.conversations.model import ProfileModel
        from Middleware.conversations.stops import Stops
        from Middleware.conversations.worker import Worker

        database = self._open()
        self._stops = Stops()
        outside = Outside(
            profiles=self._parts.profiles,
            model=self._parts.model or ProfileModel(self._parts.run),
            actions=self._parts.actions or ProfileActions(self._parts.run),
            show=self.live.show,
            changed=self.live.changed,
            cancel=CancelToken(),
            stops=self._stops,
            checkpoint=self._parts.checkpoint,
            max_attempts=self._parts.settings.model_max_attempts,
            retry_pause_seconds=self._parts.settings.retry_pause_seconds,
        )
        worker = Worker(database, outside, self._parts.settings)
        queue = worker.start()
        self._worker = worker
        self._inbox = Inbox(database, queue, self._parts.limits)
        self._live_writer = LiveWriter(database, self.live)
        self._live_writer.start()

    def stop(self) -> None:
        """Durable work is kept: the next start goes on with it."""
        self._stopped.set()
        with self._lock:
            worker, self._worker, self._inbox = self._worker, None, None
            database, self._database = self._database, None
            self._reader = self._segments = None
            writer, self._live_writer, self._live_rows = self._live_writer, None, None
        if writer is not None:
            writer.stop()
        if worker is not None:
            worker.stop()
        if database is not None:
            database.close()

    @property
    def database(self) -> "Database":
        with self._lock:
            return self._open()

    def _open(self) -> "Database":
        if self._database is None:
            from Middleware.conversations.database import Database

            url = self._parts.database_url
            if url.startswith("sqlite:///"):
                Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
            database = Database(url)
            database.migrate()
            self._database = database
        return self._database

    def _exists(self) -> bool:
        url = self._parts.database_url
        return not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).exists()

    @property
    def reader(self) -> "Reader":
        """For all that is only looked at; needs no worker and no engine."""
        if self._reader is None:
            from Middleware.conversations.reading import Reader

            after = self._parts.settings.repair.redispatch_after_seconds
            self._reader = Reader(self.database, after)
        return self._reader

    @property
    def segments(self) -> "Segments":
        """As :attr:`reader`, for doors that speak of responses."""
        if self._segments is None:
            from Middleware.conversations.segments import Segments

            self._segments = Segments(self.database)
        return self._segments

    @property
    def exists(self) -> bool:
        """Whether there can be any conversation: whoever only looks makes no store."""
        return self._database is not None or self._exists()

    @property
    def repairer(self) -> "Repairer":
        self.work()
        assert self._worker is not None
        return self._worker.repairer

    # What comes in

    def start(self, start: "Start") -> "Started | Refusal":
        """Raises UnknownProfile."""
        require_profile(self.profiles, start.profile)
        started = self._accepting().start(start)
        self._hurry()
        return started

    def model(self, name: str) -> Profile | None:
        """The profile that a model's name means (MAP-1); None where it means none, or a workflow
        of the same name, which goes first."""
        name = name.strip().removesuffix(":latest")
        if name not in self.profiles.listed() or self._parts.is_workflow(name):
            return None
        return self.profiles.find(name)

    def models(self) -> tuple[Profile, ...]:
        """Profiles that can be talked to as models; those whose files are broken are left out."""
        found = []
        for name in self.profiles.listed():
            try:
                profile = self.model(name)
            except ConfigError:
                continue
            if profile is not None:
                found.append(profile)
        return tuple(found)

    def options(self, profile: str, given: dict[str, Any]) -> Options:
        """The options of a new conversation: the profile's, where none are given."""
        return Options.parse(given, require_profile(self.profiles, profile).options)

    def send(self, conversation_id: str, send: "Send") -> Receipt | Refusal:
        receipt = self._accepting().send(conversation_id, send)
        self._hurry()
        self.live.changed(conversation_id)
        return receipt

    def cancel(self, conversation_id: str) -> State | Refusal:
        state = self._accepting().cancel(conversation_id)
        self.live.changed(conversation_id)
        return state

    def withdraw(self, segment: "Segment") -> bool:
        """Take back one signal, or stop its turn; False when it is too late. The conversation
        goes on."""
        from Middleware.conversations.withdrawing import withdraw

        self._accepting()
        done = withdraw(self.database, segment.conversation_id, segment.sequence)
        if done and self._stops is not None:
            self._stops.stop(segment.conversation_id)
        self.live.changed(segment.conversation_id)
        return done

    def _hurry(self) -> None:
        worker = self._worker
        if worker is not None:
            worker.hurry()

    def label(self, conversation_id: str, labels: Mapping[str, str]) -> None:
        """Put a client's labels on a conversation."""
        from Middleware.conversations.withdrawing import label

        label(self.database, conversation_id, labels)

    def remove(self, conversation_id: str) -> bool:
        """Forget one that has ended; False while it is open."""
        from Middleware.conversations.withdrawing import remove

        return remove(self.database, conversation_id)

    def _accepting(self) -> "Inbox":
        if self._inbox is None:
            self.work()
        assert self._inbox is not None
        return self._inbox

    # What is waited for

    def live_text(self, state: State) -> tuple[int, str] | None:
        """The attempt that speaks now, and all that it has said of this turn, in whatever process
        it runs; None while no model speaks (MAP-6).
        """
        if state.turn is None or state.phase != "thinking":
            return None
        here = self.live.text_of(state.id, state.turn)
        worker = self._worker
        if worker is not None and state.task_owner == worker.executor:
            return here
        if self._live_rows is None:
            from Middleware.conversations.live_rows import LiveRows

            self._live_rows = LiveRows(self.database)
        elsewhere = self._live_rows.read(state.id, state.turn)
        return max(filter(None, (here, elsewhere)), key=lambda found: found[0], default=None)

    def watch(self, conversation_id: str, seconds: float) -> Iterator[None]:
        """Comes round whenever there may be news, until the time is up: look each time."""
        from time import monotonic

        ends = monotonic() + seconds
        while True:
            mark = self.live.mark(conversation_id)
            yield
            left = ends - monotonic()
            if left <= 0 or self._stopped.is_set():
                return
            self.live.wait(conversation_id, mark, min(left, LOOKS_EVERY_SECONDS))


@contextmanager
def running(parts: Parts) -> Iterator[Conversations]:
    """Conversations that work while the block runs: for commands and tests."""
    conversations = Conversations(parts)
    try:
        yield conversations
    finally:
        conversations.stop()
