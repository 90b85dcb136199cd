from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.messages import Message
from Middleware.llm.injection import injection_of
from tests.llm.setups import endpoint

SYSTEM = {"addTextToStartOfSystem": True, "textToAddToStartOfSystem": "[S]"}
PROMPT = {"addTextToStartOfPrompt": True, "textToAddToStartOfPrompt": "[P]"}
COMPLETION = {"addTextToStartOfCompletion": True, "textToAddToStartOfCompletion": "[C]"}
OWN_TURN = {**COMPLETION, "ensureTextAddedToAssistantWhenChatCompletion": True}


def s(text: str) -> Message:
    return Message("system", text)


def u(text: str) -> Message:
    return Message("user", text)


def a(text: str) -> Message:
    return Message("assistant", text)


@dataclass(frozen=True)
class Injected:
    id: str
    keys: dict[str, Any]
    messages: list[Message]
    expected: list[Message]


INJECTED = [
    Injected(
        "in front of the first system message",
        SYSTEM,
        [s("one"), s("two"), u("hi")],
        [s("[S]one"), s("two"), u("hi")],
    ),
    Injected(
        "developer is a system message too",
        SYSTEM,
        [Message("developer", "one"), u("hi")],
        [Message("developer", "[S]one"), u("hi")],
    ),
    Injected("a new system message", SYSTEM, [u("hi")], [s("[S]"), u("hi")]),
    Injected(
        "in front of the last user message",
        PROMPT,
        [u("one"), u("two"), a("x")],
        [u("one"), u("[P]two"), a("x")],
    ),
    Injected("a new user message", PROMPT, [s("x")], [s("x"), u("[P]")]),
    Injected("appended to the assistant", OWN_TURN, [u("hi"), a("x")], [u("hi"), a("x[C]")]),
    Injected("a new assistant message", OWN_TURN, [u("hi")], [u("hi"), a("[C]")]),
    Injected("appended to whatever is last", COMPLETION, [u("hi")], [u("hi[C]")]),
    Injected(
        "all of them, in order",
        {**SYSTEM, **PROMPT, **OWN_TURN},
        [],
        [s("[S]"), u("[P]"), a("[C]")],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in INJECTED])
def test_texts_are_put_in(case: Injected) -> None:
    inject = injection_of(endpoint(**case.keys))
    before = list(case.messages)

    assert inject is not None
    assert list(inject(case.messages)) == case.expected
    assert case.messages == before


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {**SYSTEM, "addTextToStartOfSystem": False},
        {**PROMPT, "textToAddToStartOfPrompt": ""},
        {"ensureTextAddedToAssistantWhenChatCompletion": True},
    ],
    ids=["nothing set", "text without its flag", "flag without its text", "ensure alone"],
)
def test_without_a_flag_and_a_text_there_is_nothing_to_do(keys: dict[str, Any]) -> None:
    assert injection_of(endpoint(**keys)) is None
