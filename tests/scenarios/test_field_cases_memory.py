"""Field cases C-40 and C-41, with what keeps something of a conversation: summaries and cursors."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.doors import CHAT, Door, every_door
from tests.fakes.headrace import Tree, static
from tests.fakes.upstream import Asked, Step, Upstream, reply, whole

SETTINGS = {
    "endpointName": "Main",
    "recentContextTokens": 22,
    "oldContextTokens": 22,
    "lookbackStartTurn": 1,
    "oldSectionPrompt": "OLD [MESSAGES_TO_SUMMARIZE]",
    "neutralSummaryPrompt": "NEUTRAL [MESSAGES_TO_SUMMARIZE]",
    "oldestUpdatePrompt": "UPDATE [NEW_CONTENT]",
}
CHUNKS = {
    **{"type": "ConversationChunkProcessor", "id": "c", "workflowName": "Note"},
    **{"cursorDirectory": "{state}", "chunkSize": 2, "lookbackMessages": 1},
}
NOTE = {"type": "Standard", "endpointName": "Main", "prompt": "NOTE {agent1Input}"}


def talk(letters: str) -> list[dict[str, Any]]:
    """A message a letter, each of 11 estimated tokens: two are Recent, two before them Old."""
    return [{"role": "user", "content": letter * 35} for letter in letters]


def tree_of(root: Path) -> Tree:
    tree = Tree(root, contextCompactorSettingsFile="compactor", choreWorkflow="Chores")
    tree.write("Workflows/tester/compactor.json", SETTINGS).own("Note", [NOTE])
    tree.own("Chores", [static('{"title": "x"}')])
    nodes: list[dict[str, Any]] = [{"type": "ContextCompactor"}, CHUNKS, static("answer")]
    return tree.workflow("assistant", nodes, state=str(root / "state"))


def summarised(asked: Asked) -> str:
    """What a call was about: ``OLD bc``."""
    kind, *lines = asked.json["messages"][-1]["content"].split()
    return f"{kind} {''.join(word[0] for word in lines if len(word) == 35)}"


def sums_up(asked: Asked) -> list[Step]:
    return whole(reply("summary"))


def test_c40_regenerating_and_editing_redo_only_what_changed(tmp_path: Path) -> None:
    headers = {"X-Conversation-Id": "talk"}
    with Upstream(sums_up) as model, tree_of(tmp_path).model("Main", model.url).serve() as live:

        def calls(letters: str) -> list[str]:
            before = len(model.asked)
            body = {"model": "assistant", "messages": talk(letters)}
            received = live.ask("POST", "/v1/chat/completions", body, **headers)
            assert received.json["choices"][0]["message"]["content"] == "answer"
            return [summarised(asked) for asked in model.asked[before:]]

        first = calls("abcde")
        repeats = [calls("abcde") for _ in range(5)]
        edited = calls("abcdX")
        one_more = calls("abcdXf")
        again = calls("abcdXf")

    assert first == ["OLD ab", "NOTE ab", "NOTE cd"]
    assert repeats == [[]] * 5
    assert edited == []
    # One has left Old; what has no place in a full block waits.
    assert one_more == ["OLD bc", "NEUTRAL a", "UPDATE "]
    assert again == []


CHORES = {
    "a title": "### Task:\nGenerate a concise title.\n",
    "tags": "### Task:\nGenerate 1-3 broad tags.\n",
    "follow-ups": "### Task:\nSuggest 3-5 relevant follow-up questions.\n",
}


@every_door
@pytest.mark.parametrize("chore", CHORES)
def test_c41_chores_write_nothing_and_are_marked_in_the_log(
    chore: str, door: Door, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    said = "".join(f"USER: {letter * 35}\n" for letter in "abcdefgh")
    text = f"{CHORES[chore]}<chat_history>\n{said}</chat_history>"
    with Upstream(sums_up) as model, tree_of(tmp_path).model("Main", model.url).serve() as live:
        told = door.ask(live, text, stream=False, headers={"x_conversation_id": "talk"})
        (run,) = live.finished()

    assert told.text == '{"title": "x"}'
    assert run["workflow"] == "Chores"
    assert model.asked == []
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "Public/DiscussionIds").exists()
    marked = [record for record in caplog.messages if record.startswith("a chore of the front end")]
    assert len(marked) == 1
    assert "a" * 35 not in marked[0]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("What does '### Task:' mean in Open WebUI's prompts?", id="the words"),
        pytest.param("### Task: write a <chat> page with a history", id="nearly"),
        pytest.param(f"{'x ' * 200}### Task:\n<chat_history>", id="far behind"),
    ],
)
def test_c41_a_message_with_the_words_is_a_turn(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with tree_of(tmp_path).scripted("Main").serve() as live:
        told = CHAT.ask(live, text, stream=False)

    assert told.text == "answer"
    assert "a chore" not in caplog.text
