import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.core.errors import WorkflowError
from Middleware.core.events import Usage
from Middleware.core.messages import Message
from Middleware.llm.backend import ModelRequest
from Middleware.memory.hashing import vision_hash
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.output.cleaning import CleaningRules
from Middleware.workflows.output.thinking import ThinkingTags
from tests.fakes.model import FakeModel, plan_for
from tests.workflows.handlers.setups import context_of, handle, scope_in

KIND = "ImageProcessor"
LINE = "\n-------------\n"


def image(*names: str, text: str = "see") -> Message:
    return Message("user", text, images=tuple(at(name) for name in names))


def at(name: str) -> str:
    return f"http://pictures.test/{name}"


def names_the_image(request: ModelRequest) -> str:
    """A vision model that sees what an image is called."""
    seen = (url for message in request.messages for url in message.images)
    return " ".join(f"<{url.rpartition('/')[2]}>" for url in seen)


def run(
    config: dict[str, Any],
    messages: tuple[Message, ...],
    model: FakeModel,
    root: Path,
    **values: Any,
) -> WorkflowPayload:
    values.setdefault("plan", plan_for(model))
    values.setdefault("request_scope", scope_in(root))
    return handle(context_of(KIND, config, messages=messages, **values))


def test_each_image_is_one_call_with_the_conversation_and_that_image_alone(tmp_path: Path) -> None:
    model = FakeModel(names_the_image)
    messages = (image("a", "b", text="one"), Message("assistant", "ok"), image("c", text="two"))

    payload = run({"systemPrompt": "Describe."}, messages, model, tmp_path)

    assert payload.value == f"<a>{LINE}<b>{LINE}<c>"
    talk = [
        ("system", "Describe.", ()),
        ("user", "one", ()),
        ("assistant", "ok", ()),
        ("user", "two", ()),
    ]
    assert model.prompts == [
        [talk[0], ("user", "one", (at("a"),)), talk[2], talk[3]],
        [talk[0], ("user", "one", (at("b"),)), talk[2], talk[3]],
        [talk[0], talk[1], talk[2], ("user", "two", (at("c"),))],
    ]
    assert payload.inserted is None


def test_with_a_prompt_the_image_goes_along_however_old_it_is(tmp_path: Path) -> None:
    model = FakeModel(names_the_image)
    messages = (image("a"), *(Message("user", str(number)) for number in range(20)))

    run({"prompt": "What is it?"}, messages, model, tmp_path)

    assert model.prompts == [[("user", "What is it?", (at("a"),))]]


def test_in_conversation_mode_the_window_reaches_back_to_the_image(tmp_path: Path) -> None:
    model = FakeModel(names_the_image)
    messages = (Message("user", "old"), image("a"), *(Message("user", str(n)) for n in range(3)))

    run({}, messages, model, tmp_path, plan=plan_for(model, last_messages=2))

    assert [content for _, content, _ in model.prompts[0]] == ["see", "0", "1", "2"]


def test_without_images_nothing_is_asked(tmp_path: Path) -> None:
    model = FakeModel()

    payload = run({"addAsUserMessage": True}, (Message("user", "x"),), model, tmp_path)

    assert payload.value == "There were no images attached to the message"
    assert payload.inserted is None
    assert model.asked == []


def test_answers_are_cleaned_each_by_itself(tmp_path: Path) -> None:
    tags = ThinkingTags(start="<think>", end="</think>", grace=100, closing_only=False)
    model = FakeModel("<think>hm</think> one", "<think>hm</think> two", "<think>all</think>")

    payload = run(
        {"addAsUserMessage": True, "message": "[IMAGE_BLOCK]"},
        (image("a", "b", "c"),),
        model,
        tmp_path,
        plan=plan_for(model, CleaningRules(thinking=tags, trim_start=True)),
    )

    assert payload.value == f"one{LINE}two"
    assert payload.inserted is not None
    assert payload.inserted.insertions == ((1, Message("user", f"one{LINE}two")),)


@dataclass(frozen=True)
class Inserted:
    id: str
    messages: tuple[Message, ...]
    expected: list[str]
    config: dict[str, Any]


INSERTED = [
    Inserted("behind a single message", (image("a", text="see"),), ["see", "[<a>]"], {}),
    Inserted(
        "in front of the last message",
        (image("a", text="see"), Message("assistant", "ok"), Message("user", "and?")),
        ["see", "ok", "[<a>]", "and?"],
        {},
    ),
    Inserted(
        "all in one",
        (image("a", text="1"), image("b", text="2")),
        ["1", f"[<a>{LINE}<b>]", "2"],
        {},
    ),
    Inserted(
        "of the newest message only",
        (image("a", text="1"), image("b", text="2"), Message("user", "3")),
        ["1", "2", "[<b>]", "3"],
        {"newestMessageOnly": True},
    ),
    Inserted(
        "kept with the conversation: behind each message",
        (image("a", "b", text="1"), Message("user", "2"), image("c", text="3")),
        ["1", f"[<a>{LINE}<b>]", "2", "3", "[<c>]"],
        {"saveVisionResponsesToDiscussionId": True},
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in INSERTED])
def test_descriptions_are_put_into_the_conversation(case: Inserted, tmp_path: Path) -> None:
    config = {"addAsUserMessage": True, "message": "[[IMAGE_BLOCK]]", **case.config}
    context = context_of(
        KIND,
        config,
        messages=case.messages,
        plan=plan_for(FakeModel(names_the_image)),
        request_scope=scope_in(tmp_path),
        discussion_id="talk",
    )

    payload = handle(context)

    assert payload.inserted is not None
    after = payload.inserted.into(case.messages)
    assert [message.content for message in after] == case.expected
    assert [m for m in after if m in case.messages] == list(case.messages)


def test_the_built_in_text_says_who_speaks_and_marks_the_description(tmp_path: Path) -> None:
    payload = run({"addAsUserMessage": True}, (image("a"),), FakeModel("a cat"), tmp_path)

    assert payload.inserted is not None
    ((_, message),) = payload.inserted.insertions
    assert message.role == "user"
    assert "vision system" in message.content
    assert "<image_description>\na cat\n</image_description>" in message.content


def test_variables_of_the_text_are_filled_in_and_marks_in_them_are_not(tmp_path: Path) -> None:
    payload = run(
        {"addAsUserMessage": True, "message": "{agent1Output}: [IMAGE_BLOCK]"},
        (image("a"),),
        FakeModel("a {cat}"),
        tmp_path,
        outputs=["[IMAGE_BLOCK]"],
    )

    assert payload.inserted is not None
    assert payload.inserted.insertions[0][1].content == "[IMAGE_BLOCK]: a {cat}"


CACHED = {"saveVisionResponsesToDiscussionId": True}


def test_an_image_is_described_once_a_conversation(tmp_path: Path) -> None:
    model = FakeModel(names_the_image)
    scope = scope_in(tmp_path)
    talk = {"request_scope": scope, "discussion_id": "talk"}
    first = (image("a", "b"),)
    both = (*first, Message("assistant", "ok"), image("c"))

    said = [
        run(CACHED, messages, model, tmp_path, **talk).value for messages in (first, both, both)
    ]

    assert said == [f"<a>{LINE}<b>", f"<a>{LINE}<b>{LINE}<c>", f"<a>{LINE}<b>{LINE}<c>"]
    assert len(model.asked) == 3
    kept = tmp_path / "Public/DiscussionIds/talk/vision_responses.json"
    assert json.loads(kept.read_text(encoding="utf-8")) == {
        vision_hash(first[0]): f"<a>{LINE}<b>",
        vision_hash(both[2]): "<c>",
    }


def test_conversations_and_keys_do_not_share_descriptions(tmp_path: Path) -> None:
    model = FakeModel(names_the_image)
    messages = (image("a"),)

    for discussion_id, key in (("one", None), ("two", None), ("one", "key"), ("one", None)):
        scope = scope_in(tmp_path, api_key=key)
        run(CACHED, messages, model, tmp_path, request_scope=scope, discussion_id=discussion_id)

    assert len(model.asked) == 3


def test_only_the_newest_messages_are_looked_at(tmp_path: Path) -> None:
    model = FakeModel(names_the_image)
    messages = (image("a"), *(Message("user", str(number)) for number in range(19)), image("b"))

    default = run(CACHED, messages, model, tmp_path, discussion_id="talk")
    more = run(
        {**CACHED, "addAsUserMessage": True, "visionScanMessageLimit": "30"},
        messages,
        model,
        tmp_path,
        discussion_id="talk",
    )

    assert (default.value, more.value) == ("<b>", f"<a>{LINE}<b>")


def test_without_insertion_the_output_is_of_the_last_ten_messages(tmp_path: Path) -> None:
    model = FakeModel(names_the_image)
    messages = (image("a"), *(Message("user", str(number)) for number in range(9)), image("b"))

    alone = run(CACHED, messages, model, tmp_path, discussion_id="talk")
    inserted = run(
        {**CACHED, "addAsUserMessage": True}, messages, model, tmp_path, discussion_id="talk"
    )

    assert (alone.value, inserted.value) == ("<b>", f"<a>{LINE}<b>")


@pytest.mark.parametrize("discussion_id", [None, ""])
def test_without_a_discussion_nothing_is_kept(discussion_id: str | None, tmp_path: Path) -> None:
    model = FakeModel(names_the_image)
    config = {**CACHED, "addAsUserMessage": True, "message": "[IMAGE_BLOCK]"}
    messages = (image("a", text="1"), image("b", text="2"))

    payload = run(config, messages, model, tmp_path, discussion_id=discussion_id)
    run(config, messages, model, tmp_path, discussion_id=discussion_id)

    assert len(model.asked) == 4
    assert payload.inserted is not None
    assert payload.inserted.insertions == ((1, Message("user", f"<a>{LINE}<b>")),)
    assert not (tmp_path / "Public").exists()


def test_an_empty_description_is_asked_for_again(tmp_path: Path) -> None:
    model = FakeModel("", "a cat")
    talk = {"request_scope": scope_in(tmp_path), "discussion_id": "talk"}

    said = [run(CACHED, (image("a"),), model, tmp_path, **talk).value for _ in range(3)]

    assert said == ["", "a cat", "a cat"]
    assert len(model.asked) == 2


def test_what_was_described_before_a_failure_is_kept(tmp_path: Path) -> None:
    def fails(request: ModelRequest) -> str:
        raise WorkflowError("no more")

    scope = scope_in(tmp_path)
    talk = {"request_scope": scope, "discussion_id": "talk"}
    with pytest.raises(WorkflowError):
        run(CACHED, (image("a"), image("b")), FakeModel(names_the_image, fails), tmp_path, **talk)
    model = FakeModel(names_the_image)

    run(CACHED, (image("a"), image("b")), model, tmp_path, **talk)

    assert len(model.asked) == 1


def test_encrypted_descriptions_cannot_be_read_on_the_disk(tmp_path: Path) -> None:
    scope = scope_in(tmp_path, api_key="key", encryptUsingApiKey=True)
    model = FakeModel("canary")
    talk = {"request_scope": scope, "discussion_id": "talk"}

    for _ in range(2):
        run(CACHED, (image("a"),), model, tmp_path, **talk)

    (kept,) = (tmp_path / "Public").rglob("vision_responses.json")
    assert b"canary" not in kept.read_bytes()
    assert len(model.asked) == 1


def test_all_calls_are_counted(tmp_path: Path) -> None:
    context = context_of(
        KIND,
        {"prompt": "What?"},
        messages=(image("a", "b"),),
        plan=plan_for(FakeModel("one two")),
        request_scope=scope_in(tmp_path),
    )

    payload = handle(context)

    assert payload.reply is not None
    assert payload.reply.usage == Usage(prompt_tokens=2, completion_tokens=4, estimated=True)
    assert context.step.endpoint == "Fake"


def test_a_model_is_needed(tmp_path: Path) -> None:
    with pytest.raises(WorkflowError, match="endpointName"):
        run({}, (image("a"),), FakeModel(), tmp_path, plan=None)


def test_the_window_and_prompts_of_the_node_hold_for_each_call(tmp_path: Path) -> None:
    model = FakeModel(names_the_image)

    run(
        {"prompt": "{agent1Output}?"},
        (image("a"),),
        model,
        tmp_path,
        outputs=["Who"],
        plan=plan_for(model, max_images=1, accept_images=False),
    )

    assert model.prompts == [[("user", "Who?", (at("a"),))]]
