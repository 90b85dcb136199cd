import pytest

from Middleware.core.errors import ConfigError
from Middleware.llm.addresses import parse_address
from Middleware.llm.credentials import bearer_headers, voice_of
from tests.llm.setups import endpoint

FILE = "Endpoints/fast.json"


def header(key: str, url: str = "http://h") -> str | None:
    address = parse_address(url, "/v1/x", file=FILE)
    return bearer_headers(endpoint(url, apiKey=key), address, file=FILE).get("Authorization")


@pytest.mark.parametrize(
    ("key", "url", "expected"),
    [
        ("sk-1", "http://h", "Bearer sk-1"),
        (" sk-1\r\n", "http://h", "Bearer sk-1"),
        ("", "http://h", None),
        ("", "http://a:b@h", "Basic YTpi"),
        ("sk-1", "http://a:b@h", "Bearer sk-1"),
    ],
    ids=["a key", "with a line end from a file", "none", "in the URL", "both"],
)
def test_the_header_with_the_key(key: str, url: str, expected: str | None) -> None:
    assert header(key, url) == expected


@pytest.mark.parametrize("key", ["canary\r\nX-Evil: 1", "canary\u201d", "canary\x00"], ids=repr)
def test_a_key_that_no_header_can_hold_is_a_mistake_in_the_file(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        header(key)

    assert caught.value.message.startswith(f"{FILE}: apiKey: ")
    assert "canary" not in caught.value.message


def test_no_secret_is_said() -> None:
    url = "http://me:pass-canary@h/v1?key=query-canary"
    keyed = endpoint(url, apiKey="bearer-canary\n")
    voice = voice_of(keyed, parse_address(url, "/v1/x", file=FILE))

    said = voice.refused(400, b"pass-canary key=query-canary bearer-canary query-canary").message

    assert "canary" not in said
