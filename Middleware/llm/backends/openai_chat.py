"""OpenAI chat completions: OpenAI itself, llama.cpp, vLLM, LM Studio, text-generation-webui ..."""

from collections.abc import Iterator
from typing import Any, Final

from Middleware.core.cancellation import CancelToken
from Middleware.core.events import Event
from Middleware.core.messages import Message
from Middleware.llm.addresses import parse_address
from Middleware.llm.backend import BackendSetup, Kind, ModelRequest, backend_types
from Middleware.llm.client_parameters import ClientParameters
from Middleware.llm.credentials import bearer_headers, voice_of
from Middleware.llm.injection import injection_of
from Middleware.llm.reading import Reading, stream_events, whole_events
from Middleware.llm.structured_output import constrain
from Middleware.llm.transport import Transport
from Middleware.wire.bodies import write_json
from Middleware.wire.openai_chat_call import MessageRules, encode_messages
from Middleware.wire.openai_chat_stream import StreamParser, parse_reply

_PATH: Final = "/v1/chat/completions"
_READING: Final = Reading(parser=StreamParser, parse_reply=parse_reply)


@backend_types.register("openAIChatCompletion", "openAIApiChatImageSpecific")
class OpenAIChatBackend:
    def __init__(self, setup: BackendSetup) -> None:
        endpoint, api_type = setup.endpoint, setup.api_type
        file = endpoint.file
        address = parse_address(endpoint.endpoint, _PATH, file=file)
        self.origin = address.origin
        self._voice = voice_of(endpoint, address)
        self._transport = Transport(
            self._voice,
            address,
            bearer_headers(endpoint, address, file=file),
            setup.limits,
            setup.connections,
        )
        self._model = (
            {} if endpoint.dont_include_model else {"model": endpoint.model_name_to_send_to_api}
        )
        self._rules = MessageRules(endpoint.supports_developer_role, endpoint.strict_content)
        self._inject = injection_of(endpoint)
        self._client = ClientParameters(endpoint, api_type)
        self._name = endpoint.name
        self._rule = api_type.structured_output
        self._stream_key = api_type.stream_property_name
        self._always_streams = api_type.always_stream and self._stream_key is not None
        self._asks_for_usage = api_type.stream_usage and self._stream_key is not None

    @property
    def kind(self) -> Kind:
        return "chat"

    @property
    def accepts(self) -> frozenset[str]:
        return self._client.accepts

    def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
        stream = request.stream or self._always_streams
        body = write_json(self._payload(request, stream=stream))
        if stream:
            with self._transport.post(body, cancel) as answer:
                yield from stream_events(answer, self._voice, _READING)
            return
        with self._transport.post(body, cancel) as answer:
            events = whole_events(answer, self._voice, _READING)
        yield from events

    def _payload(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        """In the order of precedence of config-files §13.1: parameters win over what is ours."""
        messages = request.messages
        if not messages and request.prompt:
            messages = (Message("user", request.prompt),)
        payload: dict[str, Any] = {
            **self._model,
            "messages": encode_messages(
                self._inject(messages) if self._inject else messages, self._rules
            ),
            **request.parameters,
        }
        if request.client_parameters:
            self._client.apply(payload, request)
        if self._stream_key is not None:
            payload[self._stream_key] = stream
            if stream and self._asks_for_usage:
                payload.setdefault("stream_options", {"include_usage": True})
        if request.tools:
            payload["tools"] = request.tools
            if request.tool_choice is not None:
                payload["tool_choice"] = request.tool_choice
        if request.schema is not None and self._rule is not None:
            constrain(payload, self._rule, request.schema, self._name)
        return payload
