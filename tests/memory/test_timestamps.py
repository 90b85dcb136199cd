from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from Middleware.core.messages import Message
from Middleware.memory.hashing import text_hash
from Middleware.memory.timestamps import (
    PLACEHOLDER,
    commit,
    generation_prompt,
    moment_of,
    span,
    stamp_of,
    summary,
    track,
    wait_for_reply,
    with_times,
)

NOW = datetime(2025, 9, 1, 12, 0, 0)
OLD = "(Monday, 2025-09-01 09:00:00)"


def user(text: str) -> Message:
    return Message("user", text)


def said(text: str) -> Message:
    return Message("assistant", text)


def times_of(messages: list[Message], stored: dict[str, Any]) -> list[str]:
    """What stands in front of each message."""
    timed = with_times(messages, stored)
    return [
        new.content.removesuffix(old.content).strip()
        for old, new in zip(messages, timed, strict=True)
    ]


def test_a_first_look_dates_messages_back_from_now_a_second_each() -> None:
    messages = [Message("system", "Be nice."), user("Hi"), said("Hello"), user("Bye")]
    stored: dict[str, Any] = {}

    track(messages, stored, NOW)

    assert times_of(messages, stored) == [
        "",
        "(Monday, 2025-09-01 11:59:58)",
        "(Monday, 2025-09-01 11:59:59)",
        "(Monday, 2025-09-01 12:00:00)",
    ]
    assert text_hash("Be nice.") not in stored, "instructions have no time"


def test_files_of_the_reference_are_read_and_gone_on_with() -> None:
    messages = [user("{Hi}"), said("Hello"), user("Bye")]
    stored = {text_hash("__WILMER_L_CURLY__Hi__WILMER_R_CURLY__"): OLD, text_hash("Hello"): OLD}

    track(messages, stored, NOW)

    assert stored == {
        text_hash("__WILMER_L_CURLY__Hi__WILMER_R_CURLY__"): OLD,
        text_hash("Hello"): OLD,
        text_hash("Bye"): stamp_of(NOW),
    }


def test_what_is_unknown_before_a_known_message_was_sent_just_before_it() -> None:
    messages = [user("Hi"), said("Hello"), user("Bye")]
    stored = {text_hash("Hello"): OLD}

    track(messages, stored, NOW)

    assert times_of(messages, stored)[0] == "(Monday, 2025-09-01 08:59:59)"


def test_equal_messages_have_times_of_their_own() -> None:
    stored: dict[str, Any] = {}
    track([user("ok")], stored, NOW)
    track([user("ok"), said("Sure"), user("ok")], stored, NOW + timedelta(hours=1))

    assert times_of([user("ok"), said("Sure"), user("ok")], stored) == [
        "(Monday, 2025-09-01 12:00:00)",
        "(Monday, 2025-09-01 12:59:59)",
        "(Monday, 2025-09-01 13:00:00)",
    ]


def test_the_waiting_time_goes_to_the_newest_reply_if_it_has_none() -> None:
    stored: dict[str, Any] = {}
    wait_for_reply(stored, NOW)

    track([user("Hi"), said("Hello"), user("Roland:")], stored, NOW + timedelta(hours=1))

    assert stored[text_hash("Hello")] == stamp_of(NOW)
    assert PLACEHOLDER not in stored
    assert text_hash("Roland:") not in stored, "what asks for a speaker is no message"


def test_a_waiting_time_is_dropped_when_there_is_nobody_to_have_it() -> None:
    stored: dict[str, Any] = {text_hash("Hello"): OLD}
    wait_for_reply(stored, NOW)

    track([user("Hi"), said("Hello"), user("Bye")], stored, NOW)

    assert stored[text_hash("Hello")] == OLD
    assert PLACEHOLDER not in stored


def test_a_reply_that_is_known_at_once_gets_the_waiting_time() -> None:
    stored: dict[str, Any] = {}
    wait_for_reply(stored, NOW)

    commit([user("Hi"), user("Roland:")], said("Roland: Hi"), stored, NOW + timedelta(hours=1))

    assert stored == {text_hash("Roland: Hi"): stamp_of(NOW)}


def test_a_reply_without_text_has_no_time() -> None:
    stored: dict[str, Any] = {}
    wait_for_reply(stored, NOW)

    commit([user("Hi")], said(" "), stored, NOW)

    assert stored == {}


def test_times_are_not_put_in_front_twice_and_never_of_instructions() -> None:
    messages = [Message("system", "x"), user(f"{OLD} Hi")]
    stored = {text_hash("x"): OLD, text_hash(f"{OLD} Hi"): OLD}

    assert list(with_times(messages, stored)) == messages


def test_relative_times_say_how_long_ago() -> None:
    stored = {text_hash("Hi"): OLD, text_hash("odd"): "last week"}

    timed = with_times([user("Hi"), user("odd"), user("new")], stored, NOW)

    assert [message.content for message in timed] == ["[Sent 3 hours ago] Hi", "odd", "new"]


@dataclass(frozen=True)
class Span:
    id: str
    ago: timedelta
    words: str


SPANS = [
    Span("the future", timedelta(hours=-1), "less than a minute"),
    Span("seconds", timedelta(seconds=59), "less than a minute"),
    Span("one minute", timedelta(seconds=61), "1 minute"),
    Span("hours alone", timedelta(hours=5), "5 hours"),
    Span("all parts", timedelta(days=2, hours=1, minutes=3), "2 days, 1 hour, 3 minutes"),
]


@pytest.mark.parametrize("case", [pytest.param(one, id=one.id) for one in SPANS])
def test_a_span_is_told_in_days_hours_and_minutes(case: Span) -> None:
    assert span(NOW - case.ago, NOW) == case.words


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ({}, ""),
        ({"a": "nonsense", PLACEHOLDER: OLD}, ""),
        ({"a": OLD, "b": OLD}, "[Time Context: The conversation started 3 hours ago.]"),
        (
            {"a": OLD, "b": "(Monday, 2025-09-01 11:59:00)"},
            "[Time Context: This conversation started 3 hours ago. "
            "The most recent message was sent 1 minute ago.]",
        ),
    ],
    ids=["nothing", "nothing that counts", "one time", "two times"],
)
def test_the_summary_tells_when_the_conversation_began(stored: dict[str, str], told: str) -> None:
    assert summary(stored, NOW) == told


def test_a_stamp_is_read_as_it_was_written() -> None:
    assert moment_of(stamp_of(NOW)) == NOW
    assert moment_of("(Monday, 2025-13-01 12:00:00)") is None
    assert moment_of(None) is None


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        (" Roland: ", "Roland:"),
        ("Hi", None),
        ("x" * 99 + ":", None),
        ("x" * 98 + ":", "x" * 98 + ":"),
    ],
)
def test_a_generation_prompt_is_short_and_ends_with_a_colon(text: str, prompt: str | None) -> None:
    assert generation_prompt([user(text)]) == prompt
