"""Who may come in: keys (decisions §8), and where a server without keys may listen."""

import hashlib
import hmac
import ipaddress
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from Middleware.config.user import User
from Middleware.core.errors import ConfigError, InvalidKey, MiddlewareError
from Middleware.core.messages import Caller

logger = logging.getLogger(__name__)

ENVIRON_CALLER = "headrace.caller"
"""The :class:`Caller` of a request; None when no keys are demanded."""
OPEN_PATHS = frozenset({"/", "/health"})
"""Probes of clients and load balancers; they tell strangers nothing."""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All keys that are accepted, as SHA-256 digests."""

    keys: tuple[tuple[bytes, Caller], ...] = ()

    def find(self, presented: str) -> Caller | None:
        """Takes the same time whichever key fits, or none."""
        digest = _digest(presented.encode("latin-1", "replace"))
        found = None
        for known, caller in self.keys:
            if hmac.compare_digest(known, digest):
                found = caller
        return found


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _user_keys(user: User) -> Iterator[tuple[bytes, Caller]]:
    for number, key in enumerate(user.api_keys, 1):
        digest = bytes.fromhex(key.sha256) if key.sha256 else _digest(key.key.encode())
        yield digest, Caller(user=user.name, key_name=key.name or f"key {number}")


class Keys:
    """The keys of now: those of the user files, which may change while we run, and one more.

    ``users`` is asked again every ``look_again_seconds``; while it fails, the keys known last
    stay.
    """

    def __init__(
        self,
        users: Callable[[], Iterable[User]],
        *,
        extra_key: str | None = None,
        off: bool = False,
        look_again_seconds: float = 0.5,
    ) -> None:
        self._users = users
        self._extra = (
            ((_digest(extra_key.encode()), Caller(user="", key_name="--api-key")),)
            if extra_key
            else ()
        )
        self._off = off
        self._ring: KeyRing | None = None
        self._seen: tuple[User, ...] = ()
        self._look_again_seconds = look_again_seconds
        self._look_again = 0.0

    def admit(self, environ: Mapping[str, Any]) -> Caller | None:
        """The caller; None when no keys are demanded. Raises InvalidKey."""
        if self._off:
            return None
        ring = self.ring()
        if not ring.keys:
            return None
        presented = presented_keys(environ)
        for key in presented:
            caller = ring.find(key)
            if caller is not None:
                return caller
        if presented:
            raise InvalidKey("This API key is not known here.")
        raise InvalidKey(
            "An API key is needed: send it as `Authorization: Bearer ...` or as `x-api-key`."
        )

    def ring(self) -> KeyRing:
        now = time.monotonic()
        if self._ring is None or now >= self._look_again:
            self._refresh()
            self._look_again = now + self._look_again_seconds
        assert self._ring is not None
        return self._ring

    def _refresh(self) -> None:
        try:
            seen = tuple(self._users())
        except MiddlewareError as error:
            if self._ring is None:
                raise
            logger.warning("the keys known last stay in use: %s", error.message)
            return
        if self._ring is not None and list(map(id, seen)) == list(map(id, self._seen)):
            return
        found = (key for user in seen for key in _user_keys(user))
        self._ring, self._seen = KeyRing((*self._extra, *found)), seen


def presented_keys(environ: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys in either header, on every door (clients.md A5)."""
    scheme, _, bearer = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    keys = (
        bearer.strip() if scheme.lower() == "bearer" else "",
        environ.get("HTTP_X_API_KEY", "").strip(),
    )
    return tuple(key for key in keys if key)


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refuse_open_server(host: str, keys: Keys, *, no_auth: bool) -> None:
    """Raise ConfigError when strangers could use the server without a key."""
    if is_loopback(host) or no_auth or keys.ring().keys:
        return
    raise ConfigError(
        f"Listening on {host} lets other machines in, and no API key is set.",
        remedy="Set `apiKeys` in the user file or give --api-key KEY; or give --no-auth if "
        "everybody who can reach this machine may use it.",
    )
