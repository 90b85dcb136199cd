"""Cleaning conversations of calls that kept an agent going (front-doors §11.2)."""

from typing import Any

from Middleware.core.messages import Message, ToolCall
from Middleware.workflows.managers.liveness import LivenessCall, cleaned

OURS = LivenessCall("noop", {})


def calls(*pairs: tuple[str, str], text: str = "", arguments: str = "{}") -> Message:
    made = tuple(ToolCall(id=id, name=name, arguments=arguments) for id, name in pairs)
    return Message("assistant", text, tool_calls=made)


def result(id: str | None, text: str = "ok") -> Message:
    return Message("tool", text, tool_call_id=id)


USER = Message("user", "go")


def test_of_a_message_with_other_calls_only_ours_go() -> None:
    messages = (USER, calls(("a", "noop"), ("b", "ls")), result("a"), result("b"), USER)

    assert cleaned(messages, OURS) == (USER, calls(("b", "ls")), result("b"), USER)


def test_what_was_said_beside_a_call_stays() -> None:
    messages = (USER, calls(("a", "noop"), text="Working."), result("a"), USER)

    assert cleaned(messages, OURS) == (USER, calls(text="Working."), USER)


def test_results_without_an_id_go_with_their_calls_one_for_each() -> None:
    messages = (USER, calls(("a", "noop")), result(None), result(None, "other"), USER)

    assert cleaned(messages, OURS) == (USER, result(None, "other"), USER)


def test_a_mark_in_the_arguments_makes_a_call_ours() -> None:
    marked = calls(("a", "bash"), arguments='{"command": "echo [Wilmer]"}')

    assert cleaned((USER, marked, result("a"), USER), OURS) == (USER, USER)


def test_the_last_exchange_stays_though_a_filler_follows() -> None:
    messages = (USER, calls(("a", "noop")), result("a"), Message("assistant", "Assistant:"))

    assert cleaned(messages, OURS) == messages


def test_two_times_is_no_repetition_and_three_times_is() -> None:
    pair = (calls(("a", "ls")), result("a", "x  y"))
    twice, thrice = (USER, *pair, *pair, USER), (USER, *pair, *pair, *pair, USER)

    assert cleaned(twice, OURS) == twice
    shortened = cleaned(thrice, OURS)
    assert len(shortened) == 4
    assert "3 times" in shortened[2].content


def test_other_arguments_or_results_are_no_repetition() -> None:
    pairs = [part for number in range(4) for part in (calls(("a", "ls")), result("a", str(number)))]

    assert cleaned((USER, *pairs), OURS) == (USER, *pairs)


def test_only_a_name_makes_a_setting() -> None:
    assert LivenessCall.parse({"toolName": "noop"}) == LivenessCall("noop", {})
    refused: tuple[Any, ...] = (None, "noop", {}, {"toolName": ""}, {"toolName": 5}, [])
    for wrong in refused:
        assert LivenessCall.parse(wrong) is None
