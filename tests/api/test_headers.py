from dataclasses import dataclass

import pytest

from Middleware.api.headers import Headers, clean, error_headers
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
