"""Which requests front ends make on the side (clients §4)."""

from dataclasses import dataclass

import pytest

from Middleware.core.messages import ChatRequest, Message
from Middleware.workflows.managers.chores import is_chore

TASK = "### Task:\nSuggest tags.\n<chat_history>\nUSER: hi\n</chat_history>"


@dataclass(frozen=True)
class Case:
    id: str
    messages: tuple[Message, ...]
    chore: bool
    tools: bool = False


CASES = [
    Case("open webui", (Message("user", TASK),), True),
    Case("with its prompt template", (Message("system", "x"), Message("user", TASK)), True),
    Case("with a prefix", (Message("user", f"User: {TASK}"),), True),
    Case("with tools", (Message("user", TASK),), False, tools=True),
    Case("a person's task", (Message("user", "### Task: cook"),), False),
    Case("quoted by a person", (Message("user", "x" * 300 + TASK),), False),
    Case(
        "in a conversation",
        (Message("user", "hi"), Message("assistant", "yes"), Message("user", TASK)),
        False,
    ),
    Case("opencode", (Message("system", "You are a title generator."), Message("user")), True),
    Case("a person who asks for titles", (Message("user", "You are a title generator."),), False),
    Case("nothing", (), False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_chores_are_told_by_what_they_look_like(case: Case) -> None:
    tools = ({"type": "function", "function": {"name": "f"}},) if case.tools else ()
    asked = ChatRequest(model="m", messages=case.messages, tools=tools)

    assert is_chore(asked) == case.chore
