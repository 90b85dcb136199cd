"""Backup endpoints (config-files §14): who takes over, and whether it may.

Who fails over is the node: there the prompt is built, so that a backup of another kind gets a real
prompt, and its own clamp, cleaning and preset (Surprises 8 and 9).
"""

import ipaddress
import logging
import socket
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from Middleware.config.files import Snapshot
from Middleware.config.models import Endpoint
from Middleware.core.errors import ConfigError

logger = logging.getLogger(__name__)

Resolver: TypeAlias = Callable[[str], Iterable[str]]
"""Name of a host -> its numeric addresses. Raises OSError or UnicodeError."""


@dataclass(frozen=True, slots=True)
class Backup:
    """Names, as a node would write them. No preset: the one that the node names."""

    endpoint: str
    preset: str | None


def _addresses(host: str) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def backup_of(
    config: Snapshot,
    failed: Endpoint,
    tried: Collection[str],
    *,
    resolver: Resolver = _addresses,
) -> Backup | None:
    """Who stands in for ``failed``; None when it names nobody.

    ``tried`` are the files of the endpoints that have failed before it. Raises ConfigError for
    a chain that leads back to one of them, and for a backup outside of the local network that
    does not say that it may be used.
    """
    name = failed.backup_endpoint_name
    if not name:
        return None
    backup = config.endpoint(name)
    if backup.file == failed.file or backup.file in tried:
        raise ConfigError(
            f"The backups of endpoint {failed.name!r} lead in a circle, back to {backup.name!r}.",
            file=failed.file,
            where="backupEndpointName",
            remedy="Let the last one of the chain name none.",
        )
    if not backup.allow_remote_backup and leads_outside(backup.endpoint, resolver):
        raise ConfigError(
            f"Endpoint {failed.name!r} has failed, and its backup {backup.name!r} lies outside of "
            "the local network.",
            file=backup.file,
            where="allowRemoteBackup",
            remedy="Set it to true if conversations may be sent there.",
        )
    return Backup(name, failed.backup_preset_name or None)


def leads_outside(url: str, resolver: Resolver = _addresses) -> bool:
    """Whether a base URL leads to a public address, or to a name that has one. Endpoints without
    an address, and names that nobody knows, lead nowhere.
    """
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    if not host or host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        return _is_public(host)
    except ValueError:
        pass
    try:
        return any(_is_public(address) for address in resolver(host))
    except (OSError, UnicodeError):
        logger.warning("The host of a backup endpoint is not known; it is tried all the same.")
        return False


def _is_public(address: str) -> bool:
    """Raises ValueError for what is no address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    # Shared address space (100.64/10, of VPN meshes and of providers) is none of these.
    return not (ip.is_loopback or ip.is_private or ip.is_link_local)
