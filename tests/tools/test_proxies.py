"""Fetching through proxies and over TLS."""

from dataclasses import dataclass

import pytest

from Middleware.core.cancellation import CancelToken
from Middleware.tools.net_policy import NetPolicy
from Middleware.tools.proxies import parse_proxy
from Middleware.tools.web_fetch import Fetch, FetchFailed, fetch
from tests.fakes.proxy import Proxy
from tests.fakes.upstream import TLS_FILE, Upstream, nobody_listens, whole

OK = whole(b"ok")
LISTED = NetPolicy(allowed_hosts=frozenset({"localhost"}))


@dataclass(frozen=True)
class Case:
    id: str
    scheme: str
    asked: str
    """Where the proxy is told to connect; ``{port}`` is that of the server."""
    tls: bool = False


CASES = [
    Case("http, in absolute form", "http", "http://localhost:{port}/x?y"),
    Case("http for https: a tunnel", "http", "localhost:{port}", tls=True),
    Case("TLS to the proxy", "https", "http://localhost:{port}/x?y"),
    Case("TLS to the proxy, and a tunnel in it", "https", "localhost:{port}", tls=True),
    Case("socks4 gets an address", "socks4", "127.0.0.1:{port}"),
    Case("socks4a gets a name", "socks4a", "localhost:{port}"),
    Case("socks5 gets an address", "socks5", "127.0.0.1:{port}"),
    Case("socks5h gets a name", "socks5h", "localhost:{port}"),
    Case("socks5h, and TLS in it", "socks5h", "localhost:{port}", tls=True),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES])
def test_a_fetch_through_a_proxy(case: Case) -> None:
    with (
        Upstream(OK, tls=case.tls) as server,
        Proxy(case.scheme, server.port, tls=case.scheme == "https") as proxy,
    ):
        answer = fetch(
            Fetch(
                url=server.url.replace("127.0.0.1", "localhost") + "/x?y",
                proxy=parse_proxy(proxy.url),
                ca_bundle=str(TLS_FILE),
                resolver=lambda host, port: ["127.0.0.1"],
            ),
            CancelToken(),
        )

    assert answer.body == b"ok"
    assert proxy.asked == [case.asked.format(port=server.port)]
    assert server.asked[0].path == "/x?y"
    assert server.asked[0].headers["host"] == f"localhost:{server.port}"


@pytest.mark.parametrize("scheme", ["http", "socks4a", "socks5h"])
def test_a_proxy_beside_a_guard_gets_the_address_that_was_looked_at(scheme: str) -> None:
    """A private address is let through here by no rule, so the public one of a test is a lie."""
    with Upstream(OK) as server, Proxy(scheme, server.port) as proxy:
        answer = fetch(
            Fetch(
                url=f"http://public.example:{server.port}/x",
                proxy=parse_proxy(proxy.url),
                policy=NetPolicy(block_private=True),
                resolver=lambda host, port: ["93.184.215.14"],
            ),
            CancelToken(),
        )

    assert answer.body == b"ok"
    assert proxy.asked == [f"93.184.215.14:{server.port}"]
    assert server.asked[0].headers["host"] == f"public.example:{server.port}"


def test_a_proxy_is_not_asked_for_what_may_not_be_called() -> None:
    with (
        Upstream(OK) as server,
        Proxy("socks5h", server.port) as proxy,
        pytest.raises(FetchFailed, match="loopback"),
    ):
        fetch(
            Fetch(
                url=f"http://localhost:{server.port}/x",
                proxy=parse_proxy(proxy.url),
                policy=NetPolicy(block_private=True),
            ),
            CancelToken(),
        )

    assert proxy.asked == []


def test_a_proxy_that_a_variable_names_may_not_be_inside() -> None:
    with (
        Upstream(OK) as server,
        Proxy("http", server.port) as proxy,
        pytest.raises(FetchFailed, match="loopback"),
    ):
        fetch(
            Fetch(
                url=server.url,
                proxy=parse_proxy(proxy.url),
                proxy_policy=NetPolicy(block_private=True),
            ),
            CancelToken(),
        )

    assert proxy.heads == []


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_a_login_is_shown(scheme: str) -> None:
    login = ("me", "se:cret") if scheme == "socks5h" else ("me", "secret")
    with Upstream(OK) as server, Proxy(scheme, server.port, login=login) as proxy:
        url = proxy.url.replace("se:cret", "se%3Acret")
        answer = fetch(Fetch(url=server.url, proxy=parse_proxy(url)), CancelToken())

    assert answer.body == b"ok"
    assert scheme == "socks5h" or b"Proxy-Authorization: Basic bWU6c2VjcmV0" in proxy.heads[0]
    assert "proxy-authorization" not in server.asked[0].headers or scheme == "http"


@dataclass(frozen=True)
class Refusal:
    id: str
    scheme: str
    url: str
    says: str


REFUSALS = [
    Refusal("a tunnel", "http", "https://localhost:1/", "The proxy answered 403."),
    Refusal("socks4", "socks4a", "http://localhost:1/", "The proxy refused to connect."),
    Refusal("socks5", "socks5h", "http://localhost:1/", "The proxy could not connect: the conn"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in REFUSALS])
def test_a_proxy_that_refuses(case: Refusal) -> None:
    with Proxy(case.scheme, 1, refuses=True) as proxy, pytest.raises(FetchFailed) as caught:
        fetch(Fetch(url=case.url, proxy=parse_proxy(proxy.url)), CancelToken())

    assert caught.value.message.startswith(case.says)


@pytest.mark.parametrize("login", [None, "me:wrong@"])
def test_a_login_that_is_missing_or_wrong(login: str | None) -> None:
    with Proxy("socks5", 1, login=("me", "right")) as proxy:
        url = proxy.url.replace("me:right@", login or "")
        with pytest.raises(FetchFailed, match="login"):
            fetch(Fetch(url="http://127.0.0.1:1/", proxy=parse_proxy(url)), CancelToken())


def test_a_proxy_that_is_not_there() -> None:
    with pytest.raises(FetchFailed, match="refused"):
        fetch(Fetch(url="http://127.0.0.1:1/", proxy=parse_proxy(nobody_listens())), CancelToken())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ftp://a", "scheme 'ftp'"),
        ("http://", "names no server"),
        ("http://a:x", "cannot be read"),
        ("socks6://a", "scheme 'socks6'"),
    ],
)
def test_what_is_no_proxy(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_proxy(text)


def test_a_proxy_without_scheme_is_one_for_http() -> None:
    proxy = parse_proxy("a.b:3128")

    assert (proxy.scheme, proxy.host, proxy.port) == ("http", "a.b", 3128)


# --------------------------------------------------------------------------------------- TLS


def test_a_certificate_that_nobody_vouches_for_is_not_accepted() -> None:
    with (
        Upstream(OK, tls=True) as server,
        pytest.raises(FetchFailed, match="certificate is not accepted"),
    ):
        fetch(Fetch(url=server.url), CancelToken())

    assert server.asked == []


def test_a_certificate_may_be_vouched_for_by_a_file_or_not_be_looked_at() -> None:
    with Upstream(OK, tls=True) as server:
        trusted = fetch(Fetch(url=server.url, ca_bundle=str(TLS_FILE)), CancelToken())
        unseen = fetch(Fetch(url=server.url, verify=False), CancelToken())

    assert (trusted.body, unseen.body) == (b"ok", b"ok")


def test_a_pinned_connection_still_belongs_to_the_name() -> None:
    with Upstream(OK, tls=True) as server:
        good = Fetch(
            url=f"https://localhost:{server.port}/",
            ca_bundle=str(TLS_FILE),
            policy=LISTED,
            resolver=lambda host, port: ["127.0.0.1"],
        )
        other = Fetch(
            url=f"https://other.example:{server.port}/",
            ca_bundle=str(TLS_FILE),
            resolver=lambda host, port: ["127.0.0.1"],
        )

        assert fetch(good, CancelToken()).body == b"ok"
        with pytest.raises(FetchFailed, match="certificate is not accepted"):
            fetch(other, CancelToken())
