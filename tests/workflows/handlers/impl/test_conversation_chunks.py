from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from Middleware.core.errors import ConfigError, WorkflowError
from Middleware.core.events import Event, Finish
from Middleware.core.messages import Message
from Middleware.memory.hashing import message_hash
from Middleware.workflows.handlers.impl.sub_workflow_handler import SubWorkflowHandler
from Middleware.workflows.models.workflow_context import WorkflowPayload
from tests.fakes.workflow_runner import RecordingRunner
from tests.workflows.handlers.setups import context_of, run, said, scope_in

KIND = "ConversationChunkProcessor"


class FailingRunner(RecordingRunner):
    """Fails at the second block."""

    def run_custom_workflow(
        self, workflow_name: str, **call: Any
    ) -> Iterator[Event] | WorkflowPayload:
        if len(self.asked) == 1:
            raise WorkflowError("broken")
        return super().run_custom_workflow(workflow_name, **call)


def talk(count: int) -> tuple[Message, ...]:
    return tuple(Message("user", f"m{number}") for number in range(1, count + 1))


def config_in(root: Path, **keys: Any) -> dict[str, Any]:
    return {
        "id": "events",
        "workflowName": "EventChunk",
        "cursorDirectory": str(root / "cursors"),
        "chunkSize": 2,
        "lookbackMessages": 1,
        **keys,
    }


def process(root: Path, messages: tuple[Message, ...], runner: RecordingRunner, **keys: Any) -> str:
    return said(
        KIND,
        config_in(root, **keys),
        messages=messages,
        workflow_manager=runner,
        request_scope=scope_in(root),
        discussion_id="talk",
    )


def blocks(runner: RecordingRunner) -> list[list[str]]:
    return [[message.content for message in asked["messages"]] for asked in runner.asked]


def cursor(root: Path) -> list[str]:
    return (root / "cursors/chunk_cursor_events_talk.txt").read_text(encoding="utf-8").split("\n")


def test_complete_new_blocks_run_oldest_first_and_are_remembered(tmp_path: Path) -> None:
    runner = RecordingRunner(Finish())

    text = process(tmp_path, talk(6), runner)

    assert blocks(runner) == [["m1", "m2"], ["m3", "m4"]]
    assert text == "events: 2 blocks processed."
    assert cursor(tmp_path) == [message_hash(talk(4)[1]), message_hash(talk(4)[3]), ""]


def test_a_later_run_goes_on_where_the_earlier_one_ended(tmp_path: Path) -> None:
    runner = RecordingRunner(Finish())
    for count in (4, 4, 6, 9):
        process(tmp_path, talk(count), runner)

    assert blocks(runner) == [["m1", "m2"], ["m3", "m4"], ["m5", "m6"], ["m7", "m8"]]


def test_a_cursor_of_the_reference_is_understood(tmp_path: Path) -> None:
    runner = RecordingRunner(Finish())
    messages = (Message("user", "a"), Message("user", "say {x}"), *talk(3))
    (tmp_path / "cursors").mkdir()
    (tmp_path / "cursors/chunk_cursor_events_talk.txt").write_text(
        message_hash(messages[1]) + "\n", encoding="utf-8"
    )

    process(tmp_path, messages, runner)

    assert blocks(runner) == [["m1", "m2"]]


def test_a_child_gets_the_block_its_text_and_the_inputs_and_speaks_to_nobody(
    tmp_path: Path,
) -> None:
    runner = RecordingRunner(Finish())
    run(
        KIND,
        config_in(
            tmp_path,
            scoped_variables=["{agent1Output}", 7],
            workflowUserFolderOverride="_common",
        ),
        messages=talk(3),
        outputs=["more"],
        workflow_manager=runner,
        request_scope=scope_in(tmp_path),
        discussion_id="talk",
        answers_client=True,
        stream=True,
    )

    asked = runner.asked[0]
    scope = asked.pop("request_scope")
    assert asked == {
        "workflow_name": "EventChunk",
        "request_id": "request-1",
        "discussion_id": "talk",
        "messages": talk(2),
        "non_responder": True,
        "is_streaming": False,
        "scoped_inputs": ["m1\nm2", "more", "7"],
        "workflow_user_folder_override": "_common",
    }
    assert (scope.answers_client, scope.tools, scope.parent_run_id) == (False, (), "run-1")


def test_a_child_that_fails_fails_the_node_and_finished_blocks_stay(tmp_path: Path) -> None:
    with pytest.raises(WorkflowError):
        process(tmp_path, talk(7), FailingRunner(Finish()))
    runner = RecordingRunner(Finish())

    process(tmp_path, talk(7), runner)

    assert blocks(runner) == [["m3", "m4"], ["m5", "m6"]]


def test_the_defaults_are_blocks_of_ten_and_four_left_alone(tmp_path: Path) -> None:
    runner = RecordingRunner(Finish())
    config = {key: None for key in ("chunkSize", "lookbackMessages")}

    process(tmp_path, talk(13), runner, **config)
    process(tmp_path, talk(14), runner, **config)

    assert [len(block) for block in blocks(runner)] == [10]


@pytest.mark.parametrize("discussion_id", [None, ""])
def test_without_a_discussion_nothing_is_processed(
    discussion_id: str | None, tmp_path: Path
) -> None:
    runner = RecordingRunner(Finish())
    (tmp_path / "events.md").write_text("known", encoding="utf-8")

    text = said(
        KIND,
        {"id": "events", "returnFile": str(tmp_path / "events.md")},
        messages=talk(20),
        workflow_manager=runner,
        discussion_id=discussion_id,
    )

    assert (text, runner.asked) == ("known", [])


@pytest.mark.parametrize(
    ("content", "expected"),
    [("what is known", "what is known"), ("", "No additional information added"), (None, "")],
)
def test_the_output_may_be_a_file(content: str | None, expected: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "events_talk.md").write_text(content, encoding="utf-8")

    text = process(
        tmp_path,
        talk(1),
        RecordingRunner(Finish()),
        returnFile=f"{tmp_path}/events_{{Discussion_Id}}.md",
    )

    assert text == expected


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"id": ""}, "`id` is missing"),
        ({"id": "a/b"}, "`id`"),
        ({"workflowName": ""}, "`workflowName`"),
        ({"cursorDirectory": " "}, "`cursorDirectory`"),
    ],
)
def test_a_mistake_fails_the_node(keys: dict[str, Any], named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=named):
        process(tmp_path, talk(5), RecordingRunner(Finish()), **keys)


@pytest.mark.parametrize(
    "keys",
    [{"chunkSize": 0}, {"chunkSize": "2"}, {"chunkSize": True}, {"lookbackMessages": -1}],
)
def test_a_wrong_number_fails_the_file(keys: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=next(iter(keys))):
        process(tmp_path, talk(5), RecordingRunner(Finish()), **keys)


def test_a_cursor_that_cannot_be_written_is_only_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runner = RecordingRunner(Finish())
    (tmp_path / "cursors").mkdir()
    (tmp_path / "cursors/chunk_cursor_events_talk.txt").symlink_to("/proc/no/such/place")

    text = process(tmp_path, talk(3), runner)

    assert (blocks(runner), text) == ([["m1", "m2"]], "events: 1 block processed.")
    assert "could not be written" in caplog.text


def test_a_cursor_that_cannot_be_read_fails_the_node(tmp_path: Path) -> None:
    runner = RecordingRunner(Finish())
    (tmp_path / "cursors").write_text("no folder", encoding="utf-8")

    # It might be one that says that everything was processed.
    with pytest.raises(WorkflowError):
        process(tmp_path, talk(3), runner)

    assert runner.asked == []


def test_two_runs_of_one_conversation_do_not_process_the_same_block(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    inner = RecordingRunner(Finish())

    class Nested(RecordingRunner):
        def run_custom_workflow(
            self, workflow_name: str, **call: Any
        ) -> Iterator[Event] | WorkflowPayload:
            # While the first run is at work, a second one comes.
            SubWorkflowHandler().handle(
                context_of(
                    KIND,
                    config_in(tmp_path),
                    messages=talk(3),
                    workflow_manager=inner,
                    request_scope=scope,
                    discussion_id="talk",
                )
            )
            return super().run_custom_workflow(workflow_name, **call)

    outer = Nested(Finish())
    run(
        KIND,
        config_in(tmp_path),
        messages=talk(3),
        workflow_manager=outer,
        request_scope=scope,
        discussion_id="talk",
    )

    assert (len(outer.asked), len(inner.asked)) == (1, 0)
