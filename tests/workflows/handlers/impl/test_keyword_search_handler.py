from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from Middleware.core.errors import WorkflowError
from Middleware.core.messages import Message
from tests.workflows.handlers.setups import run, said, scope_in

CONVERSATIONAL = "ConversationalKeywordSearchPerformerTool"
MEMORY = "MemoryKeywordSearchPerformerTool"
LONG = " ".join(["filler"] * 150)
"""Large enough to fill a passage by itself."""


def talk(*texts: str) -> tuple[Message, ...]:
    return tuple(Message("user", text) for text in texts)


@dataclass(frozen=True)
class Case:
    id: str
    config: dict[str, Any]
    messages: tuple[Message, ...]
    expected: str
    given: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case("no messages", {"keywords": "fox"}, (), ""),
    Case("one message is the question itself", {"keywords": "fox"}, talk("fox?"), ""),
    Case(
        "the conversation without its last message",
        {"keywords": "fox"},
        talk("the fox", "fox?"),
        "the fox",
    ),
    Case(
        "the best passages first",
        {"keywords": "{agent1Output}"},
        talk(f"one fox {LONG}", f"fox and fox {LONG}", LONG, "fox?"),
        f"fox and fox {LONG}--ChunkBreak--one fox {LONG}",
        {"outputs": ["fox"]},
    ),
    Case(
        "roles are left out",
        {"keywords": "fox"},
        talk("User: a fox\nAssistant: where", "?"),
        "a fox\nwhere",
    ),
    Case(
        "the newest are left out, as many as the node says",
        {"keywords": "fox", "lookbackStartTurn": 2},
        talk("old fox", "new fox", "fox?"),
        "old fox",
    ),
    Case(
        "a conversation that is not longer than that",
        {"keywords": "fox", "lookbackStartTurn": "2"},
        talk("fox", "fox"),
        "There are no memories yet: the conversation is too short.",
    ),
    Case(
        "names of speakers are not looked for",
        {"keywords": "Bob"},
        talk("Bob: hello, Bob", "x"),
        "",
    ),
    Case("another target", {"keywords": "fox", "searchTarget": "Elsewhere"}, talk("fox", "x"), ""),
    Case(
        "keywords that turn out empty",
        {"keywords": "{agent1Output}"},
        talk("fox", "x"),
        "",
        {"outputs": [""]},
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES])
def test_a_search_of_the_conversation(case: Case) -> None:
    assert said(CONVERSATIONAL, case.config, messages=case.messages, **case.given) == case.expected


def test_ten_passages_at_most() -> None:
    messages = talk(*(f"fox {number} {LONG}" for number in range(12)), "?")

    found = said(CONVERSATIONAL, {"keywords": "fox"}, messages=messages)

    assert len(found.split("--ChunkBreak--")) == 10


def remembers(root: Path, *texts: str) -> dict[str, Any]:
    scope = scope_in(root)
    folder = scope.server.discussion(scope.config, "talk", None)
    assert folder is not None
    folder.write("memories.json", [{"text_block": text, "hash": text} for text in texts])
    return {"request_scope": scope, "discussion_id": "talk"}


def test_a_search_of_memories_leaves_out_the_newest_three(tmp_path: Path) -> None:
    given = remembers(tmp_path, "fox 1", "cat", "User: fox 2", "fox 3", "fox 4", "fox 5")

    assert said(MEMORY, {"keywords": "the fox"}, **given) == "fox 1\n\nfox 2"


def test_three_memories_are_searched_all(tmp_path: Path) -> None:
    given = remembers(tmp_path, "fox 1", "cat", "fox 2")

    assert said(MEMORY, {"keywords": "fox"}, **given) == "fox 1\n\nfox 2"


@pytest.mark.parametrize("discussion_id", [None, ""])
def test_without_a_discussion_there_are_no_memories(
    discussion_id: str | None, tmp_path: Path
) -> None:
    found = said(
        MEMORY, {"keywords": "fox"}, request_scope=scope_in(tmp_path), discussion_id=discussion_id
    )

    assert found == ""


def test_the_target_decides_whatever_the_type_is_called(tmp_path: Path) -> None:
    given = remembers(tmp_path, "a fox that is remembered")
    messages = talk("a fox that was said", "?")

    searched = [
        said(kind, {"keywords": "fox", "searchTarget": target}, messages=messages, **given)
        for kind in (CONVERSATIONAL, MEMORY)
        for target in ("CurrentConversation", "RecentMemories")
    ]

    assert searched == ["a fox that was said", "a fox that is remembered"] * 2


@pytest.mark.parametrize("config", [{}, {"keywords": ""}, {"keywords": None}])
def test_keywords_are_needed(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="keywords"):
        run(CONVERSATIONAL, config)


def test_memories_need_a_request() -> None:
    with pytest.raises(WorkflowError):
        run(MEMORY, {"keywords": "fox"})
