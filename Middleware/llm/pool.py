"""The backends of a server: built when first used, built anew when a file behind them changes."""

import threading
from typing import Final

from Middleware.config.files import Snapshot
from Middleware.config.models import ApiType, Endpoint
from Middleware.core.errors import ConfigError
from Middleware.llm import backends as backends
from Middleware.llm.backend import Backend, BackendSetup, backend_types
from Middleware.llm.connections import Connections, TimeLimits

_MOST: Final = 512
"""Backends kept. The oldest is forgotten beyond that; requests that hold it are not disturbed."""

_Key = tuple[int, int, TimeLimits]
_Entry = tuple[Endpoint, ApiType, Backend]


class BackendPool:
    """One a server, shared by all threads."""

    def __init__(self) -> None:
        self._connections = Connections()
        self._backends: dict[_Key, _Entry] = {}
        self._building = threading.Lock()

    def get(self, snapshot: Snapshot, endpoint: Endpoint) -> Backend:
        """The backend of ``endpoint``, the same one until a file of it changes.

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
        return chosen(setup)


def _limits(snapshot: Snapshot, endpoint: Endpoint) -> TimeLimits:
    """The endpoint's own time-outs, else the user's (decisions §6)."""
    user = snapshot.user
    return TimeLimits(
        connect=endpoint.connect_timeout_in_seconds or user.connect_timeout_in_seconds,
        silence=endpoint.read_timeout_in_seconds or user.read_timeout_in_seconds,
    )
