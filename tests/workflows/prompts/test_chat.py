from dataclasses import dataclass, replace

import pytest

from Middleware.core.messages import Message, ToolCall
from Middleware.workflows.prompts.chat import (
    ChatPrompt,
    PromptRules,
    build_chat,
    chat_messages,
    split_tool_exchange,
)
from Middleware.workflows.prompts.clamp import ClampSettings, message_tokens


def call(call_id: str) -> Message:
    return Message("assistant", tool_calls=(ToolCall(id=call_id, name="f", arguments="{}"),))


def result(call_id: str) -> Message:
    return Message("tool", f"result of {call_id}", tool_call_id=call_id)


def user(text: str, *images: str) -> Message:
    return Message("user", text, images=images)


def assistant(text: str) -> Message:
    return Message("assistant", text)


S, S2, OWN = Message("system", "client"), Message("system", "later"), Message("system", "own")
U1, A1, U2, A2, U3 = user("u1"), assistant("a1"), user("u2"), assistant("a2"), user("u3")
C1, R1, C2, R2 = call("t1"), result("t1"), call("t2"), result("t2")
DEFAULT = PromptRules()
INSERT = PromptRules(insert_user_turn=True, inserted_user_turn="Go on.")


@dataclass(frozen=True)
class Sent:
    id: str
    conversation: list[Message]
    expected: list[Message]
    rules: PromptRules = DEFAULT
    system_prompt: str = ""


CONVERSATION_MODE = [
    Sent("smallest", [U1], [U1]),
    Sent("own system prompt, not the client's", [S, U1], [OWN, U1], system_prompt="own"),
    Sent("the client's is not sent", [S, U1], [U1]),
    Sent(
        "later system messages are sent and counted",
        [S, U1, A1, S2, U2],
        [S2, U2],
        PromptRules(last_messages=2),
    ),
    Sent("last five", [U1, A1, U1, A1, U2, A2, U3], [U1, A1, U2, A2, U3]),
    Sent("more than there are", [S, U1, A1], [U1, A1], PromptRules(last_messages=99)),
    Sent(
        "none, but a request needs a user message",
        [U1, A1, U2],
        [OWN, U2],
        PromptRules(last_messages=0),
        "own",
    ),
    Sent("nothing but system messages", [S, S2], [S, S2]),
    Sent(
        "the user message comes back, after leading system messages",
        [U1, U2, A1, S2],
        [OWN, S2, U2],
        PromptRules(last_messages=1),
        "own",
    ),
    Sent("empty conversation", [], [OWN], system_prompt="own"),
    Sent(
        "an exchange at the edge is sent whole",
        [U1, C1, R1, R1, U2],
        [C1, R1, R1, U2],
        PromptRules(last_messages=2),
    ),
    Sent(
        "a tool loop without a user message",
        [U1, C1, R1, C2, R2],
        [U1, C1, R1, C2, R2],
        PromptRules(last_messages=4),
    ),
    Sent("results without a call", [U1, R1, U2], [R1, U2], PromptRules(last_messages=2)),
    Sent(
        "token ceiling",
        [U1, A1, user("x" * 350), A2, U3],
        [A2, U3],
        PromptRules(last_messages_tokens=50),
    ),
]
CEILING = [
    Sent(
        "at least one",
        [U1, A1, user("x" * 350)],
        [user("x" * 350)],
        PromptRules(last_messages_tokens=50),
    ),
    Sent(
        "scaled by the level of the clamp",
        [U1, A1, user("x" * 350), U2],
        [U1, A1, user("x" * 350), U2],
        PromptRules(last_messages_tokens=80, clamp=ClampSettings(window_tokens=9999, level=1.85)),
    ),
    Sent(
        "an exchange is not cut",
        [U1, replace(C1, content="x" * 350), R1, U2],
        [U2],
        PromptRules(last_messages_tokens=50),
    ),
]
ASSISTANTS = [
    Sent(
        "merge",
        [U1, A1, A2, A1, U2, A2],
        [U1, assistant("a1|a2|a1"), U2, A2],
        PromptRules(merge_assistant=True, merge_delimiter="|", last_messages=9),
    ),
    Sent(
        "tool calls are not merged",
        [U1, A1, C1, R1, A1, A2],
        [U1, A1, C1, R1, assistant("a1|a2")],
        PromptRules(merge_assistant=True, merge_delimiter="|", last_messages=9),
    ),
    Sent("insert", [U1, A1, A2], [U1, A1, user("Go on."), A2], INSERT),
    Sent(
        "insert between calls too, but not in an exchange",
        [U1, A1, C1, R1, A2],
        [U1, A1, user("Go on."), C1, R1, A2],
        INSERT,
    ),
    Sent(
        "merging wins",
        [U1, A1, A2],
        [U1, assistant("a1\na2")],
        PromptRules(merge_assistant=True, insert_user_turn=True),
    ),
]
I1, I2 = user("one", "i1", "i2"), user("two", "i3")
IMAGES = [
    Sent("none without being asked for", [I1, I2], [user("one"), user("two")]),
    Sent("all", [I1, I2], [I1, I2], PromptRules(accept_images=True)),
    Sent(
        "the newest",
        [I1, I2],
        [user("one", "i2"), I2],
        PromptRules(accept_images=True, max_images=2),
    ),
    Sent(
        "the newest of one",
        [I1],
        [user("one", "i2")],
        PromptRules(accept_images=True, max_images=1),
    ),
    Sent(
        "of a message that comes back too",
        [I1, A1],
        [user("one"), A1],
        PromptRules(last_messages=1),
    ),
]


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.id) for c in [*CONVERSATION_MODE, *CEILING, *ASSISTANTS, *IMAGES]],
)
def test_conversation_mode(case: Sent) -> None:
    messages = chat_messages(
        case.conversation, system_prompt=case.system_prompt, prompt=None, rules=case.rules
    )

    assert list(messages) == case.expected


EXCHANGE = PromptRules(append_tool_exchange=True)
FILLER, P = assistant(" Assistant: "), user("p")
PROMPT_MODE = [
    Sent("prompt alone", [S, U1], [P]),
    Sent("with a system prompt", [S, U1], [OWN, P], system_prompt="own"),
    Sent(
        "images of the last messages",
        [I1, U1, I2],
        [user("p", "i1", "i2", "i3")],
        PromptRules(accept_images=True),
    ),
    Sent(
        "the newest images",
        [I1, U1, I2],
        [user("p", "i2", "i3")],
        PromptRules(accept_images=True, max_images=2),
    ),
    Sent(
        "images of fewer messages",
        [I1, U1, I2],
        [user("p", "i3")],
        PromptRules(accept_images=True, last_messages=2),
    ),
    Sent(
        "no images from no messages",
        [I1, I2],
        [P],
        PromptRules(accept_images=True, last_messages=0),
    ),
    Sent("no images without being asked for", [I1], [P]),
    Sent("tool exchange", [U1, C1, R1, R1], [P, C1, R1, R1], EXCHANGE),
    Sent("the last exchange only", [U1, C1, R1, C2, R2], [P, C2, R2], EXCHANGE),
    Sent("behind it a filler", [U1, C1, R1, FILLER], [P, C1, R1], EXCHANGE),
    Sent("an exchange that is over", [U1, C1, R1, A1], [P], EXCHANGE),
    Sent("a call without result", [U1, C1], [P], EXCHANGE),
    Sent("a result without call", [U1, R1], [P], EXCHANGE),
    Sent("not asked for", [U1, C1, R1], [P]),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in PROMPT_MODE])
def test_prompt_mode(case: Sent) -> None:
    messages = chat_messages(
        case.conversation, system_prompt=case.system_prompt, prompt="p", rules=case.rules
    )

    assert list(messages) == case.expected


def test_a_prompt_that_turned_out_empty_is_still_a_prompt() -> None:
    assert chat_messages([U1], system_prompt="", prompt="", rules=PromptRules()) == (user(""),)


@pytest.mark.parametrize("prompt", [None, "Go."])
def test_instructions_stand_in_place_of_the_system_prompt(prompt: str | None) -> None:
    instructions = (Message("system", "Be brief."), Message("developer", "Rhyme."))

    chat = build_chat(
        (*instructions, U1),
        system_prompt="Be brief. Rhyme.",
        prompt=prompt,
        rules=DEFAULT,
        instructions=instructions,
    )

    assert chat.messages == (*instructions, U1 if prompt is None else user("Go."))


def test_variables_see_the_conversation_without_the_exchange() -> None:
    assert split_tool_exchange((U1, A1, C1, R1)) == ((U1, A1), (C1, R1))
    assert split_tool_exchange((U1, A1)) == ((U1, A1), ())


# --- clamp ---

LONG = [user("x" * 310) for _ in range(6)]  # 97 + 8 tokens each
CLAMP = ClampSettings(window_tokens=1012, response_tokens=100)  # 400 for the prompt


def test_the_clamp_drops_the_oldest_and_says_how_many() -> None:
    rules = PromptRules(last_messages=6, clamp=CLAMP)

    sent = build_chat(LONG, system_prompt="", prompt=None, rules=rules)

    assert sent == ChatPrompt(messages=tuple(LONG[:3]), dropped=3)


def test_system_prompt_and_tools_are_taken_off_the_budget() -> None:
    assert message_tokens(LONG[0]) == 105
    tools = ({"type": "function", "function": {"name": "y" * 280}},)

    def kept(system_prompt: str, rules: PromptRules) -> int:
        sent = build_chat(LONG, system_prompt=system_prompt, prompt=None, rules=rules)
        return len(sent.messages) - bool(system_prompt)

    plain = PromptRules(last_messages=6, clamp=CLAMP)
    with_tools = PromptRules(last_messages=6, clamp=CLAMP, tools=tools)
    assert [kept("", plain), kept("z" * 300, plain), kept("z" * 300, with_tools)] == [3, 2, 1]


def test_messages_left_out_by_number_do_not_count_as_dropped() -> None:
    rules = PromptRules(last_messages=2, clamp=CLAMP)

    sent = build_chat(LONG, system_prompt="", prompt=None, rules=rules)

    assert sent == ChatPrompt(messages=tuple(LONG[:2]))


def test_a_message_larger_than_the_window_is_sent_and_told() -> None:
    huge = user("x" * 9000)

    sent = build_chat([U1, huge], system_prompt="", prompt=None, rules=PromptRules(clamp=CLAMP))

    assert sent == ChatPrompt(messages=(huge,), dropped=1, over_budget=True)


def test_a_prompt_is_never_cut() -> None:
    text = "x" * 9000

    sent = build_chat(LONG, system_prompt="", prompt=text, rules=PromptRules(clamp=CLAMP))

    assert sent == ChatPrompt(messages=(user(text),), over_budget=True)


def test_without_the_clamp_all_is_sent() -> None:
    sent = build_chat(LONG, system_prompt="", prompt=None, rules=PromptRules(last_messages=6))

    assert sent == ChatPrompt(messages=tuple(LONG))
