"""Times in front of messages and speakers in group chats, through the front door: the same
streamed and whole (workflow-engine §11, S4, S15, S18)."""

import json
from pathlib import Path
from typing import Any

from Middleware.memory.hashing import text_hash
from tests.fakes.headrace import Tree, answers, calls, static
from tests.fakes.upstream import Upstream, chat
from tests.scenarios.modes import both_modes

OLD = "(Monday, 2025-09-01 09:00:00)"
TIMED: dict[str, Any] = {"addDiscussionIdTimestampsForLLM": True}
GROUP: dict[str, Any] = {"useGroupChatTimestampLogic": True}
TALK = [
    {"role": "user", "content": "Hi[DiscussionId]d1[/DiscussionId]"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Bye"},
]


def file_of(tree: Tree) -> Path:
    return tree.public / "DiscussionIds" / "d1" / "timestamps.json"


def stored(tree: Tree) -> dict[str, str]:
    value: dict[str, str] = json.loads(file_of(tree).read_text())
    return value


def remember(tree: Tree, **times: str) -> None:
    file_of(tree).parent.mkdir(parents=True)
    file_of(tree).write_text(json.dumps({text_hash(text): time for text, time in times.items()}))


def sent(model: Upstream, number: int = -1) -> list[str]:
    return [message["content"] for message in model.asked[number].json["messages"]]


@both_modes
def test_the_model_sees_times_and_the_reply_gets_its_own(tmp_path: Path, stream: bool) -> None:
    tree = Tree(tmp_path)
    with Upstream(chat("See ", "you")) as model, tree.model("Main", model.url).serve() as live:
        remember(tree, Hi=OLD, Hello=OLD)
        tree.workflow("assistant", [answers(**TIMED, systemPrompt="Be nice.")])

        assert live.says(stream=stream, messages=TALK) == "See you"

        system, hi, hello, bye = sent(model)
        assert (system, hi, hello) == ("Be nice.", f"{OLD} Hi", f"{OLD} Hello")
        assert bye == f"{stored(tree)[text_hash('Bye')]} Bye"
        waiting = stored(tree)["PLACEHOLDER_TIMESTAMP_HASH_0000"]

        more = [
            *TALK,
            {"role": "assistant", "content": "See you"},
            {"role": "user", "content": "x"},
        ]
        live.says(stream=stream, messages=more)

        assert stored(tree)[text_hash("See you")] == waiting


@both_modes
def test_variables_have_times_and_relative_ones_say_how_long_ago(
    tmp_path: Path, stream: bool
) -> None:
    tree = Tree(tmp_path)
    with Upstream(chat("Yes")) as model, tree.model("Main", model.url).serve() as live:
        remember(tree, Bye="(Monday, 3000-09-01 09:00:00)")
        prompt = "{chat_user_prompt_last_one} {time_context_summary}"
        tree.workflow("assistant", [answers(**TIMED, useRelativeTimestamps=True, prompt=prompt)])

        live.says(stream=stream, messages=TALK)

        (text,) = sent(model)
        assert text.startswith("[Sent less than a minute ago] Bye [Time Context: ")


@both_modes
def test_a_child_of_the_responder_has_times_once_and_a_child_of_another_node_none(
    tmp_path: Path, stream: bool
) -> None:
    tree = Tree(tmp_path)
    with Upstream(chat("Yes")) as model, tree.model("Main", model.url).serve() as live:
        remember(tree, Bye=OLD)
        tree.own("Child", [answers(**TIMED, lastMessagesToSendInsteadOfPrompt=1)])
        tree.workflow("assistant", [calls("Child"), calls("Child", **TIMED, is_responder=True)])

        live.says(stream=stream, messages=TALK)

        assert [sent(model, 0), sent(model, 1)] == [["Bye"], [f"{OLD} Bye"]]
        assert text_hash(f"{OLD} Bye") not in stored(tree)


def test_without_a_conversation_id_nothing_is_written(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    with Upstream(chat("Yes")) as model, tree.model("Main", model.url).serve() as live:
        tree.workflow("assistant", [answers(**TIMED, prompt="[{time_context_summary}] Hi")])

        live.says(stream=False)

        assert sent(model) == ["[] Hi"]
        assert not (tree.public / "DiscussionIds").exists()


@both_modes
def test_an_answer_that_names_no_speaker_gets_the_cue(tmp_path: Path, stream: bool) -> None:
    tree = Tree(tmp_path)
    cued: Any = [*TALK, {"role": "user", "content": "Sir Roland:"}]
    with Upstream(chat("Good ", "day")) as model, tree.model("Main", model.url).serve() as live:
        tree.workflow("assistant", [answers(**TIMED, **GROUP)])

        assert live.says(stream=stream, messages=cued) == "Sir Roland: Good day"

        assert text_hash("Sir Roland: Good day") in stored(tree), "kept at once"
        assert "PLACEHOLDER_TIMESTAMP_HASH_0000" not in stored(tree)


@both_modes
def test_an_answer_that_names_a_speaker_of_two_words_stays(tmp_path: Path, stream: bool) -> None:
    tree = Tree(tmp_path)
    cued = [{"role": "user", "content": "Sir Roland:"}]
    reply = chat("Sir ", "Roland: ", "Hi")
    with Upstream(reply) as model, tree.model("Main", model.url).serve() as live:
        tree.workflow("assistant", [answers(**GROUP)])

        assert live.says(stream=stream, messages=cued) == "Sir Roland: Hi"


@both_modes
def test_only_the_node_that_answers_gets_the_cue(tmp_path: Path, stream: bool) -> None:
    tree = Tree(tmp_path)
    cued = [{"role": "user", "content": "Roland:"}]
    with Upstream(chat("Good day")) as model, tree.model("Main", model.url).serve() as live:
        tree.workflow("assistant", [answers(**GROUP), static("[{agent1Output}]", **GROUP)])

        assert live.says(stream=stream, messages=cued) == "Roland: [Good day]"


@both_modes
def test_prefixes_of_ours_are_no_part_of_a_speakers_name(tmp_path: Path, stream: bool) -> None:
    tree = Tree(tmp_path, chatCompleteAddUserAssistant=True)
    cued = [*TALK, {"role": "user", "content": "Roland:"}]
    with Upstream(chat("Good day")) as model, tree.model("Main", model.url).serve() as live:
        tree.workflow("assistant", [answers(**TIMED, **GROUP)])

        assert live.says(stream=stream, messages=cued) == "Roland: Good day"

        assert text_hash("Assistant: Roland: Good day") in stored(tree)
