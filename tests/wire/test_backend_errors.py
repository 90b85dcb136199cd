from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.wire.backend_errors import BackendVoice, message_in

VOICE = BackendVoice("fast", ("sk-canary-123", "k"))


@dataclass(frozen=True)
class Body:
    id: str
    data: bytes
    expected: str


BODIES = [
    Body("openai", b'{"error":{"message":"slow down","type":"x"}}', "slow down"),
    Body("a text", b'{"error":"slow down"}', "slow down"),
    Body("google wraps it in a list", b'[{"error":{"message":"slow down"}}]', "slow down"),
    Body("fastapi", b'{"detail":"slow down"}', "slow down"),
    Body("fastapi, validation", b'{"detail":[{"msg":"a"},{"msg":"b"}]}', "a; b"),
    Body("vllm", b'{"object":"error","message":"slow down","code":429}', "slow down"),
    Body("an error inside an error", b'{"error":{"error":{"message":"deep"}}}', "deep"),
    Body("no json", b" <h1>Bad <b>Gateway</b></h1> ", "Bad Gateway"),
    Body("nothing", b"", ""),
    Body("null", b"null", ""),
    Body("half a surrogate pair", rb'{"error":"\ud800"}', "\ufffd"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in BODIES])
def test_what_a_backend_says_is_found(case: Body) -> None:
    assert message_in(case.data) == case.expected


@dataclass(frozen=True)
class Reported:
    id: str
    error: Any
    status: int
    message: str


REPORTED = [
    Reported("a code", {"message": "m", "code": 429}, 429, "Endpoint 'fast' answered 429: m"),
    Reported(
        "a code as text", {"message": "m", "code": "429"}, 429, "Endpoint 'fast' answered 429: m"
    ),
    Reported(
        "a type",
        {"message": "m", "type": "rate_limit_error"},
        429,
        "Endpoint 'fast' answered 429: m",
    ),
    Reported(
        "overloaded",
        {"message": "m", "type": "overloaded_error"},
        503,
        "Endpoint 'fast' answered 503: m",
    ),
    Reported(
        "our key is at fault", {"message": "m", "code": 401}, 502, "Endpoint 'fast' answered 401: m"
    ),
    Reported(
        "the prompt is too long",
        {"message": "m", "code": "context_length_exceeded"},
        400,
        "Endpoint 'fast' answered 400: m",
    ),
    Reported(
        "another server error",
        {"message": "m", "code": 500},
        502,
        "Endpoint 'fast' answered 500: m",
    ),
    Reported("no status", {"message": "m"}, 502, "Endpoint 'fast' reported an error: m"),
    Reported("only a text", "runner broke", 502, "Endpoint 'fast' reported an error: runner broke"),
    Reported("no reason", {}, 502, "Endpoint 'fast' reported an error: no reason was given"),
    Reported(
        "a key in it", "bad sk-canary-123!", 502, "Endpoint 'fast' reported an error: bad ***!"
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in REPORTED])
def test_an_error_inside_an_answer_gets_the_status_it_names(case: Reported) -> None:
    error = VOICE.reported(case.error)

    assert (error.status, error.message) == (case.status, case.message)


def test_a_refusal_is_short_and_on_one_line() -> None:
    error = VOICE.refused(400, b"x\n" * 1000)

    assert len(error.message) < 350
    assert "\n" not in error.message


def test_a_key_is_hidden_before_the_text_is_cut() -> None:
    error = VOICE.refused(400, b"x" * 290 + b"sk-canary-123")

    assert "sk-can" not in error.message


def test_a_word_that_is_too_short_for_a_key_stays_readable() -> None:
    assert VOICE.refused(500, b"kraken").message == "Endpoint 'fast' answered 500: kraken"


def test_nonsense_goes_to_the_log_only_and_shortened() -> None:
    error = VOICE.nonsense("did not answer with JSON.", b"<html>sk-canary-123" + b"x" * 1000)

    assert error.message == "Endpoint 'fast' did not answer with JSON."
    assert error.detail is not None
    assert error.detail.startswith("<html>***x")
    assert len(error.detail) == 200


def test_the_wish_to_wait_is_passed_on() -> None:
    assert VOICE.refused(429, b"{}", retry_after="7").retry_after == "7"
