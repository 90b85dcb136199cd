"""Cancelling requests from outside."""

import pytest

from Middleware.api.admission import ENVIRON_CALLER
from Middleware.api.running import Running, plain_key, scope_of
from Middleware.core.cancellation import CancelToken
from Middleware.core.messages import Caller


def test_only_who_asked_may_cancel() -> None:
    running, cancel = Running(), CancelToken()
    handle = running.add("r1", "me", cancel)

    assert not running.cancel("r1", "you")
    assert not running.cancel("r2", "me")
    assert not cancel.cancelled
    assert running.cancel("r1", "me")
    assert cancel.cancelled
    running.forget(handle)
    running.forget(handle)
    assert len(running) == 0
    assert not running.cancel("r1", "me")


def test_a_key_displaces_the_request_of_the_same_caller() -> None:
    running = Running()
    first, other, second = CancelToken(), CancelToken(), CancelToken()
    old = running.add("r1", "me", first, "k")
    running.add("r2", "you", other, "k")
    running.add("r3", "me", second, "k")
    running.forget(old)

    assert [first.cancelled, other.cancelled, second.cancelled] == [True, False, False]
    third = CancelToken()
    running.add("r4", "me", third, "k")
    assert second.cancelled


@pytest.mark.parametrize(
    ("given", "key"),
    [
        (None, None),
        ("", None),
        ("  ", None),
        (" k ", "k"),
        ("x" * 128, "x" * 128),
        ("x" * 129, None),
    ],
)
def test_keys_that_count(given: str | None, key: str | None) -> None:
    assert plain_key(given) == key


def test_callers_are_told_apart_by_key_name_or_key() -> None:
    named = {ENVIRON_CALLER: Caller(user="bob", key_name="phone"), "HTTP_X_API_KEY": "a"}
    scopes = {
        scope_of(named),
        scope_of({"HTTP_X_API_KEY": "a"}),
        scope_of({"HTTP_AUTHORIZATION": "Bearer b"}),
        scope_of({}),
    }

    assert len(scopes) == 4
    assert scope_of({"HTTP_AUTHORIZATION": "Bearer a"}) == scope_of({"HTTP_X_API_KEY": "a"})
    assert scope_of({"HTTP_X_API_KEY": "a"}) != "a"
