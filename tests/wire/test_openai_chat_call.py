from dataclasses import dataclass
from typing import Any

import pytest

from Middleware.core.messages import Message, ToolCall
from Middleware.wire.openai_chat_call import MessageRules, encode_messages, image_url

CALL = ToolCall(id="t1", name="add", arguments="")
CALL_SENT = {"id": "t1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
BARE = "iVBORw0KGgo" + "A" * 93


LENIENT = MessageRules()


@dataclass(frozen=True)
class Sent:
    id: str
    messages: list[Message]
    expected: list[dict[str, Any]]
    rules: MessageRules = LENIENT


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


SENT = [
    Sent(
        "a conversation",
        [Message("system", "s"), Message("user", "u"), Message("assistant", "a")],
        [said("system", "s"), said("user", "u"), said("assistant", "a")],
    ),
    Sent(
        "a system message in the middle",
        [Message("user", "u"), Message("systemMes", "s")],
        [said("user", "u"), said("system", "s")],
    ),
    Sent(
        "an empty assistant turn at the end is left out",
        [Message("user", "u"), Message("assistant", "")],
        [said("user", "u")],
    ),
    Sent("an empty user message stays", [Message("user", "")], [said("user", "")]),
    Sent(
        "tool calls and results",
        [
            Message("assistant", "", (), (CALL,)),
            Message("tool", "5", (), (), "t1", "add"),
        ],
        [
            {**said("assistant", None), "tool_calls": [CALL_SENT]},
            {**said("tool", "5"), "tool_call_id": "t1", "name": "add"},
        ],
    ),
    Sent(
        "C-28: a strict server gets no null",
        [Message("assistant", "", (), (CALL,))],
        [{**said("assistant", ""), "tool_calls": [CALL_SENT]}],
        MessageRules(strict_content=True),
    ),
    Sent(
        "C-27: developer becomes system",
        [Message("developer", "Rhyme."), Message("user", "Hi")],
        [said("system", "Rhyme."), said("user", "Hi")],
    ),
    Sent(
        "C-27: developer after system joins it",
        [Message("system", "Be brief."), Message("developer", "Rhyme."), Message("user", "Hi")],
        [said("system", "Be brief.\n\nRhyme."), said("user", "Hi")],
    ),
    Sent(
        "developer in the middle stays where it is",
        [Message("system", "s"), Message("user", "Hi"), Message("developer", "d")],
        [said("system", "s"), said("user", "Hi"), said("system", "d")],
    ),
    Sent(
        "several system messages without developer are left alone",
        [Message("system", "a"), Message("system", "b"), Message("user", "Hi")],
        [said("system", "a"), said("system", "b"), said("user", "Hi")],
    ),
    Sent(
        "C-27: a server that knows the role gets it",
        [Message("system", "s"), Message("developer", "d"), Message("user", "Hi")],
        [said("system", "s"), said("developer", "d"), said("user", "Hi")],
        MessageRules(developer_role=True),
    ),
    Sent(
        "images of a user",
        [
            Message(
                "user", "what?", ("data:image/gif;base64,AA==", "https://pics.test/a", "file:///x")
            )
        ],
        [
            said(
                "user",
                [
                    {"type": "text", "text": "what?"},
                    {"type": "image_url", "image_url": {"url": "data:image/gif;base64,AA=="}},
                    {"type": "image_url", "image_url": {"url": "https://pics.test/a"}},
                ],
            )
        ],
    ),
    Sent("images that cannot be sent", [Message("user", "x", ("?",))], [said("user", "x")]),
    Sent(
        "only user messages carry images",
        [Message("tool", "x", ("https://pics.test/a",), (), "t")],
        [{**said("tool", "x"), "tool_call_id": "t"}],
    ),
    Sent("nothing", [], []),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SENT])
def test_messages_as_a_server_wants_them(case: Sent) -> None:
    before = list(case.messages)

    assert encode_messages(case.messages, case.rules) == case.expected
    assert case.messages == before


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("data:image/png;base64,AA==", "data:image/png;base64,AA=="),
        ("HTTPS://pics.test/a", "HTTPS://pics.test/a"),
        (BARE, f"data:image/png;base64,{BARE}"),
        (BARE + "AA", None),
        ("A" * 104, None),
        ("file:///etc/passwd", None),
        ("data:text/html,x", None),
    ],
    ids=["data", "web", "bare", "wrong length", "unknown format", "file", "no image"],
)
def test_images(image: str, expected: str | None) -> None:
    assert image_url(image) == expected
