"""Stands in for the RequestRunner: says what a script tells it to, and remembers what was asked."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from Middleware.core.cancellation import CancelToken
from Middleware.core.events import Event, Finish, TextDelta
from Middleware.core.messages import ChatRequest
from Middleware.workflows.managers.request_runner import RequestInfo

DEADLINE_SECONDS = 10


@dataclass
class Turn:
    """One request, as the script sees it."""

    asked: ChatRequest
    door: str
    request_id: str
    cancel: CancelToken
    discussion_id: str | None
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the run is over, however it ended."""
    outcome: str = "running"
    """``finished``, ``closed`` (the generator was closed), or the class of the error."""
    rest_done: threading.Event = field(default_factory=threading.Event)
    rest_thread: str = ""

    def say(self, text: str) -> Event:
        return TextDelta(text)

    def silence(self, seconds: float = DEADLINE_SECONDS) -> None:
        """Wait as a backend call does: for long, but not once the run is cancelled."""
        self.cancel.wait(seconds)


Script = Callable[[Turn], Iterator[Event]]


def echo(turn: Turn) -> Iterator[Event]:
    for word in turn.asked.messages[-1].content.split():
        yield TextDelta(word)
    yield Finish()


def says(*events: Event | Exception) -> Script:
    """A run of these events, which fails where an exception stands among them."""

    def script(turn: Turn) -> Iterator[Event]:
        for event in events:
            if isinstance(event, Exception):
                raise event
            yield event

    return script


@dataclass
class FakeAnswer:
    model: str
    events: Iterator[Event]
    heartbeat_seconds: float
    conversation_id: str | None
    turn: Turn
    ignored_fields: tuple[str, ...]
    rest_script: Callable[[Turn], None] | None

    def has_rest(self) -> bool:
        return self.rest_script is not None

    def clamped(self) -> int:
        return 0

    def ignored(self) -> tuple[str, ...]:
        return self.ignored_fields

    def rest(self) -> None:
        self.turn.rest_thread = threading.current_thread().name
        try:
            for _ in self.events:
                raise AssertionError("an event after Finish")
            if self.rest_script is not None:
                self.rest_script(self.turn)
        finally:
            self.turn.rest_done.set()


@dataclass
class FakeRunner:
    """``script`` is run for every request; ``refusal`` is raised before the run begins."""

    script: Script = echo
    refusal: Exception | None = None
    rest: Callable[[Turn], None] | None = None
    heartbeat_seconds: float = 30.0
    conversation_id: str | None = None
    ignored: tuple[str, ...] = ()
    turns: list[Turn] = field(default_factory=list)
    answers: list[FakeAnswer] = field(default_factory=list)
    """Kept, so that no run ends because nobody holds it any more."""
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released once for each request."""

    def answer(self, asked: ChatRequest, info: RequestInfo) -> FakeAnswer:
        turn = Turn(asked, info.door, info.request_id, info.cancel, info.conversation_id)
        self.turns.append(turn)
        self.arrived.release()
        if self.refusal is not None:
            raise self.refusal
        answer = FakeAnswer(
            model="alice:fake",
            events=self._events(turn),
            heartbeat_seconds=self.heartbeat_seconds,
            conversation_id=self.conversation_id,
            turn=turn,
            ignored_fields=(*self.ignored, *asked.unknown_fields),
            rest_script=self.rest,
        )
        self.answers.append(answer)
        return answer

    def _events(self, turn: Turn) -> Iterator[Event]:
        try:
            yield from self.script(turn)
            turn.outcome = "finished"
        except BaseException as error:
            turn.outcome = "closed" if isinstance(error, GeneratorExit) else type(error).__name__
            raise
        finally:
            turn.ended.set()

    @property
    def turn(self) -> Turn:
        """The only one so far, waited for."""
        assert self.arrived.acquire(timeout=DEADLINE_SECONDS)
        self.arrived.release()
        return self.turns[-1]
