"""Vectors of texts: OpenAI's interface and Ollama's (config-files §13.5)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError
from Middleware.core.events import Event
from Middleware.llm.addresses import parse_address
from Middleware.llm.backend import BackendSetup, Kind, ModelRequest, backend_types
from Middleware.llm.credentials import bearer_headers, voice_of
from Middleware.llm.transport import Transport
from Middleware.wire import ollama_embed, openai_embeddings
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.bodies import write_json
from Middleware.wire.embeddings import Embeddings

_SILENCE_SECONDS: Final = 120.0
"""Unless the endpoint's own ``readTimeoutInSeconds`` says otherwise: vectors come quickly."""


@dataclass(frozen=True, slots=True)
class EmbeddingsFormat:
    path: str
    encode: Callable[..., dict[str, Any]]
    parse_reply: Callable[[bytes, int, BackendVoice], Embeddings]


class EmbeddingsBackend:
    """One attempt, never repeated: whoever needs vectors can do without them for a while."""

    format: ClassVar[EmbeddingsFormat]

    def __init__(self, setup: BackendSetup) -> None:
        endpoint = setup.endpoint
        self._file = endpoint.file
        self._name = endpoint.name
        address = parse_address(endpoint.endpoint, self.format.path, file=self._file)
        self._voice = voice_of(endpoint, address)
        silence = endpoint.read_timeout_in_seconds or _SILENCE_SECONDS
        self._transport = Transport(
            self._voice,
            address,
            bearer_headers(endpoint, address, file=self._file),
            replace(setup.limits, silence=silence),
            setup.connections,
        )
        self._model = "" if endpoint.dont_include_model else endpoint.model_name_to_send_to_api

    @property
    def kind(self) -> Kind:
        return "embeddings"

    @property
    def accepts(self) -> frozenset[str]:
        return frozenset()

    def embed(
        self,
        texts: Sequence[str],
        cancel: CancelToken,
        parameters: Mapping[str, Any] | None = None,
    ) -> Embeddings:
        """One vector a text, in the order of the texts; no call without any. ``parameters`` are
        ``dimensions`` and the like. Raises BackendError, or the token's reason.
        """
        if not texts:
            return Embeddings(vectors=())
        body = self.format.encode(texts, model=self._model, parameters=parameters)
        with self._transport.post(write_json(body), cancel) as answer:
            whole = answer.rest()
        return self.format.parse_reply(whole, len(texts), self._voice)

    def complete(self, request: ModelRequest, cancel: CancelToken) -> Iterator[Event]:
        raise ConfigError(
            f"Endpoint {self._name!r} makes vectors of texts and writes none.",
            file=self._file,
            where="apiTypeConfigFileName",
            remedy="Name an endpoint with a chat or text API type in the node.",
        )
        yield


@backend_types.register("openAIEmbeddings")
class OpenAIEmbeddingsBackend(EmbeddingsBackend):
    format = EmbeddingsFormat(
        openai_embeddings.PATH, openai_embeddings.encode_request, openai_embeddings.parse_reply
    )


@backend_types.register("ollamaEmbeddings")
class OllamaEmbeddingsBackend(EmbeddingsBackend):
    format = EmbeddingsFormat(
        ollama_embed.PATH, ollama_embed.encode_request, ollama_embed.parse_reply
    )
