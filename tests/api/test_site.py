"""What is the same for every request: keys, sizes, origins, the last guard."""

import hashlib
import json
from typing import Any

import pytest

from Middleware.api.admission import Keys
from Middleware.api.site import Site
from Middleware.config.user import User
from Middleware.core.errors import ConfigError
from tests.fakes.live_site import CHAT, HI, Live, Received, make_site, serving, wait_until
from tests.fakes.runner import FakeRunner

ALICE = User.model_validate(
    {
        "name": "alice",
        "apiKeys": [
            "plain-key",
            {"name": "phone", "key": "phöne"},
            {"name": "hashed", "sha256": hashlib.sha256(b"secret").hexdigest().upper()},
        ],
    }
)
BOB = User.model_validate({"name": "bob"})


def with_keys(**more: Any) -> Site:
    return make_site(FakeRunner(), keys=Keys(lambda: [ALICE, BOB], **more))


def ask(live: Live, **headers: str) -> Received:
    return live.ask("POST", CHAT, {"messages": HI}, **headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer plain-key"},
        {"Authorization": "bearer  plain-key "},
        {"x_api_key": "plain-key"},
        {"Authorization": "Bearer phöne"},
        {"Authorization": "Bearer secret"},
        {"Authorization": "Bearer wrong", "x_api_key": "secret"},
        {"Authorization": "Bearer from-the-command-line"},
    ],
    ids=str,
)
def test_a_right_key_is_let_in(headers: dict[str, str]) -> None:
    with serving(with_keys(extra_key="from-the-command-line")) as live:
        assert ask(live, **headers).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer plain-kez"},
        {"Authorization": "Basic plain-key"},
        {"x_api_key": ""},
        {"x_api_key": hashlib.sha256(b"secret").hexdigest()},
    ],
    ids=str,
)
def test_a_wrong_or_missing_key_is_a_401_everywhere(headers: dict[str, str]) -> None:
    with serving(with_keys()) as live:
        answers = [
            ask(live, **headers),
            live.ask("GET", "/v1/models", **headers),
            live.ask("GET", "/nope", **headers),
        ]

    for received in answers:
        assert received.status == 401
        assert received.headers["www-authenticate"] == "Bearer"
        assert received.json["error"]["code"] == "invalid_api_key"
        assert received.json["error"]["type"] == "authentication_error"


def test_any_key_and_none_is_right_when_no_user_has_one() -> None:
    """Clients A6."""
    with serving(make_site(FakeRunner(), keys=Keys(lambda: [BOB]))) as live:
        assert ask(live).status == 200
        assert ask(live, Authorization="Bearer ollama").status == 200


def test_no_auth_lets_everybody_in() -> None:
    with serving(with_keys(off=True)) as live:
        assert ask(live).status == 200


def test_strangers_learn_from_health_that_it_is_up_and_nothing_else() -> None:
    with serving(with_keys()) as live:
        stranger = live.ask("GET", "/health")
        known = live.ask("GET", "/health/", x_api_key="secret")
        front = live.ask("GET", "/")

    assert stranger.json == {"status": "ok"}
    assert known.json == {"status": "ok", "version": "1.2.3", "problems": []}
    assert front.status == 200


def test_a_key_never_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with serving(with_keys()) as live:
        ask(live, Authorization="Bearer secret")
        ask(live, Authorization="Bearer wr0ng-secret")

    assert "secret" not in caplog.text


def test_a_body_that_is_too_large_is_a_413_in_json() -> None:
    with serving(make_site(FakeRunner(), max_body_bytes=2000)) as live:
        fits = live.ask("POST", CHAT, {"messages": HI, "user": "x" * 1000})
        large = live.ask("POST", CHAT, {"messages": HI, "user": "x" * 3000})
        huge = live.ask("POST", CHAT, {"messages": HI, "user": "x" * 60_000})

    assert fits.status == 200
    for received in (large, huge):
        assert received.status == 413
        assert received.headers["content-type"] == "application/json"
        assert received.json["error"]["code"] == "request_too_large"


def test_a_chunked_upload_is_read_and_measured_as_any_other() -> None:
    def chunked(live: Live, size: int) -> Received:
        body = json.dumps({"messages": HI, "user": "x" * size}).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
        size_line = f"{len(body):x}\r\n"
        with live.connect() as client:
            client.socket.sendall((head + size_line).encode() + body + b"\r\n0\r\n\r\n")
            return client.receive()

    with serving(make_site(FakeRunner(), max_body_bytes=2000)) as live:
        assert chunked(live, 100).status == 200
        assert chunked(live, 3000).status == 413


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nBad Header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 300_000 + b"\r\n\r\n", 431),
        (b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET //v1/responses/r?stream=\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ],
    ids=[
        "no HTTP",
        "bad header",
        "bad length",
        "unknown encoding",
        "large headers",
        "bad host",
        "bad query",
    ],
)
def test_what_is_hardly_http_is_refused_in_json(raw: bytes, status: int) -> None:
    with serving(make_site(FakeRunner())) as live, live.connect() as client:
        client.socket.sendall(raw)
        received = client.receive()

    assert received.status == status
    assert received.headers["content-type"] == "application/json"
    assert received.json["error"]["message"]


@pytest.mark.parametrize("host", ["", "ex ample", "a" * 300, "\xe9", "[::1", "x:y:z"])
def test_a_strange_host_header_is_no_fault_of_ours(host: str) -> None:
    with serving(make_site(FakeRunner())) as live, live.connect() as client:
        raw = f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n"
        client.socket.sendall(raw.encode("latin-1"))
        received = client.receive()

    assert received.status in (200, 400)
    assert received.headers["content-type"] == "application/json"


def test_a_fault_before_the_door_is_a_500_in_json() -> None:
    def broken() -> tuple[str, ...]:
        raise ZeroDivisionError("secret")

    with serving(make_site(FakeRunner(), models=broken)) as live:
        received = live.ask("GET", "/v1/models")

    assert received.status == 500
    assert received.json["error"]["code"] == "internal_error"
    assert b"secret" not in received.body
    assert received.headers["x-request-id"] in received.json["error"]["message"]


def test_broken_user_files_close_the_door_until_keys_were_known_once() -> None:
    broken = True

    def users() -> list[User]:
        if broken:
            raise ConfigError("is no JSON.", file="Users/alice.json")
        return [ALICE]

    with serving(make_site(FakeRunner(), keys=Keys(users, look_again_seconds=0))) as live:
        assert live.ask("GET", "/v1/models").status == 400
        assert live.ask("GET", "/health").json == {"status": "ok"}
        broken = False
        assert live.ask("GET", "/v1/models").status == 401
        broken = True
        assert live.ask("GET", "/v1/models", x_api_key="secret").status == 200


def test_a_key_that_is_added_while_the_server_runs_is_demanded() -> None:
    users = [BOB]
    with serving(make_site(FakeRunner(), keys=Keys(lambda: users))) as live:
        assert live.ask("GET", "/v1/models").status == 200
        users.append(ALICE)
        wait_until(lambda: live.ask("GET", "/v1/models").status == 401, 2)


def test_new_requests_are_refused_in_the_doors_shape_while_the_server_stops() -> None:
    site = make_site(FakeRunner())
    with serving(site) as live:
        site.stopping = True
        refused = ask(live), live.ask("GET", "/health"), live.ask("GET", "/nope")

    for received in refused:
        assert received.status == 503
        assert received.json["error"]["code"] == "server_stopping"
