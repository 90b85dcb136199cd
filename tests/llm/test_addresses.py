from dataclasses import dataclass

import pytest

from Middleware.core.errors import ConfigError
from Middleware.llm.addresses import parse_address
from Middleware.llm.connections import Origin

CHAT = "/v1/chat/completions"
FILE = "Endpoints/fast.json"


@dataclass(frozen=True)
class Spelled:
    base: str
    chat: str
    ollama: str


SPELLED = [
    Spelled("http://h:1", CHAT, "/api/chat"),
    Spelled("http://h:1/", CHAT, "/api/chat"),
    Spelled("http://h:1/v1", CHAT, "/api/chat"),
    Spelled("http://h:1/v1/", CHAT, "/api/chat"),
    Spelled("http://h:1//", CHAT, "/api/chat"),
    Spelled("http://h:1/prefix/v1", "/prefix/v1/chat/completions", "/prefix/api/chat"),
    Spelled("http://h:1/prefix", "/prefix/v1/chat/completions", "/prefix/api/chat"),
    Spelled("http://h:1/revv1", "/revv1/v1/chat/completions", "/revv1/api/chat"),
    Spelled("  http://h:1  ", CHAT, "/api/chat"),
    Spelled("http://h:1/v1?key=x%20y", CHAT + "?key=x%20y", "/api/chat?key=x%20y"),
    Spelled("http://h:1/größe", f"/gr%C3%B6%C3%9Fe{CHAT}", "/gr%C3%B6%C3%9Fe/api/chat"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.base) for c in SPELLED])
def test_every_spelling_leads_to_the_right_path(case: Spelled) -> None:
    assert parse_address(case.base, CHAT, file=FILE).target == case.chat
    assert parse_address(case.base, "/api/chat", file=FILE).target == case.ollama


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("http://h:1/v1/chat/completions", CHAT),
        ("http://h:1/api", "/api/chat"),
        ("http://h:1/api/chat/", "/api/chat"),
    ],
)
def test_a_part_of_the_path_itself_is_not_repeated(base: str, path: str) -> None:
    assert parse_address(base, path, file=FILE).target == path


@pytest.mark.parametrize(
    ("base", "origin", "host"),
    [
        ("http://h", Origin(False, "h", 80), "h"),
        ("https://h", Origin(True, "h", 443), "h"),
        ("https://h:443", Origin(True, "h", 443), "h"),
        ("https://h:8443", Origin(True, "h", 8443), "h:8443"),
        ("http://[::1]:8080", Origin(False, "::1", 8080), "[::1]:8080"),
        ("http://bücher.test", Origin(False, "xn--bcher-kva.test", 80), "xn--bcher-kva.test"),
        ("http://my_service:1", Origin(False, "my_service", 1), "my_service:1"),
    ],
)
def test_where_to_connect(base: str, origin: Origin, host: str) -> None:
    address = parse_address(base, CHAT, file=FILE)

    assert (address.origin, address.host) == (origin, host)


def test_user_and_password_become_a_header_and_a_secret() -> None:
    address = parse_address("http://me:p%40ss@h/v1?key=sk-canary-123", CHAT, file=FILE)

    assert address.credentials == "Basic bWU6cEBzcw=="
    assert address.host == "h"
    assert set(address.secrets) == {"p@ss", "sk-canary-123", "key=sk-canary-123"}


@pytest.mark.parametrize(
    ("base", "problem"),
    [
        ("", "is missing"),
        ("  ", "is missing"),
        ("127.0.0.1:8080?key=canary", "does not start with http"),
        ("localhost:8080?key=canary", "does not start with http"),
        ("ftp://h?key=canary", "does not start with http"),
        ("http://?key=canary", "names no host"),
        ("http://h:port?key=canary", "is not a URL"),
        ("http://h:99999?key=canary", "is not a URL"),
        ("http://[::1?key=canary", "is not a URL"),
        ("http://h/a b?key=canary", "contains a space"),
        ("http://h\r\nX: y?key=canary", "contains a space"),
        (f"http://{'a' * 70}.test?key=canary", "is not a URL"),
    ],
)
def test_what_cannot_work_is_refused_with_a_hint_and_not_quoted(base: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_address(base, CHAT, file=FILE)

    assert caught.value.message.startswith(f"{FILE}: endpoint: The base URL {problem}")
    assert "http://127.0.0.1:8080" in caught.value.message
    assert "canary" not in caught.value.message
