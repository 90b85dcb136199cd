import ipaddress
import threading

import pytest

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import RunCancelled
from Middleware.tools.net_policy import (
    AddressBlocked,
    NetPolicy,
    is_private,
    resolve,
    system_resolver,
    verdict,
)

ADDRESSES = """
    127.0.0.1               loopback
    127.255.255.254         loopback
    ::1                     loopback
    ::ffff:127.0.0.1        loopback
    169.254.169.254         link-local
    fe80::1                 link-local
    febf::1                 link-local
    0.0.0.0                 unspecified
    ::                      unspecified
    ::ffff:0.0.0.0          unspecified
    224.0.0.1               multicast
    239.255.255.255         multicast
    ff02::1                 multicast
    240.0.0.1               reserved
    255.255.255.255         reserved
    ::7f00:1                reserved
    ::8.8.8.8               reserved
    64:ff9b::7f00:1         reserved
    64:ff9b::808:808        reserved
    64:ff9b:1::1            reserved
    100::1                  reserved
    4000::1                 reserved
    5f00::1                 reserved
    0.1.2.3                 private
    10.0.0.1                private
    172.16.0.1              private
    172.31.255.255          private
    192.168.1.1             private
    192.0.0.1               private
    192.0.0.9               private
    192.0.2.1               private
    198.18.0.1              private
    198.19.255.255          private
    198.51.100.7            private
    203.0.113.9             private
    ::ffff:10.0.0.1         private
    fc00::1                 private
    fdff::1                 private
    fec0::1                 private
    2001:db8::1             private
    2001::1                 private
    2001:1::1               private
    2001:20::1              private
    2002:7f00:1::           private
    2002:808:808::          private
    3fff::1                 private
    100.64.0.1              non-global
    100.127.255.255         non-global
    192.88.99.1             non-global
    8.8.8.8                 -
    1.1.1.1                 -
    9.255.255.255           -
    11.0.0.0                -
    100.63.255.255          -
    100.128.0.0             -
    126.255.255.255         -
    128.0.0.0               -
    169.253.255.255         -
    172.15.255.255          -
    172.32.0.0              -
    192.0.1.1               -
    192.167.255.255         -
    198.17.255.255          -
    198.20.0.0              -
    223.255.255.255         -
    ::ffff:8.8.8.8          -
    2001:200::1             -
    2606:4700::1111         -
    2a00:1450::1            -
"""
ROWS = [line.split() for line in ADDRESSES.strip().splitlines()]


@pytest.mark.parametrize(("address", "label"), ROWS, ids=[row[0] for row in ROWS])
def test_the_verdict_on_an_address(address: str, label: str) -> None:
    expected = None if label == "-" else label

    assert verdict(ipaddress.ip_address(address)) == expected
    assert is_private([address]) is (expected is not None)


def test_one_bad_address_among_good_ones_is_one_too_many() -> None:
    policy = NetPolicy(block_private=True)

    assert policy.require_addresses("h", ["8.8.8.8", "1.1.1.1"]) == ("8.8.8.8", "1.1.1.1")
    with pytest.raises(AddressBlocked, match="'h' leads to a loopback address"):
        policy.require_addresses("h", ["8.8.8.8", "127.0.0.1"])
    with pytest.raises(AddressBlocked, match="link-local"):
        policy.require_addresses("h", ["fe80::1%eth0"])
    with pytest.raises(AddressBlocked):
        policy.require_addresses("h", [])


def test_without_the_rule_every_address_may_be_called() -> None:
    assert NetPolicy().require_addresses("h", ["127.0.0.1"]) == ("127.0.0.1",)
    assert NetPolicy().active is False


@pytest.mark.parametrize("host", ["api.example.com", "API.Example.COM", "2001:db8::1"])
def test_a_host_on_the_list_may_be_called(host: str) -> None:
    NetPolicy(allowed_hosts=frozenset({"api.example.com", "2001:db8::1"})).require_host(host)


@pytest.mark.parametrize(
    "host", ["example.com", "x.api.example.com", "api.example.com.", "api.example.com.evil.com", ""]
)
def test_a_host_that_is_not_on_the_list_may_not(host: str) -> None:
    with pytest.raises(AddressBlocked, match="allowedHosts"):
        NetPolicy(allowed_hosts=frozenset({"api.example.com"})).require_host(host)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0x7f.1", "127.1", "localhost"])
def test_disguises_of_an_address_are_resolved(host: str) -> None:
    assert "127.0.0.1" in resolve(host, 80, CancelToken())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "fe80::1%eth0"])
def test_a_literal_address_is_not_looked_up(host: str) -> None:
    def fails(host: str, port: int) -> list[str]:
        raise AssertionError

    assert resolve(host, 80, CancelToken(), fails) == (host.partition("%")[0],)


def test_a_name_that_nobody_knows_is_an_os_error() -> None:
    with pytest.raises(OSError, match=r"no\.such\.invalid"):
        resolve("no.such.invalid", 80, CancelToken(), system_resolver)


def test_a_run_that_is_cancelled_does_not_wait_for_the_resolver() -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(host: str, port: int) -> list[str]:
        asked.set()
        answer.wait(10)
        return []

    cancel = CancelToken()

    def stop() -> None:
        asked.wait(10)
        cancel.cancel()

    canceller = threading.Thread(target=stop)
    canceller.start()

    with pytest.raises(RunCancelled):
        resolve("name", 80, cancel, slow)

    answer.set()
    canceller.join()
