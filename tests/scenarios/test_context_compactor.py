"""ContextCompactor through the front door.

Messages are 11 estimated tokens each; two are Recent, two before them are Old.
"""

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.fakes.headrace import CHECK_SECONDS, Headrace, Tree
from tests.fakes.strict_client import hear
from tests.fakes.upstream import Asked, Step, Upstream, chat, refuses
from tests.scenarios.modes import both_modes

SETTINGS = {
    "Display_Only_Description": "for people",
    "endpointName": "Main",
    "recentContextTokens": 22,
    "oldContextTokens": 22,
    "lookbackStartTurn": 1,
    "maxResponseSizeInTokens": 321,
    "oldSectionSystemPrompt": "old {Discussion_Id}",
    "oldSectionPrompt": "[MESSAGES_TO_SUMMARIZE]|[RECENT_MESSAGES]",
    "neutralSummarySystemPrompt": "neutral",
    "neutralSummaryPrompt": "[MESSAGES_TO_SUMMARIZE]",
    "oldestUpdateSystemPrompt": "update",
    "oldestUpdatePrompt": "[EXISTING_SUMMARY]+[NEW_CONTENT]",
}


def text(letter: str) -> str:
    return letter * 35


def lines(letters: str) -> str:
    return "\n".join(f"user: {text(letter)}" for letter in letters)


def talk(letters: str, discussion: str = "talk") -> list[dict[str, Any]]:
    """A message a letter. The newest one is left alone."""
    tag = f"[DiscussionId]{discussion}[/DiscussionId]" if discussion else ""
    messages = [{"role": "user", "content": text(letter)} for letter in letters]
    return [{"role": "system", "content": f"Be nice.{tag}"}, *messages]


def shown(old: str, oldest: str = "") -> str:
    parts = [f"<context_compactor_old>{old}</context_compactor_old>"]
    if oldest:
        parts.append(f"<context_compactor_oldest>{oldest}</context_compactor_oldest>")
    return "\n".join(parts)


def tree_of(root: Path, settings: dict[str, Any] | None = None, **user: Any) -> Tree:
    tree = Tree(root, contextCompactorSettingsFile="compactor", **user)
    tree.write("Workflows/tester/compactor.json", {**SETTINGS, **(settings or {})})
    return tree.workflow("w", [{"type": "ContextCompactor", "title": "Compact"}])


def compacts(live: Headrace, messages: Sequence[Any], *, stream: bool = False) -> str:
    heard = hear(live.chat(model="w", stream=stream, messages=list(messages)))
    assert heard.finish_reason == "stop", heard.error
    return heard.text


def prompts(model: Upstream) -> list[tuple[str, str]]:
    """System prompt and prompt of each call."""
    return [
        (said[0]["content"], said[1]["content"])
        for said in (call.json["messages"] for call in model.asked)
    ]


def stored(root: Path, name: str) -> Any:
    path = root / "Public" / "DiscussionIds" / "talk" / f"context_compactor_{name}.json"
    return json.loads(path.read_bytes()) if path.exists() else None


@both_modes
def test_a_first_compaction_and_then_nothing_new(stream: bool, tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    with Upstream(chat("OLD")) as model, tree.model("Main", model.url).serve() as live:
        said = [compacts(live, talk("abcde"), stream=stream) for _ in range(2)]

        assert said == [shown("OLD")] * 2
        assert prompts(model) == [("old {Discussion_Id}", f"{lines('ab')}|{lines('cd')}")]
        assert model.asked[0].json["max_tokens"] == 321
    summary, boundary = stored(tmp_path, "old")
    assert summary["text_block"] == "OLD"
    assert boundary["text_block"] == "__boundary__"
    assert boundary["hash"].startswith("0:")
    assert stored(tmp_path, "oldest") is None


@both_modes
def test_what_leaves_old_is_merged_into_the_oldest_summary(stream: bool, tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    answers = map(chat, ["OLD", "OLD2", "LEFT", "OLDEST", "OLD3", "LEFT2", "OLDEST2"])
    with Upstream(*answers) as model, tree.model("Main", model.url).serve() as live:
        said = [compacts(live, talk(m), stream=stream) for m in ("abcde", "abcdef", "abcdefgh")]

    assert said == [shown("OLD"), shown("OLD2", "OLDEST"), shown("OLD3", "OLDEST2")]
    assert prompts(model)[1:] == [
        ("old {Discussion_Id}", f"{lines('bc')}|{lines('de')}"),
        ("neutral", lines("a")),
        ("update", "+LEFT"),
        ("old {Discussion_Id}", f"{lines('de')}|{lines('fg')}"),
        ("neutral", lines("bc")),
        ("update", "OLDEST+LEFT2"),
    ]
    assert [entry["text_block"] for entry in stored(tmp_path, "oldest")] == ["OLDEST2"]


def test_the_tokens_of_all_calls_are_told(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    with Upstream(chat("x")) as model, tree.model("Main", model.url).serve() as live:
        used = [hear(live.chat(model="w", messages=talk("abcdef"))).usage for _ in range(2)]

    assert [usage and usage["total_tokens"] for usage in used] == [3 * 12, 0]


def test_a_first_run_of_a_long_conversation_summarises_its_beginning_too(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    with (
        Upstream(chat("OLD"), chat("LEFT"), chat("OLDEST")) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        assert compacts(live, talk("abcdefg")) == shown("OLD", "OLDEST")

    assert prompts(model)[1:] == [("neutral", lines("ab")), ("update", "+LEFT")]


def test_files_of_the_reference_go_on_being_used(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    with (
        Upstream(*map(chat, ["OLD", "LEFT", "OLDEST", "x"])) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        compacts(live, talk("abcdefg"))
        folder = tmp_path / "Public" / "DiscussionIds" / "talk"
        [entry] = stored(tmp_path, "oldest")
        plain = [{"text_block": entry["text_block"], "hash": entry["hash"]}]
        (folder / "context_compactor_oldest.json").write_text(json.dumps(plain))

        assert compacts(live, talk("abcdefg")) == shown("OLD", "OLDEST")
        compacts(live, talk("abcdefgh"))

    assert prompts(model)[3:] == [
        ("old {Discussion_Id}", f"{lines('de')}|{lines('fg')}"),
        ("neutral", lines("c")),
        ("update", "OLDEST+x"),
    ]


def test_without_a_discussion_id_or_settings_there_is_nothing(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    with Upstream() as model, tree.model("Main", model.url).serve() as live:
        said = [compacts(live, talk("abcdefg", discussion=""))]
        for name in ("lost", ""):
            tree.user(contextCompactorSettingsFile=name)
            tree.clock.advance(CHECK_SECONDS)
            said.append(compacts(live, talk("abcdefg")))

    assert (said, model.asked) == (["", "", ""], [])


def test_a_short_conversation_is_not_compacted_and_nothing_is_made(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    with Upstream() as model, tree.model("Main", model.url).serve() as live:
        assert [compacts(live, talk(letters)) for letters in ("a", "abc")] == ["", ""]

    assert model.asked == []
    assert not (tmp_path / "Public" / "DiscussionIds").exists()


def test_empty_answers_lose_nothing(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    answers = ["", "", "OLDEST", "OLD2", "LEFT", "", "OLD3", "LEFT2", "OLDEST3"]
    with Upstream(*map(chat, answers)) as model, tree.model("Main", model.url).serve() as live:
        said = [compacts(live, talk(m)) for m in ("abcdef", "abcdefg", "abcdefgh")]

    # Messages stand for a summary that did not come, and the oldest summary stays as it was.
    assert said == [shown(lines("bc"), "OLDEST"), shown("OLD2", "OLDEST"), shown("OLD3", "OLDEST3")]
    asked = [prompt for system, prompt in prompts(model) if not system.startswith("old")]
    # What could not be merged is so with the next messages.
    assert asked == [
        *(lines("a"), f"+{lines('a')}"),
        *(lines("b"), "OLDEST+LEFT"),
        *(lines("bc"), "OLDEST+LEFT2"),
    ]


def test_a_first_merge_without_an_answer_is_made_up_for(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    answers = ["OLD", "LEFT", "", "OLD2", "LEFT2", "OLDEST2"]
    with Upstream(*map(chat, answers)) as model, tree.model("Main", model.url).serve() as live:
        said = [compacts(live, talk(letters)) for letters in ("abcdef", "abcdefg")]

    assert said == [shown("OLD"), shown("OLD2", "OLDEST2")]
    assert prompts(model)[4:] == [("neutral", lines("ab")), ("update", "+LEFT2")]


def test_what_was_merged_before_a_crash_is_not_merged_again(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    answers = ["OLD", "OLD2", "LEFT", "OLDEST", "OLD3"]
    with Upstream(*map(chat, answers)) as model, tree.model("Main", model.url).serve() as live:
        compacts(live, talk("abcde"))
        before = stored(tmp_path, "old")
        compacts(live, talk("abcdef"))
        # The crash came when only the first of the two files had been written.
        folder = tmp_path / "Public" / "DiscussionIds" / "talk"
        (folder / "context_compactor_old.json").write_text(json.dumps(before))

        assert compacts(live, talk("abcdef")) == shown("OLD3", "OLDEST")
    assert len(model.asked) == 5


def test_a_failing_model_leaves_everything_as_it_was(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    fails: list[Any] = [chat("OLD2"), chat("LEFT"), refuses(400)]
    again = map(chat, ["OLD3", "LEFT2", "OLDEST"])
    with (
        Upstream(chat("OLD"), *fails, *again) as model,
        tree.model("Main", model.url).serve() as live,
    ):
        compacts(live, talk("abcde"))
        before = stored(tmp_path, "old")
        assert hear(live.chat(model="w", messages=talk("abcdef"))).error is not None

        assert (stored(tmp_path, "old"), stored(tmp_path, "oldest")) == (before, None)
        assert compacts(live, talk("abcdef")) == shown("OLD3", "OLDEST")
    assert prompts(model)[5] == ("neutral", lines("a"))


def test_of_two_at_once_one_compacts(tmp_path: Path) -> None:
    tree = tree_of(tmp_path)
    goes_on = threading.Event()

    def waits(asked: Asked) -> list[Step]:
        return [goes_on, *chat("OLD2")(asked)]

    with (
        Upstream(chat("OLD"), waits, chat("LEFT"), chat("OLDEST")) as model,
        tree.model("Main", model.url).serve() as live,
        ThreadPoolExecutor(1) as pool,
    ):
        compacts(live, talk("abcde"))
        first = pool.submit(compacts, live, talk("abcdef"))
        try:
            model.wait_for(2)
            assert compacts(live, talk("abcdef")) == shown("OLD")
        finally:
            goes_on.set()

        assert first.result(10) == shown("OLD2", "OLDEST")
        assert len(model.asked) == 4


def test_settings_without_an_endpoint_say_so(tmp_path: Path) -> None:
    with tree_of(tmp_path, {"endpointName": ""}).serve() as live:
        error = hear(live.chat(model="w", messages=talk("abcde"))).error

    assert error is not None
    assert "endpointName" in error["message"]


def test_the_level_makes_both_windows_larger(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, {"wilmerContextEstimationLevel": " Balanced ", "oldContextTokens": 18})
    with Upstream(chat("OLD")) as model, tree.model("Main", model.url).serve() as live:
        compacts(live, talk("abcde"))

    assert prompts(model) == [("old {Discussion_Id}", f"{lines('ab')}|{lines('cd')}")]


def test_summaries_are_encrypted_with_the_key_of_the_request(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, encryptUsingApiKey=True)
    body = {"model": "w", "messages": talk("abcde")}
    with Upstream(chat("OLD")) as model, tree.model("Main", model.url).serve() as live:
        said = [
            live.ask("POST", "/v1/chat/completions", body, authorization="Bearer sk-1").json
            for _ in range(2)
        ]
        assert len(model.asked) == 1

    assert [one["choices"][0]["message"]["content"] for one in said] == [shown("OLD")] * 2
    [path] = (tmp_path / "Public" / "DiscussionIds").rglob("context_compactor_old.json")
    assert b"OLD" not in path.read_bytes()
    assert path.parent.parent.name != "DiscussionIds"
