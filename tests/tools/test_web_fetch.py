"""Fetching against real servers on the loopback address; names are what a test says they are."""

import gzip
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import RunCancelled
from Middleware.tools.http_call import Answer
from Middleware.tools.net_policy import AddressBlocked, NetPolicy
from Middleware.tools.urls import parse_url
from Middleware.tools.web_fetch import Fetch, FetchFailed, _route, fetch
from tests.fakes.upstream import (
    CUT,
    LAST_CHUNK,
    SILENCE,
    Asked,
    Upstream,
    chunk,
    head,
    nobody_listens,
    whole,
)

GUARDED = NetPolicy(block_private=True)
HTML = {"Content-Type": "text/html"}


def names(**known: str | list[str]) -> Callable[[str, int], Iterable[str]]:
    """A resolver for names with ``_`` in place of ``.``; each answer of a list in turn."""
    asked: dict[str, int] = {}

    def resolver(host: str, port: int) -> Iterable[str]:
        answer = known.get(host.replace(".", "_"))
        if answer is None:
            raise OSError("unknown")
        if isinstance(answer, str):
            return [answer]
        asked[host] = asked.get(host, 0) + 1
        return [answer[min(asked[host], len(answer)) - 1]]

    return resolver


def get(url: str, cancel: CancelToken | None = None, **keys: Any) -> Answer:
    return fetch(Fetch(url=url, **keys), cancel or CancelToken())


def fails(url: str, **keys: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        get(url, **keys)
    return caught.value


def redirect(location: str, status: int = 302) -> list[Any]:
    return whole(b"moved", status, {"Location": location})


# ------------------------------------------------------------------------------ one exchange


def test_a_request_as_it_arrives() -> None:
    with Upstream(whole(b"ok")) as server:
        get(
            f"{server.url}/a b?q=ü#f",
            method="PATCH",
            headers={"X-Own": "ü", "accept": "text/plain"},
            body="é".encode(),
        )

    asked = server.asked[0]
    assert (asked.method, asked.path, asked.body) == ("PATCH", "/a%20b?q=%C3%BC", "é".encode())
    assert asked.headers == {
        "x-own": "ü".encode().decode("latin-1"),
        "accept": "text/plain",
        "host": f"127.0.0.1:{server.port}",
        "accept-encoding": "gzip, deflate",
        "connection": "close",
        "content-length": "2",
    }


BARE = zlib.compressobj(wbits=-15)
DEFLATED = BARE.compress(b"text" * 1000) + BARE.flush()


@dataclass(frozen=True)
class Body:
    id: str
    steps: list[Any]
    expected: bytes


def encoded(name: str, data: bytes) -> list[Any]:
    return whole(data, 200, {"Content-Encoding": name})


BODIES = [
    Body("with a length", whole(b"text"), b"text"),
    Body("in chunks", [head(chunked=True), chunk(b"te"), chunk(b"xt"), LAST_CHUNK], b"text"),
    Body("until the end", [head(), b"text", CUT], b"text"),
    Body("gzip", encoded("gzip", gzip.compress(b"text" * 1000)), b"text" * 1000),
    Body("deflate", encoded("deflate", zlib.compress(b"text" * 1000)), b"text" * 1000),
    Body("bare deflate", encoded("deflate", DEFLATED), b"text" * 1000),
    Body("nothing", [head(204, {"Content-Length": "0"})], b""),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in BODIES])
def test_bodies_of_every_kind_are_read(case: Body) -> None:
    with Upstream(case.steps) as server:
        assert get(server.url).body == case.expected


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("text/html; charset=iso-8859-1", b"\xe9", "é"),
        ('text/html; charset="UTF-8"', "é".encode(), "é"),
        ("text/html; charset=nonsense", "é".encode(), "é"),
        ("text/html; charset=ascii", "é".encode(), "é"),
        ("text/html", "é".encode(), "é"),
        ("text/html", b"\xef\xbb\xbfa", "a"),
        ("text/html", b"\xe9", "é"),
    ],
)
def test_the_charset_of_a_body(content_type: str, body: bytes, text: str) -> None:
    with Upstream(whole(body, 200, {"Content-Type": content_type})) as server:
        assert get(server.url).text == text


def test_headers_keep_their_spelling_and_are_joined() -> None:
    steps = [head(200, {"X-One": "1", "Content-Length": "0"})[:-2] + b"x-one: 2\r\n\r\n"]
    with Upstream(steps) as server:
        answer = get(server.url)

    assert answer.headers == {"X-One": "1, 2", "Content-Length": "0"}
    assert answer.header("x-ONE") == "1, 2"


@dataclass(frozen=True)
class Failure:
    id: str
    steps: list[Any]
    says: str
    body: bytes | None = None


FAILURES = [
    Failure("an error status", whole(b"no such item", 404), "answered 404", b"no such item"),
    Failure("a server error", whole(b"oh", 500), "answered 500", b"oh"),
    Failure("cut in the body", [head(200, {"Content-Length": "9"}), b"abc", CUT], "middle of"),
    Failure("cut in a chunk", [head(chunked=True), b"5\r\nab", CUT], "middle of"),
    Failure("no HTTP", [b"SSH-2.0-x\r\n\r\n", CUT], "did not answer in HTTP"),
    Failure("nothing at all", [CUT], "without an answer"),
    Failure("a compression nobody asked for", encoded("br", b"x"), "not asked for"),
    Failure("what is no gzip", encoded("gzip", b"plain text"), "decompressed"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in FAILURES])
def test_a_fetch_that_fails_says_why_and_what_the_server_said(case: Failure) -> None:
    with Upstream(case.steps) as server:
        error = fails(server.url)

    assert case.says in error.message
    assert (error.answer.body if error.answer else None) == case.body
    assert "no such item" not in error.message


def test_nobody_listens() -> None:
    assert fails(nobody_listens()).message == "The connection was refused."


def test_a_name_that_nobody_knows() -> None:
    assert "cannot be resolved" in fails("http://no.such/", resolver=names()).message


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/", "no url", "http://a b/"])
def test_only_web_addresses_are_fetched(url: str) -> None:
    assert fails(url).message.startswith("The URL ")


@pytest.mark.parametrize(
    "keys",
    [{"headers": {"X": "a\r\nY: b"}}, {"headers": {"X Y": "a"}}, {"method": "GET /x HTTP/1.1"}],
)
def test_nothing_can_be_smuggled_into_the_head_of_a_request(keys: dict[str, Any]) -> None:
    with Upstream(whole(b"ok")) as server:
        fails(server.url, **keys)

    assert server.asked == []


# ------------------------------------------------------------------------------------ limits


def test_a_body_up_to_the_cap_is_read_and_a_larger_one_is_a_failure() -> None:
    with Upstream(whole(b"x" * 100)) as server:
        assert get(server.url, max_bytes=100).body == b"x" * 100
        error = fails(server.url, max_bytes=99)

    assert "larger than 99 bytes" in error.message
    assert error.answer is not None
    assert error.answer.body == b"x" * 99


def test_the_cap_counts_what_comes_out_of_a_compressed_body() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    with Upstream(encoded("gzip", bomb)) as server:
        started = time.monotonic()
        error = fails(server.url, max_bytes=1000)

    assert error.answer is not None
    assert len(error.answer.body) == 1000
    assert time.monotonic() - started < 2


def test_an_error_body_is_cut_at_the_cap() -> None:
    with Upstream(whole(b"x" * 100, 500)) as server:
        error = fails(server.url, max_bytes=10)

    assert error.message == "The server answered 500."
    assert error.answer is not None
    assert (error.answer.status, error.answer.body) == (500, b"x" * 10)


def test_the_body_of_a_redirect_does_not_matter() -> None:
    moved = whole(b"x" * 100, 302, {"Location": "/next"})
    with Upstream(moved, whole(b"ok")) as server:
        assert get(server.url, max_bytes=10).body == b"ok"


@pytest.mark.parametrize(
    "steps",
    [
        [SILENCE],
        [head(), b"a", SILENCE],
        lambda asked: [piece for n in range(200) for piece in (b"x", Nap())],
    ],
    ids=["no answer", "half of one", "one byte after the other"],
)
def test_the_time_is_for_everything_together(steps: Any) -> None:
    with Upstream(steps) as server:
        started = time.monotonic()
        error = fails(server.url, timeout_seconds=0.2)

    assert "within 0.2 s" in error.message
    assert time.monotonic() - started < 2


class Nap(threading.Event):
    """A pause that ends by itself."""

    def wait(self, timeout: float | None = None) -> bool:
        time.sleep(0.02)
        return True


def test_redirects_share_the_time() -> None:
    def slowly(asked: Asked) -> list[Any]:
        return [Nap(), Nap(), Nap(), *redirect("/again")]

    with Upstream(slowly) as server:
        error = fails(server.url, timeout_seconds=0.2)

    assert "within 0.2 s" in error.message


def test_a_run_that_is_cancelled_ends_at_once() -> None:
    cancel = CancelToken()
    with Upstream([head(), b"a", SILENCE]) as server:

        def stop() -> None:
            server.wait_for(1)
            cancel.cancel()

        canceller = threading.Thread(target=stop)
        canceller.start()
        started = time.monotonic()
        with pytest.raises(RunCancelled):
            get(server.url, cancel)
        canceller.join()
        assert server.left.wait(5)

    assert time.monotonic() - started < 2


# --------------------------------------------------------------------------------- redirects


@dataclass(frozen=True)
class Hop:
    id: str
    status: int
    method: str
    expected: str
    keeps_body: bool


HOPS = [
    Hop("303 of a POST", 303, "POST", "GET", False),
    Hop("302 of a POST", 302, "POST", "GET", False),
    Hop("301 of a PUT", 301, "PUT", "GET", False),
    Hop("307 of a POST", 307, "POST", "POST", True),
    Hop("308 of a POST", 308, "POST", "POST", True),
    Hop("302 of a HEAD", 302, "HEAD", "HEAD", False),
    Hop("302 of a GET", 302, "GET", "GET", False),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in HOPS])
def test_what_a_redirect_does_to_a_request(case: Hop) -> None:
    body = b"x" if case.method not in ("GET", "HEAD") else None
    headers = {"Content-Type": "text/plain", "Authorization": "secret", "X-Own": "1"}
    location = [head(case.status, {"Location": "/next?q=ü", "Content-Length": "0"})]
    with Upstream(location, [head(200, {"Content-Length": "0"})]) as server:
        answer = get(server.url, method=case.method, body=body, headers=headers)

    asked = server.asked[1]
    assert answer.status == 200
    assert (asked.method, asked.path) == (case.expected, "/next?q=%C3%83%C2%BC")
    assert asked.body == (b"x" if case.keeps_body else b"")
    assert ("content-type" in asked.headers) is (case.keeps_body or case.method in ("GET", "HEAD"))
    assert (asked.headers["authorization"], asked.headers["x-own"]) == ("secret", "1")


def test_another_server_sees_no_header_that_may_be_a_secret() -> None:
    headers = {
        "Authorization": "secret",
        "Cookie": "secret",
        "X-Api-Key": "secret",
        "Accept-Language": "de",
        "User-Agent": "me",
    }
    with Upstream(whole(b"ok")) as other, Upstream(redirect(f"{other.url}/x")) as server:
        get(server.url.replace("http://", "http://user:secret@"), headers=headers)

    assert server.asked[0].headers["authorization"] == "secret"
    seen = other.asked[0].headers
    assert "secret" not in str(seen)
    assert (seen["accept-language"], seen["user-agent"]) == ("de", "me")


def test_the_login_of_a_url_is_sent() -> None:
    with Upstream(whole(b"ok")) as server:
        get(server.url.replace("http://", "http://user:p%40ss@"))

    assert server.asked[0].headers["authorization"] == "Basic dXNlcjpwQHNz"


def test_ten_redirects_are_followed_and_eleven_are_not() -> None:
    steps = [redirect("/next")] * 10
    with Upstream(*steps, whole(b"ok")) as server:
        assert get(server.url).body == b"ok"
    with Upstream(redirect("/next")) as server:
        error = fails(server.url)

    assert "more than 10 redirects" in error.message
    assert len(server.asked) == 11


def test_redirects_need_not_be_followed() -> None:
    with Upstream(redirect("/next")) as server:
        answer = get(server.url, follow_redirects=False)

    assert (answer.status, answer.body) == (302, b"moved")


def test_a_redirect_that_says_no_place_is_the_answer() -> None:
    with Upstream(whole(b"hm", 302)) as server:
        assert get(server.url).status == 302


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x"])
def test_a_redirect_to_something_that_is_no_web_address_is_a_failure(location: str) -> None:
    with Upstream(redirect(location)) as server:
        assert fails(server.url).message.startswith("The URL ")


# ------------------------------------------------------------------- what may be called (C-38)

BLOCKED = [
    "http://127.0.0.1:1/",
    "http://169.254.169.254/",
    "http://[::1]/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://127.1/",
    "http://10.0.0.1/",
    "http://[::ffff:10.0.0.1]/",
    "http://localhost/",
    "http://user@127.0.0.1/",
    "http://100.64.0.1/",
]


@pytest.mark.parametrize("url", BLOCKED)
def test_no_byte_goes_to_a_private_address(url: str) -> None:
    assert "blockPrivateAddresses" in fails(url, policy=GUARDED).message


def test_a_public_name_that_leads_inside_is_blocked() -> None:
    with Upstream(whole(b"inside")) as server:
        error = fails(
            f"http://public.example:{server.port}/",
            policy=GUARDED,
            resolver=names(public_example="127.0.0.1"),
        )

    assert "loopback" in error.message
    assert server.connections == 0


def test_a_name_is_looked_up_once_a_hop_and_what_was_found_is_connected_to() -> None:
    with Upstream(whole(b"ok")) as server:
        answer = get(
            f"http://rebinds.example:{server.port}/",
            policy=NetPolicy(allowed_hosts=frozenset({"rebinds.example"})),
            # A second look would lead to where nobody listens.
            resolver=names(rebinds_example=["127.0.0.1", "127.0.0.9"]),
        )

    assert answer.body == b"ok"
    assert server.asked[0].headers["host"] == f"rebinds.example:{server.port}"


def test_the_same_name_in_a_redirect_is_looked_at_again() -> None:
    """The first hop is let through by the list of a test; the second answer is private."""
    with Upstream(redirect("http://rebinds.example/inside")) as server:
        policy = NetPolicy(allowed_hosts=frozenset({"rebinds.example"}))
        error = fails(
            f"http://rebinds.example:{server.port}/",
            policy=policy,
            resolver=names(rebinds_example=["127.0.0.1", "127.0.0.2"]),
            timeout_seconds=2,
        )

    assert "refused" in error.message or "reached" in error.message
    assert len(server.asked) == 1


def test_every_hop_is_looked_at() -> None:
    with Upstream(whole(b"inside")) as inside, Upstream(redirect(f"{inside.url}/x")) as server:
        policy = NetPolicy(allowed_hosts=frozenset({"good.example"}))
        error = fails(
            f"http://good.example:{server.port}/",
            policy=policy,
            resolver=names(good_example="127.0.0.1"),
        )

    assert "'127.0.0.1' is not in allowedHosts" in error.message
    assert inside.connections == 0


def test_a_host_on_the_list_is_called() -> None:
    with Upstream(whole(b"ok")) as server:
        answer = get(server.url, policy=NetPolicy(allowed_hosts=frozenset({"127.0.0.1"})))

    assert answer.body == b"ok"


def test_without_a_rule_the_inside_may_be_called() -> None:
    with Upstream(whole(b"ok")) as inside, Upstream(redirect(inside.url)) as server:
        assert get(server.url).body == b"ok"


def test_a_redirect_may_not_lead_from_outside_to_the_inside() -> None:
    """Unless the node says that it may: the other server chose that place, not the author."""
    inside = parse_url("http://10.0.0.1/")

    assert _route(Fetch(url=""), inside, CancelToken(), from_public=False).addresses
    with pytest.raises(AddressBlocked):
        _route(Fetch(url=""), inside, CancelToken(), from_public=True)
    trusts = Fetch(url="", guard_redirects=False)
    assert _route(trusts, inside, CancelToken(), from_public=True).addresses == ("10.0.0.1",)


def test_nothing_of_the_environment_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", nobody_listens())
    monkeypatch.setenv("http_proxy", nobody_listens())
    with Upstream(whole(b"ok")) as server:
        assert get(server.url).body == b"ok"


def test_the_answer_may_be_json() -> None:
    with Upstream(whole({"a": "é"})) as server:
        assert json.loads(get(server.url).text) == {"a": "é"}


def test_an_address_that_does_not_answer_is_followed_by_the_next() -> None:
    with Upstream(whole(b"ok")) as server:
        answer = get(
            f"http://two.example:{server.port}/",
            resolver=lambda host, port: ["127.0.0.9", "127.0.0.1"],
        )

    assert answer.body == b"ok"


def test_a_connection_that_cannot_be_made_ends_with_the_time() -> None:
    """A listener whose queue is full lets connections wait."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    port = listener.getsockname()[1]
    waiting = [socket.socket() for _ in range(4)]
    for one in waiting:
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", port))
    started = time.monotonic()

    error = fails(f"http://127.0.0.1:{port}/", timeout_seconds=0.3)

    assert "within 0.3 s" in error.message
    assert time.monotonic() - started < 2
    for one in (*waiting, listener):
        one.close()
