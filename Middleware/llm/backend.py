"""What the rest of the program may ask of a model server, whichever vendor it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from Middleware.config.models import ApiType, Endpoint
from Middleware.core.cancellation import CancelToken
from Middleware.core.events import Event
from Middleware.core.messages import Message
from Middleware.core.registry import Registry
from Middleware.llm.connections import Connections, TimeLimits

Kind: TypeAlias = Literal["chat", "text", "embeddings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One call of a model. Chat types send ``messages``, text types send ``prompt``."""

    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Generation fields under the names of the endpoint's API type, as
    ``presets.generation_parameters`` makes them: without the stream key."""
    client_parameters: Mapping[str, Any] = field(default_factory=dict)
    """Sampling fields of the client's request, under OpenAI's names. Those that the backend
    ``accepts`` win over ``parameters``; the others are left out without a word."""
    stream: bool = False
    tools: tuple[Mapping[str, Any], ...] = ()
    """In OpenAI's function format."""
    tool_choice: str | Mapping[str, Any] | None = None
    images: tuple[str, ...] = ()
    """Of text types; chat types find theirs in the messages."""
    schema: Mapping[str, Any] | None = None
    """A JSON Schema that the answer is held to, where the API type can say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSetup:
    """What a backend is built from. It lives as long as these values stay the same."""

    endpoint: Endpoint
    api_type: ApiType
    connections: Connections
    limits: TimeLimits


class Backend(Protocol):
    """One endpoint of one API type; serves any number of threads at once."""

    @property
    def kind(self) -> Kind: ...

    @property
    def accepts(self) -> frozenset[str]:
        """The names of client parameters that it understands."""
        ...

    def __init__(self, setup: BackendSetup) -> None:
        """Raises ConfigError when the endpoint's file cannot work."""
        ...

    def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
        """The answer as events, ending with exactly one Finish, whose usage is None unless the
        backend reported it. Raises BackendError, or the token's reason.

        Closing the iterator before its end drops the connection at once.
        """
        ...


backend_types: Registry[type[Backend]] = Registry("API type")
