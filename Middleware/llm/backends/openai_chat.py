"""OpenAI chat completions: OpenAI itself, llama.cpp, vLLM, LM Studio, text-generation-webui ..."""

from collections.abc import Iterator
from typing import Any, Final

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import BackendError
from Middleware.core.events import Event, replay
from Middleware.core.messages import Message
from Middleware.llm.addresses import parse_address
from Middleware.llm.backend import BackendSetup, Kind, ModelRequest, backend_types
from Middleware.llm.client_parameters import ClientParameters
from Middleware.llm.credentials import bearer_headers, voice_of
from Middleware.llm.injection import injection_of
from Middleware.llm.transport import Answer, Transport
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.bodies import write_json
from Middleware.wire.framing import SseDecoder
from Middleware.wire.openai_chat_call import MessageRules, encode_messages
from Middleware.wire.openai_chat_stream import StreamParser, looks_whole, parse_reply

_PATH: Final = "/v1/chat/completions"
_PATIENCE_SECONDS: Final = 2.0
"""How long token counts and the end marker may take once the answer itself is complete."""


@backend_types.register("openAIChatCompletion", "openAIApiChatImageSpecific")
class OpenAIChatBackend:
    def __init__(self, setup: BackendSetup) -> None:
        endpoint, api_type = setup.endpoint, setup.api_type
        file = f"Endpoints/{endpoint.name}.json"
        address = parse_address(endpoint.endpoint, _PATH, file=file)
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
        self._stream_key = api_type.stream_property_name
        self._asks_for_usage = api_type.stream_usage and self._stream_key is not None

    @property
    def kind(self) -> Kind:
        return "chat"

    @property
    def accepts(self) -> frozenset[str]:
        return self._client.accepts

    def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
        body = write_json(self._payload(request))
        if request.stream:
            with self._transport.post(body, cancel) as answer:
                yield from stream_events(answer, self._voice)
            return
        with self._transport.post(body, cancel) as answer:
            whole = answer.rest()
        yield from replay(parse_reply(whole, self._voice))

    def _payload(self, request: ModelRequest) -> dict[str, Any]:
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
            payload[self._stream_key] = request.stream
            if request.stream and self._asks_for_usage:
                payload.setdefault("stream_options", {"include_usage": True})
        if request.tools:
            payload["tools"] = request.tools
            if request.tool_choice is not None:
                payload["tool_choice"] = request.tool_choice
        return payload


def stream_events(answer: Answer, voice: BackendVoice) -> Iterator[Event]:
    """Events as their bytes arrive, also when the server sends one JSON text in place of them."""
    data = answer.read()
    while data and data.isspace():
        data = answer.read()
    if looks_whole(data):
        yield from replay(parse_reply(data + answer.rest(), voice))
        return
    decoder, parser, beginning = SseDecoder(), StreamParser(voice), data
    while data:
        for payload in decoder.feed(data):
            yield from parser.feed(payload)
        if parser.done:
            answer.drain()
            break
        data = _late(answer) if parser.complete else answer.read()
    for payload in decoder.close():
        yield from parser.feed(payload)
    if not parser.heard:
        raise voice.no_json(beginning)
    yield from parser.finish()


def _late(answer: Answer) -> bytes:
    """What still comes after the answer is complete. Nothing that goes wrong now can spoil it."""
    answer.hurry(_PATIENCE_SECONDS)
    try:
        return answer.read()
    except BackendError:
        return b""
