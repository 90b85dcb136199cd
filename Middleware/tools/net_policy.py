"""Which addresses may be called (memory-and-state §22.1).

The table is our own, so that it does not change with the version of Python. A name is resolved
once, here, and what is connected to is one of the addresses that were looked at: a name that
answers differently the second time cannot lead anywhere else.
"""

import ipaddress
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias

from Middleware.core.cancellation import CancelToken

Address: TypeAlias = IPv4Address | IPv6Address
Resolver: TypeAlias = Callable[[str, int], Iterable[str]]
"""Host and port -> numeric addresses. Raises OSError or UnicodeError."""


class AddressBlocked(Exception):
    """The text is for the person who runs the workflow; it never quotes what was fetched."""


# The first row that an address is in tells why it may not be called.
_IPV4: Final = tuple(
    (label, IPv4Network(network))
    for label, network in (
        ("loopback", "127.0.0.0/8"),
        ("link-local", "169.254.0.0/16"),
        ("unspecified", "0.0.0.0/32"),
        ("multicast", "224.0.0.0/4"),
        ("reserved", "240.0.0.0/4"),
        ("private", "0.0.0.0/8"),
        ("private", "10.0.0.0/8"),
        ("private", "172.16.0.0/12"),
        ("private", "192.168.0.0/16"),
        ("private", "192.0.0.0/24"),
        ("private", "192.0.2.0/24"),
        ("private", "198.18.0.0/15"),
        ("private", "198.51.100.0/24"),
        ("private", "203.0.113.0/24"),
        ("non-global", "100.64.0.0/10"),
        ("non-global", "192.88.99.0/24"),
    )
)
_IPV6: Final = tuple(
    (label, IPv6Network(network))
    for label, network in (
        ("loopback", "::1/128"),
        ("link-local", "fe80::/10"),
        ("unspecified", "::/128"),
        ("multicast", "ff00::/8"),
        ("private", "fc00::/7"),
        ("private", "fec0::/10"),
        ("private", "2001:db8::/32"),
        ("private", "2001::/23"),
        ("private", "3fff::/20"),
        # A gateway that reaches inside may stand at the end of it, whatever is embedded.
        ("private", "2002::/16"),
    )
)
_IPV6_IN_USE: Final = IPv6Network("2000::/3")
"""All that was ever given out. The rest is reserved: ``::a.b.c.d`` and NAT64 belong to it."""

_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_FOUR_BYTES: Final = 0xFFFFFFFF


def verdict(address: Address) -> str | None:
    """Why an address is not public, or None for one that is."""
    if isinstance(address, IPv4Address):
        return next((label for label, network in _IPV4 if address in network), None)
    if address in _MAPPED:
        return verdict(IPv4Address(int(address) & _FOUR_BYTES))
    label = next((label for label, network in _IPV6 if address in network), None)
    return label or (None if address in _IPV6_IN_USE else "reserved")


def is_private(addresses: Iterable[str]) -> bool:
    """Whether any of these addresses is not a public one."""
    return any(verdict(ipaddress.ip_address(one.partition("%")[0])) for one in addresses)


def system_resolver(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True, slots=True)
class NetPolicy:
    """What one node may call. Both rules off: everything."""

    block_private: bool = False
    allowed_hosts: frozenset[str] | None = None
    """Lower case, without port; None: no list."""

    @property
    def active(self) -> bool:
        return self.block_private or self.allowed_hosts is not None

    def require_host(self, host: str) -> None:
        """Raise AddressBlocked for a host that is not on the list."""
        if self.allowed_hosts is not None and host.lower() not in self.allowed_hosts:
            raise AddressBlocked(f"The host {host!r} is not in allowedHosts.")

    def require_addresses(self, host: str, addresses: Iterable[str]) -> tuple[str, ...]:
        """The addresses, without zones. Raises AddressBlocked unless every one of them may be
        called: which one is connected to is decided later."""
        plain = tuple(address.partition("%")[0] for address in addresses)
        if not plain:
            raise AddressBlocked(f"The host {host!r} has no address.")
        for address in plain:
            label = verdict(ipaddress.ip_address(address)) if self.block_private else None
            if label is not None:
                raise AddressBlocked(
                    f"The host {host!r} leads to a {label} address, which may not be called "
                    "from here (blockPrivateAddresses)."
                )
        return plain


OPEN: Final = NetPolicy()
"""Everything may be called."""


def resolve(
    host: str, port: int, cancel: CancelToken, resolver: Resolver = system_resolver
) -> tuple[str, ...]:
    """The numeric addresses of a host. Ends at once when the run is cancelled, although the
    system's resolver cannot be interrupted. Raises OSError for a name that nobody knows.
    """
    try:
        return (str(ipaddress.ip_address(host.partition("%")[0])),)
    except ValueError:
        pass
    found: list[str] = []
    problem: list[Exception] = []
    done = threading.Event()

    def look_up() -> None:
        try:
            found.extend(resolver(host, port))
        except (OSError, UnicodeError) as error:
            problem.append(error)
        finally:
            done.set()

    threading.Thread(target=look_up, name="resolver", daemon=True).start()
    with cancel.on_cancel(done.set):
        done.wait()
    cancel.check()
    if problem:
        raise OSError(f"the host {host!r} cannot be resolved") from problem[0]
    return tuple(found)
