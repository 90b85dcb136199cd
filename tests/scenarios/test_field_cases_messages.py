"""Field cases C-27, C-28 and C-29: roles and contents that some model servers do not take."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.headrace import Tree, answers
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Upstream, chat
from tests.scenarios.ways import COLLECTED, STREAMED, WAYS, WHOLE, Way, answered

PASSES_INSTRUCTIONS = {"systemPrompt": "{chat_system_prompt}"}

SYSTEM = {"role": "system", "content": "Be brief."}
DEVELOPER = {"role": "developer", "content": "Rhyme."}
USER = {"role": "user", "content": "Hi"}


@dataclass(frozen=True)
class Instructions:
    id: str
    given: tuple[dict[str, str], ...]
    joined: str
    """The one system message of a server that does not know the role."""


INSTRUCTIONS = [
    Instructions("developer", (DEVELOPER,), "Rhyme."),
    Instructions("system-then-developer", (SYSTEM, DEVELOPER), "Be brief. Rhyme."),
    Instructions("developer-then-system", (DEVELOPER, SYSTEM), "Rhyme. Be brief."),
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("case", INSTRUCTIONS, ids=lambda case: case.id)
def test_c27_without_support_instructions_become_one_leading_system_message(
    case: Instructions, way: Way, tmp_path: Path
) -> None:
    with answered(
        way, tmp_path, chat("ok"), node=PASSES_INSTRUCTIONS, messages=[*case.given, USER]
    ) as told:
        assert told.heard.said == ("ok", "stop")
        assert told.sent["messages"] == [{"role": "system", "content": case.joined}, USER]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("case", INSTRUCTIONS, ids=lambda case: case.id)
def test_c27_with_support_they_are_passed_on_as_they_are(
    case: Instructions, way: Way, tmp_path: Path
) -> None:
    with answered(
        way,
        tmp_path,
        chat("ok"),
        node=PASSES_INSTRUCTIONS,
        endpoint={"supportsDeveloperRole": True},
        messages=[*case.given, USER],
    ) as told:
        assert told.sent["messages"] == [*case.given, USER]


@pytest.mark.parametrize("supports", [False, True])
def test_c27_a_developer_message_within_the_conversation_stays_in_its_place(
    supports: bool, tmp_path: Path
) -> None:
    with answered(
        WHOLE,
        tmp_path,
        chat("ok"),
        endpoint={"supportsDeveloperRole": supports},
        messages=[USER, DEVELOPER, USER],
    ) as told:
        role = "developer" if supports else "system"
        assert told.sent["messages"] == [USER, {"role": role, "content": "Rhyme."}, USER]


def test_c27_variables_hold_the_instructions(tmp_path: Path) -> None:
    tree = Tree(tmp_path).workflow(
        "assistant", [{"type": "StaticResponse", "content": "<{chat_system_prompt}>"}]
    )
    with tree.serve() as live:
        heard = hear(live.chat(model="assistant", messages=[SYSTEM, DEVELOPER, USER]))

    assert heard.text == "<Be brief. Rhyme.>"


CALL = {
    "id": "t1",
    "type": "function",
    "function": {"name": "add", "arguments": '{"a":2,"b":3}'},
}
ASKS = {"role": "user", "content": "2+3?"}
RESULT = {"role": "tool", "tool_call_id": "t1", "content": "5"}


@dataclass(frozen=True)
class History:
    id: str
    messages: list[dict[str, Any]]
    result: str = "5"


HISTORIES = [
    History("null", [ASKS, {"role": "assistant", "content": None, "tool_calls": [CALL]}, RESULT]),
    History("absent", [ASKS, {"role": "assistant", "tool_calls": [CALL]}, RESULT]),
    History("empty", [ASKS, {"role": "assistant", "content": "", "tool_calls": [CALL]}, RESULT]),
    History(
        "result-in-parts",
        [
            ASKS,
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {**RESULT, "content": [{"type": "text", "text": "5"}, {"type": "text", "text": "6"}]},
        ],
        "5\n6",
    ),
    History(
        "result-null",
        [ASKS, {"role": "assistant", "tool_calls": [CALL]}, {**RESULT, "content": None}],
        "",
    ),
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
@pytest.mark.parametrize("case", HISTORIES, ids=lambda case: case.id)
def test_c28_no_content_beside_tool_calls_is_empty_text(
    case: History, strict: bool, way: Way, tmp_path: Path
) -> None:
    with answered(
        way,
        tmp_path,
        chat("It is 5."),
        endpoint={"strictContent": strict},
        messages=case.messages,
    ) as told:
        assert told.heard.said == ("It is 5.", "stop")
        assert told.sent["messages"] == [
            ASKS,
            {"role": "assistant", "content": "" if strict else None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "t1", "content": case.result},
        ]


@pytest.mark.parametrize("case", HISTORIES, ids=lambda case: case.id)
def test_c28_counting_and_variables_take_it_for_empty_text(case: History, tmp_path: Path) -> None:
    variables = "{chat_user_prompt_last_ten}|{chat_user_prompt_estimated_token_limit}|{messages}"
    tree = Tree(tmp_path, clampPromptToContextWindow=True).workflow(
        "assistant",
        [
            answers(includeToolCallsInConversation=True, prompt=variables),
            answers(prompt=variables, addUserAssistantTags=True),
            answers(),
        ],
    )
    with (
        Upstream(chat("ok")) as model,
        tree.model("Main", model.url, maxContextTokenSize=4096).serve() as live,
    ):
        heard = hear(live.chat(model="assistant", messages=case.messages))

    assert heard.said == ("ok", "stop")
    with_calls, with_tags, conversation = [asked.json["messages"] for asked in model.asked]
    assert "[Tool Call: add]" in with_calls[0]["content"]
    assert with_tags[0]["content"].startswith("User: 2+3?\nAssistant: \nTool Result: ")
    # {messages} shows Python values; elsewhere nothing may be read as the word None.
    assert "None" not in with_tags[0]["content"].partition("|[")[0]
    assert [message["role"] for message in conversation] == ["user", "assistant", "tool"]
    assert live.runs[0]["status"] == "succeeded"


def parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_c29_parts_reach_the_model_as_one_text_a_line_each(way: Way, tmp_path: Path) -> None:
    with answered(
        way,
        tmp_path,
        chat("ok"),
        node=PASSES_INSTRUCTIONS,
        messages=[
            {"role": "system", "content": parts("a", "b")},
            {"role": "user", "content": parts("c", "d")},
            {"role": "assistant", "content": parts("e", "f"), "tool_calls": [CALL]},
            {"role": "tool", "content": parts("g", "h"), "tool_call_id": "t1"},
            {"role": "user", "content": parts("i")},
        ],
    ) as told:
        assert told.heard.said == ("ok", "stop")
        assert told.sent["messages"] == [
            {"role": "system", "content": "a\nb"},
            {"role": "user", "content": "c\nd"},
            {"role": "assistant", "content": "e\nf", "tool_calls": [CALL]},
            {"role": "tool", "content": "g\nh", "tool_call_id": "t1"},
            {"role": "user", "content": "i"},
        ]


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_c29_an_empty_list_is_empty_text(role: str, tmp_path: Path) -> None:
    with answered(
        WHOLE,
        tmp_path,
        chat("ok"),
        messages=[{"role": role, "content": [], "tool_call_id": "t1"}, USER],
    ) as told:
        assert told.heard.said == ("ok", "stop")
        assert all(isinstance(one["content"], str) for one in told.sent["messages"])
        assert told.sent["messages"][-1] == USER


@pytest.mark.parametrize("content", [[], "", None], ids=repr)
def test_c29_a_conversation_of_nothing_but_that_is_sent_as_it_is(
    content: Any, tmp_path: Path
) -> None:
    messages = [{"role": "user", "content": content}]
    with answered(WHOLE, tmp_path, chat("Yes?"), messages=messages) as told:
        assert told.heard.said == ("Yes?", "stop")
        assert told.sent["messages"] == [{"role": "user", "content": ""}]


@pytest.mark.parametrize("way", [STREAMED, WHOLE, COLLECTED], ids=str)
@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_c29_an_unknown_kind_of_part_is_refused_by_name(
    role: str, way: Way, tmp_path: Path
) -> None:
    content = [*parts("a"), {"type": "hologram", "hologram": {}}]
    with answered(
        way, tmp_path, chat("ok"), messages=[{"role": role, "content": content}, USER]
    ) as told:
        assert told.heard.status == 400
        assert told.heard.error is not None
        assert told.heard.error["param"] == "messages.0.content.1.type"
        assert "hologram" in told.heard.error["message"]
        assert told.model.asked == []
