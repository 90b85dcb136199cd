"""What doors need from below, and what delivery needs from doors."""

from collections.abc import Iterator
from typing import Protocol

from Middleware.core.errors import MiddlewareError
from Middleware.core.events import Event, Reply
from Middleware.core.messages import ChatRequest
from Middleware.workflows.managers.request_runner import RequestInfo


class Answer(Protocol):
    """One request being answered."""

    @property
    def model(self) -> str:
        """The name that the response carries."""
        ...

    @property
    def events(self) -> Iterator[Event]:
        """The same iterator each time. Raises MiddlewareError. What comes after the one Finish
        belongs to :meth:`rest`.
        """
        ...

    @property
    def heartbeat_seconds(self) -> float:
        """After how much silence a stream gets a sign of life; 0 or less: never."""
        ...

    @property
    def conversation_id(self) -> str | None: ...

    def has_rest(self) -> bool:
        """Asked after Finish: whether nodes are left to run."""
        ...

    def clamped(self) -> int:
        """How many messages the context clamp has left out so far. Called from any thread."""
        ...

    def ignored(self) -> tuple[str, ...]:
        """Names of request fields that nobody has used so far. Called from any thread."""
        ...

    def rest(self) -> None:
        """Runs what comes after Finish, nodes or only clean-up; called once after an answer that
        was sent completely. Does not raise.
        """
        ...


class Answers(Protocol):
    """Answers requests: the RequestRunner, or a fake."""

    def answer(self, asked: ChatRequest, info: RequestInfo) -> Answer:
        """Raises what can be known before the run begins: UnknownModel, ConfigError."""
        ...


class Encoder(Protocol):
    """Writes one answer in the format of one door. Called from one thread at a time."""

    def event(self, event: Event) -> bytes:
        """The frames of one event, the end marker included when it is Finish; may be empty."""
        ...

    def heartbeat(self) -> bytes:
        """A sign of life that adds nothing to the answer."""
        ...

    def failure(self, error: MiddlewareError) -> bytes:
        """The error frame of a stream that has begun, then the end marker."""
        ...

    def reply(self, reply: Reply) -> bytes:
        """The body of an answer that is not streamed."""
        ...


class AnswerFormat(Protocol):
    """One door's way to write answers; shared by all its requests."""

    @property
    def name(self) -> str:
        """The door's name in the run log and for nodes that care (front-doors §1)."""
        ...

    @property
    def stream_type(self) -> str:
        """Content-Type of streams."""
        ...

    def encoder(self, asked: ChatRequest, *, request_id: str, model: str) -> Encoder: ...

    def error_body(self, error: MiddlewareError) -> bytes:
        """The body of an error answer, before the first byte of a stream."""
        ...
