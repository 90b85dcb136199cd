from dataclasses import dataclass

import pytest

from Middleware.api.headers import Headers, clean, decode_id, encode_id, error_headers
from Middleware.core.errors import (
    BackendRejected,
    ConfigError,
    InvalidKey,
    MiddlewareError,
    WrongMethod,
)


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        ("temperature, seed", "temperature, seed"),
        ("a\r\nB: c\x00", "a??B: c?"),
        ("größe", "gr??e"),
        ("x" * 2000, "x" * 1000),
        ("", ""),
    ],
)
def test_only_printable_ascii_gets_into_a_header(value: str, cleaned: str) -> None:
    assert clean(value) == cleaned


@pytest.mark.parametrize(
    ("id", "sent"),
    [
        ("chat 7", "chat 7"),
        ("100% sure", "100% sure"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("чат-🌊", "%D1%87%D0%B0%D1%82-%F0%9F%8C%8A"),
        ("50 % ж", "50 %25 %D0%B6"),
        ("%41", "%41"),
    ],
)
def test_an_id_comes_back_as_what_a_client_can_send_again(id: str, sent: str) -> None:
    assert encode_id(id) == sent
    assert decode_id(sent) == id
    assert decode_id(id.encode().decode("latin-1")) == id


def test_an_id_never_ends_a_header() -> None:
    assert encode_id("a\r\nB: c") == "a%0D%0AB: c"


@dataclass(frozen=True)
class Told:
    id: str
    error: MiddlewareError
    headers: Headers


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.id)
        for case in (
            Told("nothing to tell", MiddlewareError("x"), []),
            Told("again is of no use", ConfigError("x"), [("x-should-retry", "false")]),
            Told("later", BackendRejected("e", 429, "x", retry_after="7"), [("Retry-After", "7")]),
            Told(
                "later, and evil",
                BackendRejected("e", 503, "x", retry_after="1\r\nA: b"),
                [("Retry-After", "1??A: b")],
            ),
            Told("other methods", WrongMethod("x", ("GET", "PUT")), [("Allow", "GET, PUT")]),
            Told("key", InvalidKey("x"), [("WWW-Authenticate", "Bearer")]),
        )
    ],
)
def test_an_error_brings_its_headers(case: Told) -> None:
    assert error_headers(case.error) == case.headers
