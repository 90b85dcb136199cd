"""What the backends have in common whose formats lie in ``wire/`` with both halves: one request,
one answer, read while it arrives."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from Middleware.config.models import Endpoint
from Middleware.core.cancellation import CancelToken
from Middleware.core.events import Event
from Middleware.llm.addresses import Address, parse_address
from Middleware.llm.backend import BackendSetup, Kind, ModelRequest
from Middleware.llm.client_parameters import with_fitting_length
from Middleware.llm.connections import Origin
from Middleware.llm.credentials import bearer_headers, voice_of
from Middleware.llm.injection import injection_of
from Middleware.llm.reading import Reading, stream_events, whole_events
from Middleware.llm.structured_output import constrain
from Middleware.llm.transport import Transport
from Middleware.wire.bodies import write_json
from Middleware.wire.model_call import ModelCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How one kind of model server is spoken to."""

    kind: Kind
    path: str
    stream_path: str = ""
    """Where streams are asked for, if that is not ``path``."""
    accepts: frozenset[str]
    """Names of client parameters that ``encode`` knows."""
    encode: Callable[[ModelCall], dict[str, Any]]
    reading: Reading


class HttpBackend:
    """One endpoint of one format. Subclasses say which."""

    format: ClassVar[Format]
    takes_image_addresses: ClassVar[bool] = True
    """Whether images may be web addresses; otherwise they must come with their data."""

    def __init__(self, setup: BackendSetup) -> None:
        endpoint, api_type = setup.endpoint, setup.api_type
        self.endpoint = endpoint
        self.file = endpoint.file
        address = parse_address(endpoint.endpoint, self.format.path, file=self.file)
        self.origin: Origin = address.origin
        self.voice = voice_of(endpoint, address)
        self._setup = setup
        self._transport = self.transport_to(self.format.path)
        streams_to = self.format.stream_path
        self._streams = self.transport_to(streams_to) if streams_to else self._transport
        self._model = "" if endpoint.dont_include_model else endpoint.model_name_to_send_to_api
        self._inject = injection_of(endpoint) if self.format.kind == "chat" else None
        self._rule = api_type.structured_output
        self._length_key = api_type.max_new_tokens_property_name
        self._can_stream = api_type.stream_property_name is not None
        self._always_streams = api_type.always_stream
        self._include_usage = api_type.stream_usage

    @property
    def kind(self) -> Kind:
        return self.format.kind

    @property
    def accepts(self) -> frozenset[str]:
        return self.format.accepts

    def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
        stream = self._can_stream and (request.stream or self._always_streams)
        body = write_json(self.payload(request, stream=stream))
        reading = self.format.reading
        with (self._streams if stream else self._transport).post(body, cancel) as answer:
            if stream:
                yield from stream_events(answer, self.voice, reading)
                return
            events = whole_events(answer, self.voice, reading)
        yield from events

    def transport_to(self, path: str) -> Transport:
        """Posts to another path of the same server."""
        address = parse_address(self.endpoint.endpoint, path, file=self.file)
        headers = self.headers(self.endpoint, address)
        setup = self._setup
        return Transport(self.voice, address, headers, setup.limits, setup.connections)

    def headers(self, endpoint: Endpoint, address: Address) -> dict[str, str]:
        return bearer_headers(endpoint, address, file=self.file)

    def payload(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        """The body of a request, before it is written."""
        client = request.client_parameters
        if client:
            client = with_fitting_length(request, self.endpoint, self._length_key)
        body = self.format.encode(
            ModelCall(
                model=self._model,
                messages=self._messages(request),
                prompt=_prompt(request),
                images=request.images,
                parameters=request.parameters,
                client_parameters=client,
                tools=request.tools,
                tool_choice=request.tool_choice,
                stream=stream,
                include_usage=self._include_usage,
            )
        )
        if request.schema is not None and self._rule is not None:
            constrain(body, self._rule, request.schema, self.endpoint.name)
        return body

    def _messages(self, request: ModelRequest) -> Any:
        messages = request.messages
        return self._inject(messages) if self._inject else messages


def _prompt(request: ModelRequest) -> str:
    """Nodes that know nothing of text types have messages only; these are told one after the
    other, since there is no template at hand."""
    if request.prompt is not None:
        return request.prompt
    return "\n\n".join(message.content for message in request.messages if message.content)
