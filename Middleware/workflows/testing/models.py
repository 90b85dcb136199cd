"""What stands in for the models of nodes in a test, and what listens to them for a new one."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from Middleware.config.files import Snapshot
from Middleware.config.models import Endpoint
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError, WorkflowError
from Middleware.core.events import Event, ReplyBuilder
from Middleware.core.messages import Message
from Middleware.llm.backend import Backend, Kind, ModelRequest
from Middleware.llm.backends.scripted import spoken
from Middleware.wire.backend_errors import BackendVoice
from Middleware.workflows.models.request_scope import Backends
from Middleware.workflows.models.workflow import Node, Workflow
from Middleware.workflows.output.text_filter import close
from Middleware.workflows.testing.files import FakeReply

EVERY_OTHER = "*"
"""In the replies of a test: nodes that are not named."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a node's model."""

    workflow: str
    node_id: str
    node_name: str
    request: ModelRequest
    said: ReplyBuilder
    """The answer; it grows as long as the call lasts."""

    def is_of(self, name: str) -> bool:
        return name in names_of(self.workflow, self.node_id, self.node_name)

    @property
    def prompt(self) -> str:
        """All that was sent, as one text."""
        return prompt_text(self.request.messages, self.request.prompt)


def names_of(workflow: str, node_id: str, node_name: str) -> tuple[str, ...]:
    """What a test may call a node; the first is the most exact."""
    return (f"{workflow}/{node_id}", f"{workflow}/{node_name}", node_id, node_name)


def prompt_text(messages: Sequence[Message], prompt: str | None) -> str:
    """Messages one below the other; a text for a text API as it is."""
    return prompt if prompt is not None else "\n\n".join(each.content for each in messages)


@dataclass(frozen=True, slots=True)
class _Place:
    """A node that calls a model."""

    workflow: str
    node_id: str
    node_name: str

    @property
    def names(self) -> tuple[str, ...]:
        return names_of(self.workflow, self.node_id, self.node_name)


class StandIns(ABC):
    """Stands where the pool of backends stands, and keeps every call."""

    def __init__(self, real: Backends) -> None:
        self._real = real
        self._lock = threading.Lock()
        self._backends: dict[tuple[_Place, int], _NodeModel] = {}
        self.calls: list[Call] = []
        """In the order in which they began."""

    def get(self, snapshot: Snapshot, endpoint: Endpoint, asker: object = None) -> Backend:
        match asker:
            case (Workflow() as workflow, Node() as node):
                place = _Place(workflow.label, node.id, node.name)
            case _:
                raise WorkflowError("a model was asked for by something that is no node.")
        key = (place, id(endpoint))
        with self._lock:
            if key not in self._backends:
                self._backends[key] = self._model(snapshot, endpoint, place)
            return self._backends[key]

    def begin(self, place: _Place, request: ModelRequest) -> ReplyBuilder:
        """A call begins: what takes its answer."""
        call = Call(place.workflow, place.node_id, place.node_name, request, ReplyBuilder())
        with self._lock:
            self.calls.append(call)
        return call.said

    @abstractmethod
    def _model(self, snapshot: Snapshot, endpoint: Endpoint, place: _Place) -> "_NodeModel":
        """The backend of a node on an endpoint."""


class FakeModels(StandIns):
    """Says what the test gives: no model server is called, and none has to be there."""

    def __init__(self, real: Backends, replies: Mapping[str, tuple[FakeReply, ...]]) -> None:
        super().__init__(real)
        self._replies = replies
        self._left: dict[_Place, list[FakeReply]] = {}
        self.silent: list[str] = []
        """Nodes that called a model although the test has no reply for them."""

    def _model(self, snapshot: Snapshot, endpoint: Endpoint, place: _Place) -> "_NodeModel":
        kind: Kind = "chat"
        accepts: frozenset[str] = frozenset()
        try:
            real = self._real.get(snapshot, endpoint)
            kind, accepts = real.kind, real.accepts
        except ConfigError:
            # An API type that cannot be used here, or a key that is not set: nobody is called.
            pass
        voice = BackendVoice(endpoint.name)

        def answer(request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
            return spoken(self._next(place).scripted(), request, voice, cancel)

        return _NodeModel(self, place, kind, accepts, answer)

    def _next(self, place: _Place) -> FakeReply:
        with self._lock:
            left = self._left.get(place)
            if left is None:
                names = (*place.names, EVERY_OTHER)
                given = next((self._replies[name] for name in names if name in self._replies), ())
                left = self._left[place] = list(given)
            if not left:
                self.silent.append(place.names[1])
                raise WorkflowError("the test has no reply for the model of this node.")
            return left[0] if len(left) == 1 else left.pop(0)


class HeardModels(StandIns):
    """Passes calls on to the real models."""

    def _model(self, snapshot: Snapshot, endpoint: Endpoint, place: _Place) -> "_NodeModel":
        real = self._real.get(snapshot, endpoint)
        return _NodeModel(self, place, real.kind, real.accepts, real.complete)


@dataclass(frozen=True, slots=True, eq=False)
class _NodeModel:
    """The backend of one node."""

    models: StandIns
    place: _Place
    kind: Kind
    accepts: frozenset[str]
    answer: Callable[[ModelRequest, CancelToken], Iterator[Event]]

    def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
        said = self.models.begin(self.place, request)
        return _kept(self.answer(request, cancel), said)


def _kept(events: Iterator[Event], said: ReplyBuilder) -> Iterator[Event]:
    try:
        for event in events:
            said.add(event)
            yield event
    finally:
        close(events)
