from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import BackendRejected, ConfigError, RunCancelled
from Middleware.core.events import (
    Event,
    Finish,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    collect,
)
from Middleware.core.messages import Message
from Middleware.llm.backend import BackendSetup
from Middleware.llm.backends.scripted import ScriptedBackend
from Middleware.llm.connections import Connections, TimeLimits
from tests.llm.setups import Background, api_type, ask, endpoint


def scripted(**keys: Any) -> ScriptedBackend:
    return ScriptedBackend(
        BackendSetup(
            endpoint=endpoint("", **keys),
            api_type=api_type(type="scripted"),
            connections=Connections(),
            limits=TimeLimits(),
        )
    )


def says(model: ScriptedBackend, text: str) -> str:
    request = ask(messages=(Message("user", text),))
    return collect(model.complete(request, CancelToken())).text


@dataclass(frozen=True)
class Said:
    id: str
    keys: dict[str, Any]
    input: str
    expected: str


RULES = [
    {"match": "^hello", "reply": "Hi there"},
    {"match": r"(?i)order (\d+)", "reply": "You said: {input}!"},
    {"match": "hello", "reply": "never first"},
]

SAID = [
    Said("first rule", {"rules": RULES}, "hello world", "Hi there"),
    Said("the input in a reply", {"rules": RULES}, "ORDER 12 {x}", "You said: ORDER 12 {x}!"),
    Said("first match wins", {"rules": RULES}, "say hello", "never first"),
    Said("default", {"rules": RULES, "default": {"reply": "What?"}}, "bye", "What?"),
    Said("a rule without match", {"rules": [{"reply": "always"}]}, "x", "always"),
    Said("echo", {"script": "echo"}, " spaces  and\nlines ", " spaces  and\nlines "),
    Said("an input that looks like the variable", {"script": "echo"}, "a {input} b", "a {input} b"),
    Said("rules before the script", {"script": "echo", "rules": RULES}, "hello", "Hi there"),
    Said("default before the script", {"script": "echo", "default": {"reply": "d"}}, "x", "d"),
    Said("numbers written as text", {"rules": [{"reply": "x", "delayMs": "1"}]}, "a", "x"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SAID])
def test_replies(case: Said) -> None:
    assert says(scripted(**case.keys), case.input) == case.expected


def test_the_last_user_text_counts_whatever_follows_it() -> None:
    messages = (
        Message("user", "first"),
        Message("user", "second"),
        Message("tool", "5", (), (), "t"),
        Message("system", "note"),
    )
    events = scripted(script="echo").complete(ask(messages=messages), CancelToken())

    assert collect(events).text == "second"


def test_a_prompt_counts_where_there_are_no_messages() -> None:
    events = scripted(script="echo").complete(ask(messages=(), prompt="hi"), CancelToken())

    assert collect(events).text == "hi"


def test_tokens_are_words_and_usage_is_estimated() -> None:
    rule = {"reply": "one two\n three", "reasoning": "let me see"}

    events = list(scripted(rules=[rule]).complete(ask(), CancelToken()))

    assert events == [
        ReasoningDelta("let"),
        ReasoningDelta(" me"),
        ReasoningDelta(" see"),
        TextDelta("one"),
        TextDelta(" two"),
        TextDelta("\n three"),
        Finish("stop", Usage(prompt_tokens=1, completion_tokens=8, estimated=True)),
    ]


@given(st.text())
def test_the_words_put_together_are_the_text(text: str) -> None:
    assert says(scripted(script="echo"), text) == text


def test_tool_calls() -> None:
    rule = {"toolCalls": [{"name": "f", "arguments": {"x": 1}}, {"name": "g"}]}

    *calls, finish = scripted(rules=[rule]).complete(ask(), CancelToken())

    assert calls == [
        ToolCallDelta(0, '{"x":1}', "call_1_0", "f"),
        ToolCallDelta(1, "{}", "call_1_1", "g"),
    ]
    assert isinstance(finish, Finish)
    assert finish.reason == "tool_calls"


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_the_finish_reason_can_be_chosen(reason: str) -> None:
    model = scripted(rules=[{"reply": "x", "finishReason": reason}])

    assert collect(model.complete(ask(), CancelToken())).finish_reason == reason


@dataclass(frozen=True)
class Failing:
    id: str
    fail: dict[str, Any]
    before: list[Event]
    status: int
    message: str


ONE, TWO = TextDelta("one"), TextDelta(" two")
FAILING = [
    Failing(
        "at once", {"status": 503, "message": "busy"}, [], 503, "Endpoint 'fast' answered 503: busy"
    ),
    Failing(
        "after a token",
        {"status": 429, "afterTokens": 1},
        [ONE],
        429,
        "Endpoint 'fast' answered 429: This failure was scripted.",
    ),
    Failing(
        "after all tokens",
        {"afterTokens": 9},
        [ONE, TWO],
        502,
        "Endpoint 'fast' answered 500: This failure was scripted.",
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in FAILING])
def test_scripted_failures(case: Failing) -> None:
    model = scripted(rules=[{"reply": "one two", "fail": case.fail}])
    passed: list[Event] = []

    with pytest.raises(BackendRejected) as caught:
        passed += iter(model.complete(ask(), CancelToken()))

    assert passed == case.before
    assert (caught.value.status, caught.value.message) == (case.status, case.message)


def test_the_same_request_gets_the_same_answer() -> None:
    model = scripted(rules=[{"reply": "a b", "toolCalls": [{"name": "f"}]}])

    first, second = (list(model.complete(ask(), CancelToken())) for _ in range(2))

    assert first == second


@pytest.mark.parametrize(
    "rule",
    [{"reply": "x", "delayMs": 60_000}, {"reply": "x y", "tokenDelayMs": 60_000}],
    ids=["before the first token", "between tokens"],
)
def test_waiting_ends_when_the_run_is_cancelled(rule: dict[str, Any]) -> None:
    cancel = CancelToken()
    call = Background(lambda: list(scripted(rules=[rule]).complete(ask(), cancel)))
    cancel.cancel()

    assert isinstance(call.result(), RunCancelled)


@dataclass(frozen=True)
class Wrong:
    id: str
    keys: dict[str, Any]
    parts: tuple[str, ...] = field(default=())


WRONG = [
    Wrong(
        "a bad expression",
        {"rules": [{"reply": "x"}, {"match": "(", "reply": "y"}]},
        ("Endpoints/fast.json: rules[1].match: '(' is not a regular expression",),
    ),
    Wrong(
        "a delay that is no number",
        {"rules": [{"delayMs": "soon"}]},
        ("Endpoints/fast.json: rules[0].delayMs: ",),
    ),
    Wrong(
        "a failure that is none",
        {"default": {"fail": {"status": 200}}},
        ("Endpoints/fast.json: default.fail.status: ",),
    ),
    Wrong(
        "a call without a name",
        {"rules": [{"toolCalls": [{"arguments": {}}]}]},
        ("Endpoints/fast.json: rules[0].toolCalls[0].name: ",),
    ),
    Wrong("an unknown script", {"script": "mirror"}, ("Endpoints/fast.json: script: ", "echo")),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in WRONG])
def test_mistakes_are_told_when_the_endpoint_is_loaded(case: Wrong) -> None:
    with pytest.raises(ConfigError) as caught:
        scripted(**case.keys)

    assert all(part in caught.value.message for part in case.parts)


def test_no_rule_and_no_default_is_told_with_a_remedy() -> None:
    with pytest.raises(ConfigError, match="No rule matches the last user text"):
        says(scripted(rules=RULES), "nothing of that")
