"""Who may stand in for whom (config-files §14)."""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from Middleware.llm.failover import leads_outside


@dataclass(frozen=True)
class Led:
    id: str
    url: str
    outside: bool
    addresses: tuple[str, ...] = ()


LED = [
    Led("this machine", "http://127.0.0.1:8080", False),
    Led("this machine by name", "http://localhost:8080", False),
    Led("a name below it", "http://models.LOCALHOST./v1", False),
    Led("IPv6", "http://[::1]:1", False),
    Led("the local network", "http://192.168.1.9", False),
    Led("another", "http://10.1.2.3/v1", False),
    Led("link-local", "http://169.254.1.1", False),
    Led("link-local IPv6 with a zone", "http://[fe80::1%25eth0]", False),
    Led("mapped", "http://[::ffff:10.0.0.1]", False),
    Led("the world", "https://8.8.8.8", True),
    Led("the world mapped", "https://[::ffff:8.8.8.8]", True),
    Led("a VPN mesh", "http://100.64.1.1", True),
    Led("a name in the local network", "http://box.lan", False, ("192.168.1.2",)),
    Led("a name in the world", "https://api.example.com", True, ("1.2.3.4",)),
    Led("a name that is both", "http://both.example", True, ("10.0.0.1", "1.2.3.4")),
    Led("nobody's name", "http://nobody.example", False),
    Led("no address", "", False),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in LED])
def test_which_addresses_lie_outside(case: Led) -> None:
    def resolver(host: str) -> Iterable[str]:
        if not case.addresses:
            raise OSError("not known")
        return case.addresses

    assert leads_outside(case.url, resolver) is case.outside
