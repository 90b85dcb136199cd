from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from Middleware.config.models import User
from Middleware.core.messages import Message
from Middleware.workflows.models.live_messages import LiveMessages, MessagesInserted
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.models.step_notes import StepNotes


def talk(texts: str) -> tuple[Message, ...]:
    return tuple(Message("user", text) for text in texts)


@dataclass(frozen=True)
class Case:
    id: str
    insertions: tuple[tuple[int, str], ...]
    expected: str


CASES = [
    Case("nothing", (), "abc"),
    Case("at the beginning", ((0, "x"),), "xabc"),
    Case("at the end", ((3, "x"),), "abcx"),
    Case("places are those of the list as it was", ((1, "x"), (2, "y")), "axbyc"),
    Case("two at one place keep their order", ((1, "x"), (1, "y")), "axybc"),
    Case("in any order", ((2, "y"), (0, "x")), "xabyc"),
    Case("behind the end", ((9, "x"),), "abcx"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES])
def test_messages_are_inserted(case: Case) -> None:
    before = talk("abc")
    inserted = MessagesInserted(tuple((at, Message("user", text)) for at, text in case.insertions))

    after = inserted.into(before)

    assert after == talk(case.expected)
    assert before == talk("abc")


def test_nodes_that_start_later_see_the_new_list() -> None:
    before = talk("ab")
    live = LiveMessages(before)

    live.apply(None)
    untouched = live.messages
    live.apply(MessagesInserted(((1, Message("user", "x")),)))

    assert untouched is before
    assert live.messages == talk("axb")


@dataclass(frozen=True)
class Configured:
    user: User


def scope() -> RequestScope:
    return RequestScope(config=cast(Any, Configured(User())), backends=cast(Any, None))


def test_a_sub_workflow_on_the_same_conversation_shares_it() -> None:
    parent = scope().enter("Parent", talk("ab"))
    assert parent.live is not None

    child = parent.below(StepNotes(), "r1", answers_client=False).enter(
        "Child", parent.live.messages
    )
    assert child.live is not None
    child.live.apply(MessagesInserted(((0, Message("user", "x")),)))

    assert parent.live.messages == talk("xab")


def test_a_sub_workflow_on_other_messages_has_its_own() -> None:
    parent = scope().enter("Parent", talk("ab"))
    assert parent.live is not None

    child = replace(parent).enter("Child", talk("a"))

    assert child.live is not None
    assert child.live is not parent.live
    assert child.live.messages == talk("a")


def test_what_is_to_be_done_at_the_end_belongs_to_one_run() -> None:
    parent = scope().enter("Parent")
    child = parent.enter("Child")
    done: list[str] = []
    parent.at_end.add(lambda: done.append("parent"))
    child.at_end.add(lambda: done.append("child"))

    child.at_end.run()

    assert done == ["child"]
