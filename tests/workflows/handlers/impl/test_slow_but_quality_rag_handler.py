from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from Middleware.core.errors import WorkflowError
from Middleware.core.events import Finish, TextDelta, Usage
from Middleware.workflows.output.cleaning import CleaningRules
from Middleware.workflows.output.thinking import ThinkingTags
from tests.fakes.model import FakeModel, plan_for
from tests.fakes.workflow_runner import RecordingRunner
from tests.workflows.handlers.setups import run, scope_in

KIND = "SlowButQualityRAG"
CONFIG = {
    "ragTarget": "{agent1Output}",
    "ragType": "CurrentConversation",
    "prompt": "{agent2Output} of: [TextChunk]",
}


def remembers(root: Path, *memories: str, summary: str = "") -> dict[str, Any]:
    scope = scope_in(root)
    folder = scope.server.discussion(scope.config, "talk", None)
    assert folder is not None
    folder.write("memories.json", [{"text_block": text, "hash": text} for text in memories])
    if summary:
        folder.write("chat_summary.json", [{"text_block": summary, "hash": ""}])
    return {"request_scope": scope, "discussion_id": "talk"}


def test_each_piece_is_one_call_and_the_answers_are_put_together(tmp_path: Path) -> None:
    model = FakeModel("one. ", "two.")

    payload = run(
        KIND,
        CONFIG,
        outputs=["first--ChunkBreak--second", "Summary"],
        plan=plan_for(model),
        **remembers(tmp_path),
    )

    assert payload.value == "one. two."
    assert model.prompts == [
        [("user", "Summary of: first", ())],
        [("user", "Summary of: second", ())],
    ]
    assert [request.stream for request in model.asked] == [False, False]


def test_marks_stand_for_what_is_remembered_and_each_answer_is_a_memory(tmp_path: Path) -> None:
    model = FakeModel("new")
    config = {
        **CONFIG,
        "systemPrompt": "[Memory_file]|[Full_Memory_file]|[Chat_Summary]",
        "prompt": "[TextChunk]",
    }

    run(
        KIND,
        config,
        outputs=["a--ChunkBreak--b"],
        plan=plan_for(model),
        **remembers(tmp_path, "m1", "m2", "m3", "m4", summary="sum"),
    )

    line = "\n--------------\n"
    assert [prompt[0][1] for prompt in model.prompts] == [
        f"m2{line}m3{line}m4|m1{line}m2{line}m3{line}m4|sum",
        f"m3{line}m4{line}new|m1{line}m2{line}m3{line}m4{line}new|sum",
    ]


def test_what_there_is_none_of_is_empty(tmp_path: Path) -> None:
    model = FakeModel()
    config = {**CONFIG, "prompt": "<[Memory_file][Full_Memory_file][Chat_Summary]>"}

    run(KIND, config, outputs=["a"], plan=plan_for(model), **remembers(tmp_path))

    assert model.prompts == [[("user", "<>", ())]]


def test_marks_and_variables_in_data_are_data(tmp_path: Path) -> None:
    model = FakeModel()
    chunk = "see [Chat_Summary] and {agent2Output}"

    run(
        KIND,
        CONFIG,
        outputs=[chunk, "[TextChunk] {agent1Output}"],
        plan=plan_for(model),
        **remembers(tmp_path, summary="secret"),
    )

    assert model.prompts == [[("user", f"[TextChunk] {{agent1Output}} of: {chunk}", ())]]


def test_answers_are_cleaned_before_they_are_a_memory(tmp_path: Path) -> None:
    model = FakeModel("<think>hm</think> new")
    tags = ThinkingTags(start="<think>", end="</think>", grace=100, closing_only=False)
    config = {**CONFIG, "prompt": "[Memory_file]/[TextChunk]"}

    payload = run(
        KIND,
        config,
        outputs=["a--ChunkBreak--b"],
        plan=plan_for(model, CleaningRules(thinking=tags, trim_start=True)),
        **remembers(tmp_path),
    )

    assert payload.value == "newnew"
    assert model.prompts[1] == [("user", "new/b", ())]


def test_an_empty_prompt_is_not_sent(tmp_path: Path) -> None:
    model = FakeModel()
    config = {**CONFIG, "prompt": "", "systemPrompt": "Read [TextChunk]."}

    run(KIND, config, outputs=["a"], plan=plan_for(model), **remembers(tmp_path))

    assert model.prompts == [[("system", "Read a.", ())]]


def test_all_calls_are_counted(tmp_path: Path) -> None:
    payload = run(
        KIND,
        CONFIG,
        outputs=["a--ChunkBreak--b", "S"],
        plan=plan_for(FakeModel("one two three")),
        **remembers(tmp_path),
    )

    assert payload.reply is not None
    assert payload.reply.usage == Usage(prompt_tokens=8, completion_tokens=8, estimated=True)


def test_a_workflow_may_do_it_instead(tmp_path: Path) -> None:
    runner = RecordingRunner(TextDelta("new"), Finish())
    config = {**CONFIG, "fileMemoryWorkflowName": "Remember"}

    payload = run(
        KIND,
        config,
        outputs=["a--ChunkBreak--b"],
        workflow_manager=runner,
        **remembers(tmp_path, "m1", summary="sum"),
    )

    assert payload.value == "newnew"
    assert [asked["scoped_inputs"] for asked in runner.asked] == [
        ["a", "m1", "m1", "sum"],
        ["b", "m1\n--------------\nnew", "m1\n--------------\nnew", "sum"],
    ]
    assert {
        (asked["workflow_name"], asked["non_responder"], asked["is_streaming"])
        for asked in runner.asked
    } == {("Remember", True, False)}
    assert runner.asked[0]["request_scope"].answers_client is False


@pytest.mark.parametrize("discussion_id", [None, ""])
def test_without_a_discussion_it_does_nothing(discussion_id: str | None, tmp_path: Path) -> None:
    model = FakeModel()

    payload = run(
        KIND,
        CONFIG,
        outputs=["a", "b"],
        plan=plan_for(model),
        request_scope=scope_in(tmp_path),
        discussion_id=discussion_id,
    )

    assert (payload.value, model.asked) == ("", [])


@pytest.mark.parametrize("missing", ["ragTarget", "ragType"])
def test_both_properties_are_needed(missing: str) -> None:
    with pytest.raises(ValidationError, match=missing):
        run(KIND, {key: value for key, value in CONFIG.items() if key != missing})


def test_a_model_is_needed(tmp_path: Path) -> None:
    with pytest.raises(WorkflowError, match="endpointName"):
        run(KIND, CONFIG, outputs=["a", "b"], **remembers(tmp_path))
