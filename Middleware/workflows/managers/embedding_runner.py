"""Vectors for clients: whose endpoint makes them. Doors talk to this."""

from typing import Protocol, runtime_checkable

from Middleware.config.selection import select
from Middleware.config.store import ConfigStore
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError, KeyNotAllowed, NoEmbeddings
from Middleware.core.messages import Caller
from Middleware.llm.pool import BackendPool
from Middleware.wire.embeddings import Embeddings, EmbeddingsRequest
from Middleware.workflows.managers.request_runner import RequestInfo


@runtime_checkable
class Embedder(Protocol):
    """A backend that makes vectors."""

    def embed(
        self,
        texts: tuple[str, ...],
        cancel: CancelToken,
        parameters: dict[str, object] | None = None,
    ) -> Embeddings: ...


class EmbeddingRunner:
    """One a server."""

    def __init__(self, store: ConfigStore, backends: BackendPool) -> None:
        self._store = store
        self._backends = backends

    def embed(self, asked: EmbeddingsRequest, info: RequestInfo) -> Embeddings:
        """One vector a text. Raises NoEmbeddings where the user has no model for it, UnknownModel,
        ConfigError, BackendError, and the reason of the request's token.
        """
        config = self._store.snapshot(self._user(asked.model, info.caller))
        name = config.user.embeddings_endpoint
        if not name:
            raise NoEmbeddings(config.user.name)
        backend = self._backends.get(config, config.endpoint(name))
        if not isinstance(backend, Embedder):
            raise ConfigError(
                f"Endpoint {name!r} makes no vectors.",
                file=f"Users/{config.user.name}.json",
                where="embeddingsEndpoint",
                remedy="Name an endpoint whose API type is one for embeddings.",
            )
        return backend.embed(asked.texts, info.cancel, dict(asked.parameters))

    def _user(self, model: str, caller: Caller | None) -> str:
        """Which user's endpoint. Clients insist on names like ``text-embedding-3-small``, so the
        rest of the name plays no part: with one user any will do.
        """
        users = self._store.user_names
        named = model.strip().removesuffix(":latest").partition(":")[0]
        if named not in users:
            named = caller.user if caller is not None else ""
        if named not in users:
            named = users[0] if len(users) == 1 or not model else select(self._store, model).user
        if caller is not None and caller.user not in ("", named):
            raise KeyNotAllowed(f"This API key may not use the models of {named!r}.")
        return named
