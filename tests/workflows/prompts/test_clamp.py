import logging
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Middleware.config.models import Endpoint, User
from Middleware.core.messages import Message, ToolCall
from Middleware.workflows.prompts.clamp import (
    ClampSettings,
    clamp,
    clamp_messages,
    fit_response_budget,
    message_tokens,
    resolve_clamp,
)

CALLS = (ToolCall(id="t1", name="add", arguments="{}"),)


def sized(role: str, tokens: int, name: str = "") -> Message:
    """A message whose cost is ``tokens``."""
    message = Message(role, name + "x" * (int((tokens - 8) / 1.1 * 3.5 + 2) - len(name)))
    assert message_tokens(message) == tokens
    return message


def calling(tokens: int) -> Message:
    return Message(
        "assistant",
        "",
        tool_calls=(ToolCall(id="t", name="", arguments="x" * int((tokens - 8) / 1.1 * 3.5 + 2)),),
    )


S = sized("system", 100)
U = [sized("user", 50, f"u{n}") for n in range(4)]
A = [sized("assistant", 50, f"a{n}") for n in range(4)]
CALL, RESULT, RESULT2 = calling(50), sized("tool", 50, "r1"), sized("tool", 50, "r2")


@dataclass(frozen=True)
class Clamped:
    id: str
    messages: list[Message]
    budget: int
    expected: list[Message]


CLAMPED = [
    Clamped("all fit", [U[0], A[0], U[1]], 150, [U[0], A[0], U[1]]),
    Clamped("the oldest goes", [U[0], A[0], U[1]], 149, [A[0], U[1]]),
    Clamped("system stays and is not counted", [S, U[0], A[0], U[1]], 100, [S, A[0], U[1]]),
    Clamped("the newest stays whatever its size", [U[0], U[1]], 10, [U[1]]),
    Clamped("a budget below nothing", [S, U[0], U[1]], -512, [S, U[1]]),
    Clamped(
        "the question stays, the middle goes",
        [U[0], A[0], U[1], A[1], A[2], A[3]],
        110,
        [U[1], A[3]],
    ),
    Clamped("a gap ends it", [U[0], sized("assistant", 90), A[1], U[1]], 150, [A[1], U[1]]),
    Clamped(
        "an exchange stays whole",
        [U[0], CALL, RESULT, RESULT2, U[1]],
        200,
        [CALL, RESULT, RESULT2, U[1]],
    ),
    Clamped("an exchange goes whole", [U[0], CALL, RESULT, RESULT2, U[1]], 199, [U[1]]),
    Clamped(
        "a trailing exchange stays whole",
        [U[0], A[0], U[1], CALL, RESULT],
        60,
        [U[1], CALL, RESULT],
    ),
    Clamped("results without their call", [RESULT, RESULT2, U[1]], 100, [U[1]]),
    Clamped("system in mid-conversation is counted", [U[0], S, U[1]], 60, [U[1]]),
    Clamped("only system", [S, S], 0, [S, S]),
    Clamped("nothing", [], 0, []),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CLAMPED])
def test_what_stays(case: Clamped) -> None:
    kept, dropped = clamp_messages(case.messages, case.budget)

    assert (list(kept), dropped) == (case.expected, len(case.messages) - len(case.expected))


def test_the_tokens_of_what_stayed_are_told() -> None:
    assert clamp([S, U[0], A[0], U[1]], 100).tokens == 100
    assert clamp([S, U[0], A[0], U[1]], 10).tokens == 50


def test_the_front_of_a_long_conversation_does_not_disappear() -> None:
    """C-30."""
    system = Message("system", "Code word: PINE-7")
    middle = [Message("user" if n % 2 else "assistant", f"{n} " + "word " * 40) for n in range(398)]
    last = Message("user", "What is the code word?")
    budget = ClampSettings(window_tokens=4096).window_budget - message_tokens(system)

    kept, dropped = clamp_messages([system, *middle, last], budget)

    assert (kept[0], kept[-1]) == (system, last)
    assert list(kept[1:-1]) == middle[dropped:]
    assert sum(map(message_tokens, kept)) <= 4096 - 400
    assert dropped > 300


# No deadline: the machines that run this are shared.
seeded = settings(deadline=None, derandomize=True)

roles = st.sampled_from(["system", "user", "assistant", "call", "tool", "systemMes"])


@seeded
@given(st.lists(st.tuples(roles, st.integers(0, 60)), max_size=25), st.integers(-50, 400))
def test_no_pair_is_cut_and_what_must_stay_stays(shape: list[tuple[str, int]], budget: int) -> None:
    messages = [
        Message("assistant", "y" * size, tool_calls=CALLS)
        if role == "call"
        else Message(role, "x" * size)
        for role, size in shape
    ]

    kept = clamp(messages, budget).messages

    ids = [id(message) for message in kept]
    assert [id(m) for m in messages if id(m) in set(ids)] == ids
    assert messages[-1:] == list(kept[-1:])
    users = [m for m in messages if m.role == "user"]
    assert not users or id(users[-1]) in ids
    for call, result in pairwise(messages):
        if result.role == "tool" and (call.tool_calls or call.role == "tool"):
            assert (id(call) in ids) == (id(result) in ids)


@dataclass(frozen=True)
class Resolved:
    id: str
    expected: ClampSettings | None
    node: dict[str, Any] = field(default_factory=dict)
    endpoint: dict[str, Any] = field(default_factory=dict)
    user: bool = True


def clamp_of(window: int = 4096, response: int = 400, level: float = 1.0) -> ClampSettings:
    return ClampSettings(window_tokens=window, response_tokens=response, level=level)


FLAG = "clampPromptToContextWindow"
RESOLVED = [
    Resolved("off", None, user=False),
    Resolved("the user says so", clamp_of()),
    Resolved("the endpoint says no", None, endpoint={FLAG: False}),
    Resolved("the endpoint says yes", clamp_of(), endpoint={FLAG: "on"}, user=False),
    Resolved("the node says no", None, node={FLAG: "no"}, endpoint={FLAG: True}),
    Resolved("the node says yes", clamp_of(), node={FLAG: True}, endpoint={FLAG: False}),
    Resolved("yes as text", clamp_of(), node={FLAG: " YES "}, user=False),
    Resolved("null inherits", clamp_of(), node={FLAG: None}),
    Resolved("no window", None, endpoint={"maxContextTokenSize": None}),
    Resolved("no sensible window", None, endpoint={"maxContextTokenSize": 0}),
    Resolved("reply budget", clamp_of(response=1000), node={"maxResponseSizeInTokens": "1000"}),
    Resolved("level", clamp_of(level=1.5), endpoint={"wilmerContextEstimationLevel": "Aggressive"}),
    Resolved("a node's smaller window", clamp_of(window=2048), node={"maxContextTokenSize": 2048}),
    Resolved("a node's larger window", clamp_of(), node={"maxContextTokenSize": 9999}),
    Resolved("a node's window that is no number", clamp_of(), node={"maxContextTokenSize": "{x}"}),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in RESOLVED])
def test_whether_and_how_the_clamp_is_on(case: Resolved) -> None:
    endpoint = Endpoint.model_validate({"maxContextTokenSize": 4096, **case.endpoint})
    user = User.model_validate({FLAG: case.user})

    assert resolve_clamp(case.node, endpoint, user) == case.expected


def test_an_unknown_level_is_the_careful_one_and_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint = Endpoint(
        name="Big", max_context_token_size=100, wilmer_context_estimation_level="bold"
    )

    with caplog.at_level(logging.WARNING):
        found = resolve_clamp({FLAG: True}, endpoint, User())

    assert found == clamp_of(window=100)
    assert "Big" in caplog.text
    assert "bold" in caplog.text


@pytest.mark.parametrize(
    ("clamp_settings", "budget"),
    [
        (clamp_of(), 4096 - 400 - 512),
        (clamp_of(level=1.25), int(3696 * 1.25) - 512),
        (clamp_of(window=700), -212),
        (clamp_of(response=15821), 4096 - 512),
    ],
    ids=["plain", "level", "small window", "reply budget beyond the window (C-31)"],
)
def test_the_budget_of_a_window(clamp_settings: ClampSettings, budget: int) -> None:
    assert clamp_settings.window_budget == budget


@dataclass(frozen=True)
class Fitted:
    id: str
    asked: int
    window: int | None
    prompt: int
    expected: int


FITTED = [
    Fitted("C-31", 15821, 4096, 3000, 1096),
    Fitted("as large as the window", 4096, 4096, 1000, 3096),
    Fitted("smaller than the window", 4000, 4096, 3000, 4000),
    Fitted("no window known", 15821, None, 3000, 15821),
    Fitted("no room left", 15821, 4096, 9000, 512),
    Fitted("no room left in a small window", 15821, 400, 9000, 100),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in FITTED])
def test_a_reply_budget_that_cannot_be_is_lowered(case: Fitted) -> None:
    fitted = fit_response_budget(case.asked, window_tokens=case.window, prompt_tokens=case.prompt)

    assert fitted == case.expected
