from dataclasses import dataclass

import pytest

from Middleware.config.models import PromptTemplate
from Middleware.core.messages import Message
from Middleware.workflows.prompts.templates import conversation_text, system_text

TEMPLATE = PromptTemplate(
    prompt_template_system_prefix="<S>",
    prompt_template_system_suffix="</S>",
    prompt_template_user_prefix="<U>",
    prompt_template_user_suffix="</U>",
    prompt_template_assistant_prefix="<A>",
    prompt_template_assistant_suffix="</A>",
    prompt_template_systemmes_prefix="<M>",
    prompt_template_systemmes_suffix="</M>",
)
S, U, A = Message("system", "s"), Message("user", "u"), Message("assistant", "a")
M = Message("systemMes", "m")


@dataclass(frozen=True)
class Rendered:
    id: str
    messages: tuple[Message, ...]
    expected: str
    last: int | None = None
    template: PromptTemplate | None = TEMPLATE


RENDERED = [
    Rendered("every role", (U, A, M, U), "<U>u</U><A>a</A><M>m</M><U>u</U>"),
    Rendered("an open end", (U, A), "<U>u</U><A>a"),
    Rendered("no system messages", (S, U, S), "<U>u</U>"),
    Rendered("a role without keys", (Message("tool", "t"), U), "t<U>u</U>"),
    Rendered("exactly so many (nodes S3)", (S, U, A, S, U), "<A>a</A><U>u</U>", last=2),
    Rendered("none", (U, A), "", last=0),
    Rendered("markers go", (Message("user", "[Beg_User]x[Beg_Sys]"),), "<U>x</U>"),
    Rendered("no template", (U, A), "ua", template=None),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in RENDERED])
def test_conversation_text(case: Rendered) -> None:
    assert conversation_text(case.messages, case.template, last=case.last) == case.expected


@pytest.mark.parametrize(("text", "expected"), [("x", "<S>x</S>"), ("", "<S></S>")])
def test_system_text(text: str, expected: str) -> None:
    assert system_text(text, TEMPLATE) == expected
