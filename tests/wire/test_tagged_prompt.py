from dataclasses import dataclass

import pytest

from Middleware.core.messages import Message
from Middleware.wire.tagged_prompt import parse_tagged, with_images


@dataclass(frozen=True)
class Tagged:
    id: str
    text: str
    expected: tuple[Message, ...]


TAGGED = [
    Tagged("no tags: one user message, as written", " hi\n", (Message("user", " hi\n"),)),
    Tagged("empty", "", (Message("user", ""),)),
    Tagged("only an unknown tag is no tag", "[Beg_Foo]x", (Message("user", "[Beg_Foo]x"),)),
    Tagged("tags are case-sensitive", "[beg_user]x", (Message("user", "[beg_user]x"),)),
    Tagged(
        "all roles; contents are trimmed and keep their inner line breaks",
        "[Beg_Sys] be\nkind [Beg_User]hi[Beg_Assistant]yes\n[Beg_SysMes]note[Beg_User]go",
        (
            Message("system", "be\nkind"),
            Message("user", "hi"),
            Message("assistant", "yes"),
            Message("systemMes", "note"),
            Message("user", "go"),
        ),
    ),
    Tagged(
        "every system block after the first is one in mid-conversation",
        "[Beg_Sys]a[Beg_Sys]b[Beg_User]c[Beg_Sys]d",
        (
            Message("system", "a"),
            Message("systemMes", "b"),
            Message("user", "c"),
            Message("systemMes", "d"),
        ),
    ),
    Tagged(
        "text before the first tag and blocks of unknown words are dropped",
        "lost[Beg_User]a[Beg_Foo]lost too[Beg_Assistant]Roland:",
        (Message("user", "a"), Message("assistant", "Roland:")),
    ),
    Tagged(
        "an empty block stays", "[Beg_User][Beg_Assistant]", (Message("user"), Message("assistant"))
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in TAGGED])
def test_parse_tagged(case: Tagged) -> None:
    assert parse_tagged(case.text) == case.expected


def test_images_go_to_the_last_user_message() -> None:
    messages = (
        Message("user", "a"),
        Message("user", "b", images=("x",)),
        Message("assistant", "c"),
    )

    assert with_images(messages, ("y",)) == (
        Message("user", "a"),
        Message("user", "b", images=("x", "y")),
        Message("assistant", "c"),
    )


def test_images_without_a_user_message_get_one() -> None:
    assert with_images((Message("system", "s"),), ("y",)) == (
        Message("system", "s"),
        Message("user", images=("y",)),
    )


def test_without_images_nothing_changes() -> None:
    assert with_images((Message("system", "s"),), ()) == (Message("system", "s"),)
