"""The backends of a server: built when first used, built anew when a file behind them changes."""

import threading
from typing import Any, Final, cast

from Middleware.config.files import Snapshot
from Middleware.config.models import ApiType, Endpoint
from Middleware.core.errors import ConfigError
from Middleware.core.gate import Gate
from Middleware.llm import backends as backends
from Middleware.llm.backend import Backend, BackendSetup, backend_types
from Middleware.llm.backends.embeddings import EmbeddingsBackend
from Middleware.llm.circuit import Circuits
from Middleware.llm.connections import Connections, TimeLimits
from Middleware.llm.guarded import GuardedBackend, Guards
from Middleware.llm.retries import RetryPolicy

_MOST: Final = 512
"""Backends kept. The oldest is forgotten beyond that; requests that hold it are not disturbed."""

_WAIT_SECONDS: Final = 900.0
"""How long a call waits for a slot, unless ``--concurrency-timeout`` says otherwise."""

_Key = tuple[int, int, TimeLimits]
_Entry = tuple[Endpoint, ApiType, Backend]


class BackendPool:
    """One a server, shared by all threads."""

    def __init__(self, *, slots: int = 0, wait_seconds: float = _WAIT_SECONDS) -> None:
        """``slots``: calls that an endpoint gets at once, where its file does not say how many
        (``--concurrency-level endpoint``); 0: as many as come.
        """
        self._slots = slots
        self._wait_seconds = wait_seconds
        self._connections = Connections()
        self._circuits = Circuits()
        self._gates: dict[str, Gate] = {}
        self._backends: dict[_Key, _Entry] = {}
        self._building = threading.Lock()

    def get(self, snapshot: Snapshot, endpoint: Endpoint, asker: object = None) -> Backend:
        """The backend of ``endpoint``, the same one until a file of it changes.

        Whoever asks gets the same; what takes the place of this pool in workflow tests tells
        nodes apart by ``asker``.
        Raises ConfigError for an unknown API type or an endpoint that cannot work.
        """
        api_type = snapshot.api_type(endpoint.api_type_config_file_name)
        limits = _limits(snapshot, endpoint)
        # Values that files are parsed to are replaced, never changed, so identity tells versions
        # apart; the entry keeps them alive, so that no id is used twice.
        key = (id(endpoint), id(api_type), limits)
        entry = self._backends.get(key)
        if entry is None:
            with self._building:
                entry = self._backends.get(key)
                if entry is None:
                    backend = self._build(endpoint, api_type, limits)
                    entry = self._backends[key] = (endpoint, api_type, backend)
                    if len(self._backends) > _MOST:
                        del self._backends[next(iter(self._backends))]
        return entry[2]

    def embedder(self, snapshot: Snapshot, endpoint: Endpoint) -> EmbeddingsBackend:
        """What makes vectors of texts. Raises ConfigError for an endpoint that cannot."""
        backend = self.get(snapshot, endpoint)
        if isinstance(backend, EmbeddingsBackend):
            return backend
        raise ConfigError(
            f"Endpoint {endpoint.name!r} makes no vectors of texts.",
            file=endpoint.file,
            where="apiTypeConfigFileName",
            remedy="Name an endpoint whose API type is one for embeddings.",
        )

    def close(self) -> None:
        """Close idle connections. Those in use close when their answer ends."""
        self._connections.close()

    def _build(self, endpoint: Endpoint, api_type: ApiType, limits: TimeLimits) -> Backend:
        try:
            chosen = backend_types.get(api_type.type)
        except ConfigError as error:
            raise ConfigError(
                error.problem,
                file=f"ApiTypes/{api_type.name}.json",
                where="type",
                remedy=error.remedy,
            ) from error
        setup = BackendSetup(
            endpoint=endpoint, api_type=api_type, connections=self._connections, limits=limits
        )
        return self._guarded(chosen(setup), endpoint)

    def _guarded(self, backend: Any, endpoint: Endpoint) -> Backend:
        """Calls of embeddings are neither repeated nor counted (config-files §13.5)."""
        origin = getattr(backend, "origin", None)
        gate = self._gate_of(endpoint)
        if isinstance(backend, EmbeddingsBackend) or (origin is None and gate is None):
            return cast(Backend, backend)
        # With somebody to take over, there is no time to be lost.
        times = 0 if endpoint.backup_endpoint_name or origin is None else endpoint.retries
        guards = Guards(
            retries=RetryPolicy(times),
            circuit=self._circuits.of(origin) if origin else None,
            gate=gate,
        )
        return cast(Backend, GuardedBackend(backend, endpoint.name, guards))

    def _gate_of(self, endpoint: Endpoint) -> Gate | None:
        """Kept by file and size, so that an edit of the file frees nobody's slot."""
        slots = endpoint.max_concurrent_requests or self._slots
        if slots <= 0:
            return None
        gate = self._gates.get(endpoint.file)
        if gate is None or gate.slots != slots:
            gate = self._gates[endpoint.file] = Gate(slots, self._wait_seconds)
        return gate


def _limits(snapshot: Snapshot, endpoint: Endpoint) -> TimeLimits:
    """The endpoint's own time-outs, else the user's (decisions §6)."""
    user = snapshot.user
    return TimeLimits(
        connect=endpoint.connect_timeout_in_seconds or user.connect_timeout_in_seconds,
        silence=endpoint.read_timeout_in_seconds or user.read_timeout_in_seconds,
    )
