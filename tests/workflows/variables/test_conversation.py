from dataclasses import dataclass, replace
from typing import Any

import pytest

from Middleware.config.models import PromptTemplate
from Middleware.core.messages import Message, ToolCall
from Middleware.workflows.variables.conversation import (
    CONVERSATION_VARIABLES,
    Conversation,
    ConversationRules,
)

TALK = (
    Message("system", "S1"),
    Message("developer", "S2"),
    Message("user", "u1"),
    Message("assistant", "a1"),
    Message("system", "S3"),
    Message("user", "u2"),
)
ONLY_SYSTEM = (Message("system", "S1"), Message("system", "S2"))
LONG = tuple(Message("user", f"m{n}") for n in range(30))


def template(name: str) -> PromptTemplate:
    return PromptTemplate.model_validate(
        {
            "promptTemplateSystemPrefix": f"<{name}:S>",
            "promptTemplateSystemSuffix": "</S>",
            "promptTemplateUserPrefix": f"<{name}:U>",
            "promptTemplateUserSuffix": "</U>",
            "promptTemplateAssistantPrefix": f"<{name}:A>",
            "promptTemplateAssistantSuffix": "</A>",
            "promptTemplateToolPrefix": f"<{name}:T>",
        }
    )


CHAT = ConversationRules()
TEXT = ConversationRules(
    chat_endpoint=False,
    endpoint_template=lambda: template("e"),
    user_template=lambda: template("u"),
)


@dataclass(frozen=True)
class Shown:
    id: str
    name: str
    expected: str
    rules: ConversationRules = CHAT
    messages: tuple[Message, ...] = TALK


CHAT_ENDPOINT = [
    Shown("last one", "chat_user_prompt_last_one", "u2"),
    Shown("later system messages count", "chat_user_prompt_last_two", "S3\nu2"),
    Shown("leading ones do not", "chat_user_prompt_last_ten", "u1\na1\nS3\nu2"),
    Shown(
        "twenty",
        "chat_user_prompt_last_twenty",
        "\n".join(f"m{n}" for n in range(10, 30)),
        messages=LONG,
    ),
    Shown("three", "chat_user_prompt_last_three", "m27\nm28\nm29", messages=LONG),
    Shown("four", "chat_user_prompt_last_four", "m26\nm27\nm28\nm29", messages=LONG),
    Shown("five", "chat_user_prompt_last_five", "m25\nm26\nm27\nm28\nm29", messages=LONG),
    Shown("nothing but system", "chat_user_prompt_last_five", "S1\nS2", messages=ONLY_SYSTEM),
    Shown(
        "n messages", "chat_user_prompt_n_messages", "m28\nm29", replace(CHAT, n_messages=2), LONG
    ),
    Shown("no messages", "chat_user_prompt_n_messages", "", replace(CHAT, n_messages=0), LONG),
    Shown("system prompt", "chat_system_prompt", "S1 S2"),
    Shown("system prompt, templated", "templated_system_prompt", "S1 S2"),
    Shown("without system", "chat_user_prompt_without_system", "u1\na1\nu2"),
    Shown("templated drops every system message", "templated_user_prompt_last_ten", "u1\na1\nu2"),
    Shown("templated without system", "templated_user_prompt_without_system", "u1\na1\nu2"),
    Shown(
        "templated, nothing but system", "templated_user_prompt_last_one", "", messages=ONLY_SYSTEM
    ),
    Shown(
        "separator", "chat_user_prompt_last_two", "S3\n--\nu2", replace(CHAT, separator="\n--\n")
    ),
    Shown(
        "separator, templated",
        "templated_user_prompt_last_two",
        "a1|u2",
        replace(CHAT, separator="|"),
    ),
    Shown(
        "tags",
        "chat_user_prompt_last_ten",
        "User: u1\nAssistant: a1\nSystem: S3\nUser: u2",
        replace(CHAT, tags=True),
    ),
    Shown(
        "tag of a tool and of others",
        "chat_user_prompt_last_two",
        "Tool Result: 5\nx",
        replace(CHAT, tags=True),
        (Message("tool", "5"), Message("systemMes", "x")),
    ),
    Shown(
        "templated has no tags", "templated_user_prompt_last_one", "u2", replace(CHAT, tags=True)
    ),
    Shown(
        "markers go from templated",
        "templated_user_prompt_last_one",
        "x",
        messages=(Message("user", "[Beg_Sys][Beg_User][Beg_Assistant][Beg_SysMes]x"),),
    ),
    Shown(
        "markers stay in chat",
        "chat_user_prompt_last_one",
        "[Beg_User]x",
        messages=(Message("user", "[Beg_User]x"),),
    ),
    Shown(
        "null content beside tool calls (C-28)",
        "chat_user_prompt_last_two",
        "\n5",
        messages=(
            Message("assistant", tool_calls=(ToolCall(id="t", name="n", arguments=""),)),
            Message("tool", "5", tool_call_id="t"),
        ),
    ),
]
TEXT_ENDPOINT = [
    Shown("drops every system message", "chat_user_prompt_last_two", "a1\nu2", TEXT),
    Shown("nothing but system", "chat_user_prompt_last_five", "", TEXT, ONLY_SYSTEM),
    Shown(
        "system prompt has all, in the user's template",
        "chat_system_prompt",
        "<u:S>S1 S2 S3</S>",
        TEXT,
    ),
    Shown("system prompt in the endpoint's", "templated_system_prompt", "<e:S>S1 S2 S3</S>", TEXT),
    Shown(
        "without system in the user's",
        "chat_user_prompt_without_system",
        "<u:U>u1</U><u:A>a1</A><u:U>u2</U>",
        TEXT,
    ),
    Shown(
        "templated without system in the endpoint's",
        "templated_user_prompt_without_system",
        "<e:U>u1</U><e:A>a1</A><e:U>u2</U>",
        TEXT,
    ),
    Shown("templated", "templated_user_prompt_last_two", "<e:A>a1</A><e:U>u2</U>", TEXT),
    Shown(
        "the model goes on with an assistant message",
        "templated_user_prompt_last_ten",
        "<e:U>u1</U><e:A>a1",
        TEXT,
        TALK[:4],
    ),
    Shown(
        "roles of the file's own keys",
        "templated_user_prompt_last_one",
        "<e:T>5",
        TEXT,
        (Message("tool", "5"),),
    ),
    Shown(
        "the user's template where the endpoint has none",
        "templated_user_prompt_last_one",
        "<u:U>u2</U>",
        replace(TEXT, endpoint_template=None),
    ),
    Shown(
        "no template at all",
        "templated_user_prompt_last_two",
        "a1u2",
        replace(TEXT, endpoint_template=None, user_template=None),
    ),
]


def sized(*tokens: int) -> tuple[Message, ...]:
    """Messages of about so many estimated tokens, named by their place."""
    return tuple(
        Message("user", f"{place}" + "x" * (int(count / 1.1 * 3.5 + 2) - 1))
        for place, count in enumerate(tokens)
    )


def places(text: str) -> str:
    return "".join(character for character in text if character.isdigit())


SIZES = [
    Shown(
        "sum within the limit",
        "chat_user_prompt_estimated_token_limit",
        "23",
        replace(CHAT, estimated_tokens=120),
        sized(100, 100, 50, 50),
    ),
    Shown(
        "at least the newest",
        "chat_user_prompt_estimated_token_limit",
        "3",
        replace(CHAT, estimated_tokens=10),
        sized(1, 1, 1, 50),
    ),
    Shown(
        "stops at the first that does not fit",
        "chat_user_prompt_estimated_token_limit",
        "3",
        replace(CHAT, estimated_tokens=60),
        sized(1, 1, 100, 50),
    ),
    Shown(
        "a number of messages whatever their size",
        "chat_user_prompt_min_n_max_tokens",
        "23",
        replace(CHAT, min_messages=2, max_tokens=60),
        sized(1, 1, 100, 50),
    ),
    Shown(
        "and more while they fit",
        "chat_user_prompt_min_n_max_tokens",
        "123",
        replace(CHAT, min_messages=2, max_tokens=170),
        sized(100, 50, 50, 50),
    ),
    Shown(
        "templated by tokens",
        "templated_user_prompt_estimated_token_limit",
        "23",
        replace(CHAT, estimated_tokens=120),
        sized(100, 100, 50, 50),
    ),
    Shown(
        "templated by number and tokens",
        "templated_user_prompt_min_n_max_tokens",
        "123",
        replace(CHAT, min_messages=2, max_tokens=170),
        sized(100, 50, 50, 50),
    ),
    Shown(
        "the level raises a limit",
        "chat_user_prompt_estimated_token_limit",
        "23",
        replace(CHAT, estimated_tokens=60, window_budget=999, level=1.85),
        sized(50, 50, 50, 50),
    ),
    Shown(
        "the level is nothing without the clamp",
        "chat_user_prompt_estimated_token_limit",
        "3",
        replace(CHAT, estimated_tokens=60, level=1.85),
        sized(50, 50, 50, 50),
    ),
    Shown(
        "the window caps a limit",
        "chat_user_prompt_estimated_token_limit",
        "3",
        replace(CHAT, estimated_tokens=999, window_budget=60),
        sized(50, 50, 50, 50),
    ),
    Shown(
        "the window bounds a number of messages",
        "chat_user_prompt_last_ten",
        "23",
        replace(CHAT, window_budget=120),
        sized(50, 50, 50, 50),
    ),
    Shown(
        "the newest is kept whatever the window",
        "chat_user_prompt_last_ten",
        "3",
        replace(CHAT, window_budget=-512),
        sized(50, 50, 50, 50),
    ),
    Shown(
        "the least number yields to the window",
        "chat_user_prompt_min_n_max_tokens",
        "23",
        replace(CHAT, min_messages=4, window_budget=120),
        sized(50, 50, 50, 50),
    ),
]


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=f"{c.name}: {c.id}") for c in [*CHAT_ENDPOINT, *TEXT_ENDPOINT]]
)
def test_value(case: Shown) -> None:
    assert Conversation(case.messages, case.rules).value(case.name) == case.expected


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SIZES])
def test_which_messages_fit(case: Shown) -> None:
    text = Conversation(case.messages, case.rules).value(case.name)

    assert places(text) == case.expected


def call(call_id: str, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


@dataclass(frozen=True)
class Told:
    id: str
    message: Message
    expected: str


CALLS = (call("t1", "read", '{"n": 1, "path": "a.rs"}'), call("t2", "", '{"n": 1}'))
TOLD = [
    Told("call", Message("assistant", tool_calls=CALLS[:1]), "[Tool Call: read] a.rs"),
    Told(
        "calls behind text",
        Message("assistant", "I look.", tool_calls=CALLS),
        'I look.\n[Tool Call: read] a.rs\n[Tool Call: unknown] {"n": 1}',
    ),
    Told(
        "arguments that are no json",
        Message("assistant", tool_calls=(call("t", "f", "{" * 300),)),
        f"[Tool Call: f] {'{' * 200}",
    ),
    Told(
        "a long argument",
        Message("assistant", tool_calls=(call("t", "f", '{"a": "%s"}' % ("y" * 300)),)),
        f"[Tool Call: f] {'y' * 200}",
    ),
    Told(
        "arguments that are a list",
        Message("assistant", tool_calls=(call("t", "f", '["a"]'),)),
        '[Tool Call: f] ["a"]',
    ),
    Told(
        "result", Message("tool", "fn main", tool_call_id="t1"), "[Tool Result: read a.rs] fn main"
    ),
    Told("result by name", Message("tool", "5", name="add"), "[Tool Result: add] 5"),
    Told("result of nobody", Message("tool", "5"), "[Tool Result: unknown_tool] 5"),
    Told("other messages", Message("user", "hi"), "hi"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in TOLD])
def test_tool_calls_as_text(case: Told) -> None:
    talk = (Message("assistant", tool_calls=CALLS), case.message)
    rules = replace(CHAT, include_tool_calls=True)

    assert Conversation(talk, rules).value("chat_user_prompt_last_one") == case.expected


def test_tool_calls_stay_out_of_the_whole_conversation() -> None:
    talk = (Message("user", "u"), Message("assistant", tool_calls=CALLS))
    rules = replace(CHAT, include_tool_calls=True)

    assert Conversation(talk, rules).value("chat_user_prompt_without_system") == "u\n"


@pytest.mark.parametrize("name", sorted(CONVERSATION_VARIABLES))
def test_a_prompt_template_is_loaded_only_where_it_is_needed(name: str) -> None:
    def missing() -> Any:
        raise AssertionError("a template was loaded")

    rules = ConversationRules(endpoint_template=missing, user_template=missing)

    assert isinstance(Conversation(TALK, rules).value(name), str)


def test_a_text_endpoint_joins_without_a_template() -> None:
    def missing() -> Any:
        raise AssertionError("a template was loaded")

    rules = ConversationRules(chat_endpoint=False, endpoint_template=missing)

    assert Conversation(TALK, rules).value("chat_user_prompt_last_one") == "u2"
